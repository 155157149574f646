/** JSON of requests and answers: reading members, rewriting them in the bytes, and refusing a request. */

import { nameOf, stringEnd } from '../../json/body-scan.ts';
import { isExactNumber, parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';

/** A JSON object of unchecked members: a translator reads the known ones and keeps the rest. */
export type JsonObject = { readonly [member: string]: unknown };

/** The value when it is a string that is not empty: clients send `''` and `null` for "not set". */
export function filled(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The object in a JSON text; undefined when the text is not one. */
export function parsedObject(text: string): JsonObject | undefined {
  try {
    const parsed = parseExactly(text);
    return isObject(parsed) && !isExactNumber(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** The arguments of a tool call, which most clients and servers send as a text; undefined when not a JSON object. */
export function callArguments(given: unknown): JsonObject | undefined {
  if (given === undefined || given === null || given === '') return {};
  if (typeof given === 'string') return parsedObject(given);
  return isObject(given) ? given : undefined;
}

/** The members that have a value: clients send `null` for "not set". */
export function withoutNulls(members: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null && value !== undefined));
}

/** Whether the value means the default: null, an empty text or an empty list. */
export function isUnset(value: unknown): boolean {
  return value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0);
}

/** A count of tokens; 0 where it is not a number. */
export function tokensOrZero(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

/** A count of tokens as a provider reports it; null where it is not one. */
export function reportedCount(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** The members of a provider's report that have a value and are no counts: they stay in the translated report. */
export function unreadableCounts(report: JsonObject, names: readonly string[]): JsonObject {
  const isUnreadable = (name: string) => (report[name] ?? null) !== null && reportedCount(report[name]) === null;
  return Object.fromEntries(names.filter(isUnreadable).map((name) => [name, report[name]]));
}

/** Null where a side is not known. */
export function totalOf(input: number | null, output: number | null): number | null {
  return input === null || output === null ? null : input + output;
}

/** The refusal of a request, with the members of the error envelope. A retry of the same request cannot succeed. */
export interface TranslationRefusal {
  readonly status: 400 | 404;
  readonly code: string | null;
  /** Path of the member at fault, for example `input[0].role`. */
  readonly param: string | null;
  readonly message: string;
}

export interface Refused {
  readonly ok: false;
  readonly refusal: TranslationRefusal;
}

export function refuse(code: string | null, param: string | null, message: string, status: 400 | 404 = 400): Refused {
  return { ok: false, refusal: { status, code, param, message } };
}

/** A 400 `missing_required_parameter`. @param param path of the member */
export function refuseMissing(param: string): Refused {
  return refuse('missing_required_parameter', param, `Missing required parameter: '${param}'.`);
}

/** The content of a `data:` URL (RFC 2397). */
interface DataUrl {
  /** Lower case, without parameters; empty when the URL has none. */
  readonly mediaType: string;
  readonly base64: string;
}

/** Undefined when the text is not a data URL. The payload may be megabytes, so it is not checked. */
export function parseDataUrl(url: string): DataUrl | undefined {
  if (!/^data:/i.test(url)) return undefined;
  const comma = url.indexOf(',');
  if (comma === -1) return undefined;
  const [mediaType = '', ...parameters] = url.slice('data:'.length, comma).split(';');
  const payload = url.slice(comma + 1);
  const encoded = parameters.some((parameter) => parameter.trim().toLowerCase() === 'base64');
  return {
    mediaType: mediaType.trim().toLowerCase(),
    base64: encoded ? payload : percentDecoded(payload).toString('base64'),
  };
}

function percentDecoded(text: string): Buffer {
  try {
    return Buffer.from(decodeURIComponent(text));
  } catch {
    return Buffer.from(text);
  }
}

// Changes top-level members of a JSON object in its text; all other bytes stay unchanged.

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/**
 * Replaces, adds or (with undefined) deletes members. Parsing the result gives the same as the changes on the parsed
 * object; of a repeated name, every occurrence is changed. New members come last.
 * @param bytes a JSON object that is known to parse
 * @param changes member name → JSON text
 * @throws Error when the text is not an object
 */
export function rewriteMembers(bytes: Buffer, changes: Readonly<Record<string, string | undefined>>): Buffer {
  const replaced: string[] = [];
  const parts: Buffer[] = [];
  let copied = 0;
  /** Whether the result already has a member before the current place. */
  let kept = false;
  let at = skipSpace(bytes, 0);
  if (bytes[at] !== OPEN_BRACE) throw new Error('the text is not a JSON object');
  at += 1;

  while (true) {
    const memberStart = at;
    at = skipSpace(bytes, at);
    if (bytes[at] === CLOSE_BRACE) break;
    const nameEnd = stringEnd(bytes, at + 1);
    const name = nameOf(bytes, at + 1, nameEnd);
    at = skipSpace(bytes, skipSpace(bytes, nameEnd + 1) + 1);
    const valueStart = at;
    const valueEnd = endOfValue(bytes, at);
    at = skipSpace(bytes, valueEnd);
    const hasMore = bytes[at] === COMMA;

    if (!Object.hasOwn(changes, name)) kept = true;
    else if (changes[name] !== undefined) {
      parts.push(bytes.subarray(copied, valueStart), Buffer.from(changes[name]));
      copied = valueEnd;
      replaced.push(name);
      kept = true;
    } else {
      // One comma is removed with the member: the one before it, or after it when the member is the first.
      parts.push(bytes.subarray(copied, Math.max(copied, kept ? memberStart - 1 : memberStart)));
      copied = kept || !hasMore ? at : at + 1;
    }
    if (!hasMore) break;
    at += 1;
  }

  for (const name in changes) {
    if (changes[name] === undefined || replaced.includes(name)) continue;
    parts.push(bytes.subarray(copied, at), Buffer.from(`${kept ? ',' : ''}${JSON.stringify(name)}:${changes[name]}`));
    copied = at;
    kept = true;
  }
  if (parts.length === 0) return bytes;
  parts.push(bytes.subarray(copied));
  return Buffer.concat(parts);
}

/** The members of a JSON object in its text, in order, including repeated names. */
export function membersIn(bytes: Buffer): { readonly name: string; readonly value: Buffer }[] {
  const members: { readonly name: string; readonly value: Buffer }[] = [];
  let at = skipSpace(bytes, 0) + 1;
  for (at = skipSpace(bytes, at); bytes[at] === QUOTE; at = skipSpace(bytes, at + 1)) {
    const nameEnd = stringEnd(bytes, at + 1);
    const name = nameOf(bytes, at + 1, nameEnd);
    const valueStart = skipSpace(bytes, skipSpace(bytes, nameEnd + 1) + 1);
    const valueEnd = endOfValue(bytes, valueStart);
    members.push({ name, value: bytes.subarray(valueStart, valueEnd) });
    at = skipSpace(bytes, valueEnd);
    if (bytes[at] !== COMMA) break;
  }
  return members;
}

/** The elements of a JSON array in its text, in order. */
export function elementsIn(bytes: Buffer): Buffer[] {
  const elements: Buffer[] = [];
  let at = skipSpace(bytes, skipSpace(bytes, 0) + 1);
  while (at < bytes.length && bytes[at] !== CLOSE_BRACKET) {
    const end = endOfValue(bytes, at);
    elements.push(bytes.subarray(at, end));
    at = skipSpace(bytes, end);
    if (bytes[at] !== COMMA) break;
    at = skipSpace(bytes, at + 1);
  }
  return elements;
}

function skipSpace(bytes: Buffer, from: number): number {
  let at = from;
  // Space, tab, line feed and carriage return are the only bytes up to 0x20 outside of a JSON string.
  while ((bytes[at] ?? 0xff) <= 0x20) at += 1;
  return at;
}

function endOfValue(bytes: Buffer, from: number): number {
  const first = bytes[from];
  if (first === QUOTE) return stringEnd(bytes, from + 1) + 1;
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return endOfNested(bytes, from);
  let at = from;
  for (let byte = bytes[at]; byte !== undefined && byte > 0x20; byte = bytes[at]) {
    if (byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET) break;
    at += 1;
  }
  return at;
}

function endOfNested(bytes: Buffer, from: number): number {
  let depth = 0;
  let at = from;
  while (at < bytes.length) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      at = stringEnd(bytes, at + 1) + 1;
      continue;
    }
    at += 1;
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1;
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth -= 1;
      if (depth === 0) return at;
    }
  }
  return at;
}

// Events of an answer as the client gets them.

/** The end marker of a stream, in the data of its last event. */
export const END_MARKER = '[DONE]';

export type ClientEvent = object | typeof END_MARKER;

const END = Buffer.from(`data: ${END_MARKER}\n\n`);

/**
 * One whole server-sent event, for a single write to the socket: some clients drop events that are split.
 * @param isNamed whether the event has its `type` as name
 */
export function encodeEvent(event: ClientEvent, isNamed: boolean): Buffer {
  if (event === END_MARKER) return END;
  const name = isNamed && 'type' in event && typeof event.type === 'string' ? `event: ${event.type}\n` : '';
  return Buffer.from(`${name}data: ${JSON.stringify(event)}\n\n`);
}
