/**
 * The kinds of value a setting can have. Each accepts what a YAML file, an environment variable or a flag can hold,
 * names the expected value in its error, and yields the plain value that the program uses.
 */
import { isIPv6 } from 'node:net';
import { z } from 'zod';
import { networkOf } from '../network/networks.ts';
import { decoded } from './mask.ts';

export interface SettingFacts {
  /** The environment variable that sets it. */
  readonly env?: string;
  /** Variables of other names that set it while `env` is not set, the strongest first. */
  readonly aliases?: readonly string[];
  /** The command-line flag that sets it, by its name in the parsed flags: `logUrl` for `--log-url`. */
  readonly flag?: string;
  readonly describe?: string;
  readonly secret?: boolean;
  /** Parts of it may be secrets that only a guardrail's type knows: a problem does not show its value. */
  readonly holdsSecrets?: boolean;
  /** Parts of it may be secrets: this is what is shown of it. */
  readonly masking?: (value: string) => string;
  /** The variable holds it as JSON text. */
  readonly json?: boolean;
  /** The member that identifies a row: the variable's rows are added to the file's and replace those with its value. */
  readonly rowsBy?: string;
  /** A reload changes it in the running gateway. Without this mark a change needs a restart, and a reload lists it. */
  readonly live?: boolean;
  /** An empty value is a value of its own, `none`; everywhere else empty means not set. */
  readonly emptyIsNone?: boolean;
}

const settingFacts = z.registry<SettingFacts>();

/** A setting with a default, given in the form in which a user would write it. */
export function setting<Kind extends z.ZodType>(
  kind: Kind,
  initial: z.util.NoUndefined<z.input<Kind>>,
  facts: SettingFacts = {},
): z.ZodPrefault<Kind> {
  return declared(z.prefault(kind, initial), facts);
}

/** A setting that may stay unset. */
export function optionalSetting<Kind extends z.ZodType>(kind: Kind, facts: SettingFacts = {}): z.ZodOptional<Kind> {
  return declared(z.optional(kind), facts);
}

/** A value inside a setting, parts of which may be secrets. */
export function settingWithSecrets<Schema extends z.ZodType>(schema: Schema): Schema {
  return declared(schema, { holdsSecrets: true });
}

function declared<Schema extends z.ZodType>(schema: Schema, facts: SettingFacts): Schema {
  const { describe: description, live } = facts;
  const shown = { ...(description === undefined ? {} : { description }), ...(live === true ? { 'x-live': true } : {}) };
  const described = Object.keys(shown).length === 0 ? schema : schema.meta(shown);
  settingFacts.add(described, facts);
  return described;
}

/** A mapping of settings, all of which have a default. */
export function section<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.prefault(mapping(shape), {} as z.input<z.ZodObject<Shape, z.core.$strict>> & object);
}

export function mapping<Shape extends z.ZodRawShape>(shape: Shape): z.ZodObject<Shape, z.core.$strict> {
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'invalid_type' ? 'expected a mapping of settings' : undefined),
  });
}

type Scalar = string | number | boolean;

/** For editors a setting is a value of `json`, or text with a reference to a variable. */
function orReference(json: object): Record<string, unknown> {
  return { anyOf: [json, { type: 'string', pattern: '\\$\\{.+\\}' }] };
}

/** A value read from text: `parse` returns undefined for invalid text. `json` is its JSON Schema. */
function scalar<Value>(expected: string, json: object, parse: (text: string) => Value | undefined) {
  const accepted = z.union([z.string(), z.number(), z.boolean()], { error: () => `expected ${expected}` });
  return accepted
    .transform((raw: Scalar, context): Value => {
      const value = parse(String(raw).trim());
      if (value !== undefined) return value;
      context.addIssue({ code: 'custom', message: `expected ${expected}` });
      return z.NEVER;
    })
    .meta(orReference(json));
}

export function text(expected = 'text', pattern?: RegExp) {
  return z.string({ error: () => `expected ${expected}, in quotes` }).refine((value) => pattern?.test(value) ?? true, {
    error: () => `expected ${expected}`,
  });
}

/** Text that is sent in a header (RFC 9110 §5.5). A line feed within it would fail every request. */
export function headerText(expected = 'text') {
  return text(`${expected} of characters that HTTP headers can contain`, /^[\t\x20-\x7e\x80-\xff]*$/);
}

export function whole(min: number, max: number) {
  return scalar(`a whole number from ${min} to ${max}`, { type: 'integer', minimum: min, maximum: max }, (raw) => {
    const value = Number(raw);
    return /^\d+$/.test(raw) && value >= min && value <= max ? value : undefined;
  });
}

export function decimal(min: number, max: number) {
  return scalar(`a number from ${min} to ${max}`, { type: 'number', minimum: min, maximum: max }, (raw) => {
    const value = Number(raw);
    return raw !== '' && value >= min && value <= max ? value : undefined;
  });
}

const toggles = new Map([
  ...['true', 'yes', 'on', '1'].map((word) => [word, true] as const),
  ...['false', 'no', 'off', '0'].map((word) => [word, false] as const),
]);

export function toggle() {
  return scalar('true or false', { type: 'boolean' }, (raw) => toggles.get(raw.toLowerCase()));
}

export function choice<const Word extends string>(...words: readonly Word[]) {
  return choiceOf(words, '');
}

/** A choice whose error has a note, for words that users may expect. */
export function noted<const Word extends string>(note: string, ...words: readonly Word[]) {
  return choiceOf(words, ` (${note})`);
}

function choiceOf<const Word extends string>(words: readonly Word[], note: string) {
  return scalar(`one of ${words.join(', ')}${note}`, { enum: words }, (raw) =>
    words.find((word) => word === raw.toLowerCase()),
  );
}

const unitMs = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
/** The longest time a timer of Node can wait. */
const maxDelayMs = 2 ** 31 - 1;

const durationJson = {
  type: ['string', 'number'],
  pattern: '^\\d+(\\.\\d+)?$|^(\\d+(\\.\\d+)?(ms|s|m|h|d))+$',
  minimum: 0,
};

/** Milliseconds, from `500ms`, `1.5s`, `1m30s`, `2h`, `1d`, or a plain number of seconds. */
export function duration(minMs = 1) {
  const example = 'a duration such as 500ms, 30s or 1m30s (a plain number means seconds)';
  return scalar(`${example}${minMs > 0 ? ', more than 0' : ''}`, durationJson, (raw) => {
    const value = parseDuration(raw);
    return value !== undefined && value >= minMs && value <= maxDelayMs ? value : undefined;
  });
}

function parseDuration(raw: string): number | undefined {
  if (/^\d+(\.\d+)?$/.test(raw)) return Math.round(Number(raw) * unitMs.s);
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(raw)) return undefined;
  let total = 0;
  for (const [, amount, unit] of raw.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) {
    total += Number(amount) * unitMs[unit as keyof typeof unitMs];
  }
  return Math.round(total);
}

const unitBytes: Record<string, number> = { '': 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3 };

const sizeJson = { type: ['string', 'number'], pattern: '^\\d+(\\.\\d+)?\\s*[KMGkmg]?(i?[Bb])?$', minimum: 0 };

/** Bytes, from `512K`, `10M`, `10MB`, `10MiB` (all powers of 1024), or a plain number of bytes. */
export function size(min: string, max: string) {
  return scalar(`a size from ${min} to ${max}, such as 512K or 10M`, sizeJson, (raw) => {
    const value = parseSize(raw);
    const inRange = value !== undefined && value >= (parseSize(min) ?? 0) && value <= (parseSize(max) ?? Infinity);
    return inRange ? value : undefined;
  });
}

function parseSize(raw: string): number | undefined {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?$/i.exec(raw) ?? [];
  if (amount === undefined || unit === undefined) return undefined;
  return Math.round(Number(amount) * (unitBytes[unit.toUpperCase()] ?? 1));
}

/** A list, from a YAML sequence or comma-separated text. Entries are trimmed; empty and repeated ones are dropped. */
export function list(expected = 'a list, or text with commas') {
  const accepted = z.union([z.string(), z.number(), z.array(z.union([z.string(), z.number()]))], {
    error: () => `expected ${expected}`,
  });
  return accepted.transform((raw): readonly string[] => {
    const entries = Array.isArray(raw) ? raw : String(raw).split(',');
    return [...new Set(entries.map((entry) => String(entry).trim()))].filter((entry) => entry !== '');
  });
}

/** A list of declared objects. A variable holds them as a JSON array: see `json` of its facts. */
export function rows<Row extends z.ZodType>(row: Row) {
  return z.array(row, { error: () => 'expected a list of mappings (in a variable: a JSON array of objects)' });
}

/** Names of HTTP headers, in lower case. */
export function headerNames() {
  const expected = 'names of headers, separated by commas';
  return list(expected).transform((entries, context): readonly string[] => {
    if (!entries.every((entry) => /^[\w!#$%&'*+.^`|~-]+$/.test(entry))) {
      context.addIssue({ code: 'custom', message: `expected ${expected}` });
    }
    return entries.map((entry) => entry.toLowerCase());
  });
}

/** Networks in CIDR notation. @param names of several networks */
export function networks(names: Readonly<Record<string, readonly string[]>>) {
  const expected = `networks such as 10.0.0.0/8, or ${Object.keys(names).join(', ')}`;
  return list(expected).transform((entries, context): readonly string[] =>
    entries.flatMap((entry) => {
      const known = names[entry.toLowerCase()] ?? networkOf(entry);
      if (known === undefined) context.addIssue({ code: 'custom', message: `expected ${expected}` });
      return known ?? [];
    }),
  );
}

/** Headers of HTTP/1.1 connections, of the request's body, or that the gateway sets itself. */
const reservedHeader =
  /^(?:host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|content-.*|accept|accept-encoding|x-request-id|traceparent|tracestate|authorization|api-key|x-api-key)$/;

/** Headers by their names, which become lower case. */
export function headerValues() {
  const expected = 'a mapping of names of headers to their values';
  return z
    .record(z.string(), z.union([z.string(), z.number()]), { error: () => `expected ${expected}` })
    .transform((given, context): Readonly<Record<string, string>> => {
      const headers = Object.entries(given).map(([name, value]) => [name.toLowerCase(), String(value)] as const);
      const refuse = (message: string) => context.addIssue({ code: 'custom', message });
      for (const [name, value] of headers) {
        if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name)) refuse('expected names of headers');
        else if (reservedHeader.test(name)) refuse(`the header ${name} is set by the gateway, or holds its API key`);
        else if (!/^[\x20-\x7e]*$/.test(value)) refuse(`expected visible ASCII characters in the header ${name}`);
      }
      if (new Set(headers.map(([name]) => name)).size < headers.length) refuse('expected each header once');
      return Object.fromEntries(headers);
    });
}

/** The system accepts no longer path (`sun_path` with its end). */
const MAX_SOCKET_PATH_BYTES = process.platform === 'linux' ? 107 : 103;

/** Whether this is `unix:` with the absolute path of a socket. */
export function isSocketPath(text: string): boolean {
  const path = text.slice('unix:'.length);
  return /^unix:\/./.test(text) && Buffer.byteLength(path) <= MAX_SOCKET_PATH_BYTES && !path.includes('\0');
}

/** `host:port`, `[::1]:port` or `unix:/path`. */
export function listenAddress() {
  const json = { type: 'string', pattern: '^(.+:\\d+|unix:/.+)$' };
  return scalar('an address such as 127.0.0.1:9090, [::1]:9090 or unix:/run/admin.sock', json, (raw) => {
    if (isSocketPath(raw)) return { host: raw, port: 0 };
    const [, host, port] = /^\[?([^[\]/]+?)\]?:(\d{1,5})$/.exec(raw) ?? [];
    return host === undefined || host === 'unix' || Number(port) > 65535 ? undefined : { host, port: Number(port) };
  });
}

/** Routes, each a method and a path. */
export function routes() {
  const expected = 'routes such as POST /v1/classify';
  return list(expected).transform((entries, context): readonly string[] => {
    if (!entries.every((entry) => /^(GET|POST|PUT|PATCH|DELETE) \/\S*$/.test(entry))) {
      context.addIssue({ code: 'custom', message: `expected ${expected}` });
    }
    return entries;
  });
}

/** HTTP statuses, from numbers from 100 to 599 and classes such as `5xx`, in ascending order. Empty: none. */
export function statuses() {
  const expected = 'HTTP statuses such as 429, 503 or 5xx';
  return list(expected).transform((entries, context): readonly number[] => {
    const found = new Set<number>();
    for (const entry of entries) {
      const first = Number(entry.toLowerCase().replace('xx', '00'));
      if (!/^[1-5](\d\d|xx)$/i.test(entry)) context.addIssue({ code: 'custom', message: `expected ${expected}` });
      const count = /xx$/i.test(entry) ? 100 : 1;
      for (let status = first; status < first + count; status++) found.add(status);
    }
    return [...found].sort((a, b) => a - b);
  });
}

export function httpUrl() {
  return scalar('an address starting with http:// or https://', { type: 'string', pattern: '^https?://' }, (raw) => {
    if (!/^https?:\/\//i.test(raw) || !URL.canParse(raw)) return undefined;
    return raw.replace(/\/+$/, '');
  });
}

const proxyProtocols = ['http:', 'https:', 'socks5:', 'socks5h:'];

/** The address of a proxy, with `http://` when it has no scheme. @param word that is accepted in its place */
export function proxyUrl(word?: string) {
  const expected = 'the address of a proxy, such as http://proxy.example:3128 or socks5h://proxy.example:1080';
  return scalar(word === undefined ? expected : `${expected}, or ${word}`, { type: 'string' }, (raw) => {
    if (raw === word) return word;
    const address = /^[a-z][a-z\d+.-]*:\/\//i.test(raw) ? raw : `http://${raw}`;
    if (!URL.canParse(address)) return undefined;
    const { protocol, hostname, username, password, href } = new URL(address);
    const isEncoded = decoded(username) !== undefined && decoded(password) !== undefined;
    return proxyProtocols.includes(protocol) && hostname !== '' && isEncoded ? href : undefined;
  });
}

/** What is reached without a proxy. Names may have any form; a network or a port that cannot be read is an error. */
export function bypassList() {
  const expected = 'names, addresses and networks such as .example.com, 10.0.0.0/8 or host:8080';
  return list(expected).transform((given, context): readonly string[] => {
    const entries = given.flatMap((entry) => entry.split(/\s+/));
    for (const entry of entries) {
      const [, place = '', port = '0'] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(isIPv6(entry) ? `[${entry}]` : entry) ?? [];
      const isKnown = !place.includes('/') || networkOf(place) !== undefined;
      if (isKnown && Number(port) <= 65_535) continue;
      context.addIssue({ code: 'custom', message: `expected ${expected}` });
    }
    return entries;
  });
}

/** Look-ups in a schema of settings. */
interface Leaf {
  readonly path: readonly string[];
  readonly facts: SettingFacts;
}

/** Every setting with a fixed place, in the order of declaration: all but those of providers. */
export function leavesOf(schema: z.core.$ZodType, path: readonly string[] = []): Leaf[] {
  const facts = settingFacts.get(schema);
  if (facts !== undefined) return [{ path, facts }];
  const bare = unwrapped(schema);
  if (!(bare instanceof z.ZodObject)) return [];
  return Object.entries(bare.shape).flatMap(([key, member]) => leavesOf(member, [...path, key]));
}

/** Whether the setting at `path`, or one around it, is a secret. */
export function isSecretAt(schema: z.core.$ZodType, path: readonly string[]): boolean {
  return nodesAlong(schema, path).some((node) => settingFacts.get(node)?.secret === true);
}

/** Undefined for what is not declared as a setting. */
export function factsAt(schema: z.core.$ZodType, path: readonly string[]): SettingFacts | undefined {
  const node = nodeAt(schema, path);
  return node && settingFacts.get(node);
}

/** The keys that the mapping at `path` may have. */
export function keysAt(schema: z.core.$ZodType, path: readonly string[]): string[] {
  const node = nodeAt(schema, path);
  const bare = node && unwrapped(node);
  return bare instanceof z.ZodObject ? Object.keys(bare.shape) : [];
}

/** The default of a setting or of a whole section, in the form of the file. */
export function initialOf(schema: z.core.$ZodType): unknown {
  const bare = unwrapped(schema);
  if (!(bare instanceof z.ZodObject)) return schema instanceof z.ZodPrefault ? schema.def.defaultValue : undefined;
  const members = Object.entries(bare.shape).map(([key, member]) => [key, initialOf(member)] as const);
  return Object.fromEntries(members.filter(([, initial]) => initial !== undefined));
}

function nodeAt(schema: z.core.$ZodType, path: readonly string[]): z.core.$ZodType | undefined {
  return nodesAlong(schema, path)[path.length];
}

/** The schema and those of its members along the path, as far as they are declared. */
function nodesAlong(schema: z.core.$ZodType, path: readonly string[]): z.core.$ZodType[] {
  const nodes = [schema];
  let node: z.core.$ZodType | undefined = schema;
  for (const key of path) {
    node = memberOf(node, key);
    if (node === undefined) break;
    nodes.push(node);
  }
  return nodes;
}

function memberOf(schema: z.core.$ZodType, key: string): z.core.$ZodType | undefined {
  const bare = unwrapped(schema);
  if (bare instanceof z.ZodObject) return bare.shape[key];
  if (bare instanceof z.ZodRecord) return bare.valueType;
  if (bare instanceof z.ZodArray) return bare.element;
  return undefined;
}

function unwrapped(schema: z.core.$ZodType): z.core.$ZodType {
  const isWrapper = schema instanceof z.ZodPrefault || schema instanceof z.ZodOptional;
  return isWrapper ? unwrapped(schema.def.innerType) : schema;
}
