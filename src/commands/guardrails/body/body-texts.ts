/** The texts of one body with their places in its JSON, and the body with other texts in those places. */
import { isExactNumber, parseExactly } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import type { SystemChange, TextKind, TextPart, TextRole } from '../guardrail-type.ts';
import { type JsonLiteral, jsonLiterals, plainNumber, withLiterals } from '../text/json-text.ts';

export type JsonPath = readonly (string | number)[];

interface TextPlace {
  readonly path: JsonPath;
  /** The text is the name of the member, not its value. */
  readonly isName?: true;
  /** Set when the value at the path is a JSON text or an object, and the part is a string or a number in it. */
  readonly literal?: JsonLiteral;
}

export interface BodyTexts {
  readonly parts: readonly TextPart[];
  /** As many as parts. */
  readonly places: readonly TextPlace[];
  /** Members with content that is no text and was not read, for example token ids: paths with dots. */
  readonly unreadable: readonly string[];
}

/** The author, the kind and the message of a text. */
export interface TextOrigin {
  readonly role: TextRole;
  readonly kind: TextKind;
  readonly message: number;
}

/** Members of objects that the gateway does not know whose values are names or data, not text. */
const noText: ReadonlySet<string> = new Set([
  ...['type', 'id', 'object', 'role', 'status', 'name', 'model', 'index', 'call_id', 'item_id', 'tool_use_id'],
  ...['encrypted_content', 'encrypted_index', 'signature', 'data', 'file_data', 'file_id', 'image_url', 'file_url'],
  ...['media_type', 'mime_type', 'format', 'detail', 'cache_control', 'url', 'container_id', 'result', 'phase'],
]);

export class TextCollector implements BodyTexts {
  readonly parts: TextPart[] = [];
  readonly places: TextPlace[] = [];
  readonly unreadable: string[] = [];

  /** Adds a string; any other value is ignored. */
  text(value: unknown, path: JsonPath, { role, kind, message }: TextOrigin): void {
    if (typeof value !== 'string') return;
    this.parts.push({ role, kind, message, text: value });
    this.places.push({ path });
  }

  /** Adds the strings and numbers of a JSON text, names of members included, or of an object as if it were one. */
  jsonText(value: unknown, path: JsonPath, { role, kind, message }: TextOrigin): void {
    if (value === undefined || value === null) return;
    // What is no JSON, for example arguments that were cut off, is read as it stands.
    if (typeof value === 'string' && !isJson(value)) {
      this.text(value, path, { role, kind, message });
      return;
    }
    for (const literal of jsonLiterals(jsonTextOf(value))) {
      this.parts.push({ role, kind, message, text: literal.text });
      this.places.push({ path, literal });
    }
  }

  /** Adds every string of a value, except where `noText` says so; of arguments all strings. */
  strings(value: unknown, path: JsonPath, origin: TextOrigin, isData = false): void {
    if (typeof value === 'string') this.text(value, path, origin);
    else if (Array.isArray(value)) {
      for (const [index, one] of value.entries()) this.strings(one, [...path, index], origin, isData);
    } else if (isObject(value) && !isExactNumber(value)) {
      for (const name in value) {
        if (isData || !noText.has(name)) this.strings(value[name], [...path, name], origin, isData);
      }
    }
  }

  /** Adds the name of a member. */
  name(path: JsonPath, { role, kind, message }: TextOrigin): void {
    this.parts.push({ role, kind, message, text: String(path.at(-1)) });
    this.places.push({ path, isName: true });
  }

  unread(path: JsonPath): void {
    this.unreadable.push(path.join('.'));
  }
}

/** Kinds of texts that a reader takes for one text when they follow each other. */
const continuable: ReadonlySet<TextKind> = new Set(['text', 'refusal', 'reasoning', 'tool_result']);

/**
 * The parts with `follows`: in one list of content a text continues the text before it, and the first text of a message
 * the last one of the message before it when both have the same author, because such messages are merged for some providers.
 */
function withContinuations({ parts, places }: Pick<BodyTexts, 'parts' | 'places'>): TextPart[] {
  let before: number | undefined;
  return parts.map((part, index) => {
    // Names of authors stand between the texts of messages.
    if (part.kind === 'identifier') return part;
    const { path = [], literal, isName } = places[index] ?? {};
    if (!continuable.has(part.kind) || literal !== undefined || isName) {
      before = undefined;
      return part;
    }
    const follows = before;
    before = index;
    const other = follows === undefined ? undefined : parts[follows];
    if (follows === undefined || other?.role !== part.role || other.kind !== part.kind) return part;
    const otherPath = places[follows]?.path ?? [];
    const isNext =
      part.message === other.message
        ? isContent(path) && listOf(path) === listOf(otherPath)
        : part.kind === 'text' && part.message === other.message + 1 && isMessage(path) && isMessage(otherPath);
    return isNext ? { ...part, follows } : part;
  });
}

/** Names of the members that hold the text of an element of a list of content. */
const contentNames: ReadonlySet<unknown> = new Set(['text', 'refusal']);

/** Whether a path is that of an element of a list, or of its text. */
function isContent(path: JsonPath): boolean {
  return typeof path.at(-1) === 'number' || (typeof path.at(-2) === 'number' && contentNames.has(path.at(-1)));
}

function isMessage(path: JsonPath): boolean {
  const [list, , member] = path;
  return (list === 'messages' || list === 'input') && member === 'content' && (path.length === 3 || isContent(path));
}

function elementOf(path: JsonPath): JsonPath {
  return path.slice(0, path.findLastIndex((name) => typeof name === 'number') + 1);
}

function listOf(path: JsonPath): string {
  return JSON.stringify(elementOf(path).slice(0, -1));
}

/** Whether a text continues the one before it in the same list of content. */
function isContinuation(parts: BodyTexts['parts'], places: BodyTexts['places'], index: number): boolean {
  const part = parts[index];
  return (
    part?.follows !== undefined && parts[part.follows]?.message === part.message && isContent(places[index]?.path ?? [])
  );
}

/** The body with the changed texts; everything else is shared with the body, which stays as it is. */
export function withTexts(body: unknown, { parts, places }: BodyTexts, changes: ReadonlyMap<number, string>): unknown {
  const copies = new Set<object>();
  let changed = body;
  const inJson = new Map<JsonPath, Map<JsonLiteral, string>>();
  const names: { readonly path: JsonPath; readonly text: string }[] = [];
  const emptied: JsonPath[] = [];
  for (const [index, text] of [...changes].sort(([one], [other]) => one - other)) {
    const place = places[index];
    if (place === undefined) continue;
    const { path, literal, isName } = place;
    if (text === '' && isContinuation(parts, places, index)) emptied.push(elementOf(path));
    if (isName) names.push({ path, text });
    else if (literal === undefined) changed = withChangedValue(changed, path, () => text, copies);
    else inJson.set(path, (inJson.get(path) ?? new Map()).set(literal, text));
  }
  for (const [path, literals] of inJson) {
    const ordered = [...literals.keys()].sort((one, other) => one.start - other.start);
    const rewrite = (json: unknown) => {
      const rewritten = withLiterals(jsonTextOf(json), ordered, literals);
      return typeof json === 'string' ? rewritten : parseExactly(rewritten);
    };
    changed = withChangedValue(changed, path, rewrite, copies);
  }
  // The inner ones first: the paths of values have the names before the change.
  for (const { path, text } of names.toSorted((one, other) => other.path.length - one.path.length)) {
    const rename = (object: unknown) => (isObject(object) ? withName(object, String(path.at(-1)), text) : object);
    changed = withChangedValue(changed, path.slice(0, -1), rename, copies);
  }
  // Providers refuse texts without a character. The last ones first: indexes are those before the change.
  for (const path of emptied.toReversed()) {
    const remove = (list: unknown) => (Array.isArray(list) ? list.toSpliced(Number(path.at(-1)), 1) : list);
    changed = withChangedValue(changed, path.slice(0, -1), remove, copies);
  }
  return changed;
}

function withName(object: Readonly<Record<string, unknown>>, before: string, after: string): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name === before ? after : name, value]));
}

function isJson(text: string): boolean {
  try {
    parseExactly(text);
    return true;
  } catch {
    return false;
  }
}

function jsonTextOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** @param copies objects made here, which are changed in place */
function withChangedValue(
  root: unknown,
  path: JsonPath,
  change: (value: unknown) => unknown,
  copies: Set<object> = new Set(),
): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return change(root);
  if (Array.isArray(root) && typeof name === 'number') {
    const copy = copies.has(root) ? root : [...root];
    copies.add(copy);
    copy[name] = withChangedValue(copy[name], rest, change, copies);
    return copy;
  }
  if (!isObject(root)) return root;
  const copy = copies.has(root) ? root : { ...root };
  copies.add(copy);
  const value = withChangedValue(copy[name], rest, change, copies);
  // An assignment to `__proto__` would not add a member.
  Object.defineProperty(copy, name, { value, writable: true, enumerable: true, configurable: true });
  return copy;
}

/** How the texts of one kind of body are found, and how its system text is changed. */
export interface GuardedBody {
  texts(body: unknown): BodyTexts;
  /** Undefined for answers. */
  withSystem?(body: unknown, change: SystemChange): unknown;
}

// The strings of a body that its dialect does not name as texts: members that the gateway does not know, settings and
// ids. A provider may read any of them, so guardrails do too.

/** Members whose strings are words of an API, or made by a machine: rules for texts do not apply to them. */
const settings: ReadonlySet<string> = new Set([
  ...['model', 'object', 'type', 'role', 'status', 'name', 'provider', 'phase', 'format', 'detail', 'mode', 'syntax'],
  ...['tool_choice', 'reasoning_effort', 'effort', 'summary', 'generate_summary', 'verbosity', 'service_tier'],
  ...['truncation', 'include', 'modalities', 'voice', 'size', 'quality', 'style', 'encoding_format', 'ttl', 'error'],
  ...['prompt_cache_key', 'prompt_cache_retention', 'finish_reason', 'stop_reason', 'system_fingerprint', 'logprobs'],
  ...['media_type', 'mime_type', 'search_context_size', 'ranker', 'strictness', 'require_approval', 'signature'],
  ...['encrypted_content', 'encrypted_index', 'obfuscation', 'enum', 'const', 'pattern', 'required', '$ref', 'url'],
  ...['image_url', 'file_url', 'file_data', 'data', 'thought_signature', 'custom_llm_provider', 'user_path'],
]);

/** Whether a member holds a word of an API, or an id. */
export function isSetting(name: string): boolean {
  return settings.has(name) || name.endsWith('id') || name.endsWith('ids');
}

/** A request in which every string is read. */
export function everyTextOfRequest(of: GuardedBody): GuardedBody {
  return {
    ...of,
    texts(body): BodyTexts {
      const texts = of.texts(body);
      const remaining = new RemainingTexts({ ...texts, parts: withContinuations(texts) }, 'user', true);
      remaining.add(body, [], false);
      return remaining;
    },
  };
}

/** Members in which an answer repeats its request. */
const repeated: ReadonlySet<string> = new Set([
  ...['instructions', 'metadata', 'tools', 'prompt', 'text', 'user', 'safety_identifier', 'reasoning', 'input'],
  ...['prompt_cache_options', 'conversation', 'stop_sequence'],
]);

/** An answer in which every string is read, except settings and ids, and what it repeats of its request. */
export function everyTextOfAnswer(of: GuardedBody): GuardedBody {
  return {
    ...of,
    texts(body): BodyTexts {
      const remaining = new RemainingTexts(of.texts(body), 'assistant', false);
      if (!isObject(body)) return remaining;
      for (const name in body) {
        if (!repeated.has(name) && !isSetting(name)) remaining.add(body[name], [name], false);
      }
      return remaining;
    },
  };
}

/** Whether a text is an image, a sound or a file, and no words. */
export function isMedia(text: string): boolean {
  return text.length >= shortestMedia && media.test(text);
}

/** Only numbers of nine digits or more are read: shorter ones are settings and counts. */
const longNumber = /^-?[0-9]{9,}$/;
/** Names of members that are more than words. */
const unusualName = /[^A-Za-z_$-]/;
/** Media in base64, also as a data URL. With white space it counts as text: words look like base64 in lines. */
const media = /^(?:data:[\w.+/-]*(?:;[\w=.+-]*)*;base64,)?[A-Za-z0-9+/_=-]*$/;
const shortestMedia = 256;

class RemainingTexts extends TextCollector {
  readonly #covered: ReadonlySet<string>;
  readonly #author: TextRole;
  readonly #readsSettings: boolean;

  constructor({ parts, places, unreadable }: BodyTexts, author: TextRole, readsSettings: boolean) {
    super();
    for (const part of parts) this.parts.push(part);
    for (const place of places) this.places.push(place);
    for (const path of unreadable) this.unreadable.push(path);
    this.#covered = new Set(places.map(({ path }) => keyOf(path)));
    this.#author = author;
    this.#readsSettings = readsSettings;
  }

  /** @param isBelowSetting whether a member above is a setting */
  add(value: unknown, path: JsonPath, isBelowSetting: boolean): void {
    if (this.#covered.has(keyOf(path))) return;
    if (typeof value === 'string' || typeof value === 'number' || isExactNumber(value)) {
      this.#scalar(value, path, isBelowSetting);
    } else if (Array.isArray(value)) {
      for (const [index, one] of value.entries()) this.add(one, [...path, index], isBelowSetting);
    } else if (isObject(value)) {
      for (const name in value) {
        const at = [...path, name];
        if (this.#readsSettings && unusualName.test(name)) this.name(at, this.#origin(true));
        this.add(value[name], at, isBelowSetting || isSetting(name));
      }
    }
  }

  #scalar(value: unknown, path: JsonPath, isSetting: boolean): void {
    if (isSetting && !this.#readsSettings) return;
    const origin = this.#origin(isSetting);
    if (typeof value !== 'string') {
      const number = plainNumber(JSON.stringify(value));
      if (longNumber.test(number)) this.add(number, path, isSetting);
    } else if (isMedia(value)) this.unread(path);
    else if (value !== '') this.text(value, path, origin);
  }

  #origin(isSetting: boolean): TextOrigin {
    return { role: this.#author, kind: isSetting ? 'other' : 'text', message: -1 };
  }
}

function keyOf(path: JsonPath): string {
  return path.join('\u0000');
}
