/**
 * One pass over the bytes of a JSON text, before it is parsed: counts what would make it slow to work with, and finds
 * names that an object has twice, of which JSON parsers take different ones. Parses nothing and keeps nothing.
 */
import { parseExactly } from './exact-json.ts';

export interface BodyBounds {
  /** Levels of objects and lists. */
  readonly depth: number;
  /** Members of one object, and objects in one list: messages, parts, tools, items. */
  readonly entries: number;
  /** Objects and lists, wherever they are. */
  readonly objects: number;
  /** Members of objects and elements of lists, wherever they are. */
  readonly values: number;
}

export type JsonProblem =
  | { readonly kind: keyof BodyBounds }
  /** `name`: as the text has it the second time. */
  | { readonly kind: 'repeated'; readonly name: string }
  /** A known name in another spelling, which a server that ignores the case of names takes for it. */
  | { readonly kind: 'ambiguous'; readonly name: string };

export const unbounded: BodyBounds = { depth: Infinity, entries: Infinity, objects: Infinity, values: Infinity };

const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const QUOTE = 0x22;
const CASE = 0x20;
const OPTIONS = 'options';

/** The bytes outside of strings that the pass reacts to. */
const structural = new Uint8Array(256);
for (const byte of [QUOTE, COMMA, COLON, OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET]) structural[byte] = 1;

/** What the bytes of a name say about it, as flags. */
const ENDS = 1;
const ESCAPES = 2;
const IS_UPPER = 4;
const IS_WIDE = 8;
const inName = new Uint8Array(256).fill(IS_WIDE, 0x80);
inName.fill(IS_UPPER, 0x41, 0x5b);
inName[QUOTE] = ENDS;
inName[BACKSLASH] = ESCAPES;

/** Up to this many names of an object are compared one by one. */
const FEW = 32;
/** Strings are read byte by byte up to this length, and with a search from there on. */
const SHORT = 64;

/** An object or list that contains the current place. */
interface Open {
  isObject: boolean;
  members: number;
  objects: number;
  /** For each name so far: a number that is the same for names that differ in case only, its beginning, and its end. */
  readonly names: number[];
  /** The names, once there are many, or one cannot be compared by its bytes. */
  known: Set<string> | undefined;
}

/**
 * The name as servers read it that ignore the case of names: Unicode's simple case folding (Go's `encoding/json`), in
 * which U+017F is an `s` and U+212A a `k`.
 */
export function foldedName(name: string): string {
  return name.toLowerCase().replaceAll('\u017f', 's');
}

/** Without the byte order mark that some clients put in front of JSON; a reader may ignore it (RFC 8259 §8.1). */
export function withoutByteOrderMark(body: Buffer): Buffer {
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? body.subarray(3) : body;
}

/**
 * The first problem of a text; an ambiguous name only where there is no other. A text that is no JSON may have one or none:
 * its parser reports it. Names of the whole text's own members are compared without their case, as some servers read them;
 * deeper ones may be a client's own.
 * @param known names of the text's own members, and of those of its `options`, that must not have another spelling
 */
export function jsonProblem(
  bytes: Buffer,
  bounds: BodyBounds,
  findsRepeated = true,
  known?: ReadonlySet<string>,
): JsonProblem | undefined {
  const { length } = bytes;
  const open: Open[] = [];
  let current: Open | undefined;
  let depth = 0;
  let objects = 0;
  let values = 0;
  let ambiguous: JsonProblem | undefined;
  let isInOptions = false;
  /** Whether a string at the current place is the name of a member. */
  let isName = false;
  let at = 0;
  while (true) {
    while (at < length && structural[bytes[at] ?? 0] === 0) at += 1;
    if (at >= length) return ambiguous;
    const byte = bytes[at];
    at += 1;
    if (byte === QUOTE) {
      const from = at;
      let end: number;
      let flags = 0;
      if (isName && findsRepeated) {
        isName = false;
        for (end = from; end < length; end++) {
          flags |= inName[bytes[end] ?? 0] ?? 0;
          if ((flags & (ENDS | ESCAPES)) === 0) continue;
          if ((flags & ESCAPES) !== 0) end = stringEnd(bytes, end);
          break;
        }
        at = end + 1;
      } else {
        end = stringEnd(bytes, from);
        at = end + 1;
        if (current === undefined || !current.isObject || !findsRepeated) continue;
        // A parser more tolerant than the gateway's may take a string for a name where a comma is missing.
        while ((bytes[at] ?? 0xff) <= 0x20) at += 1;
        if (bytes[at] !== COLON) continue;
        flags = ESCAPES;
      }
      // An escape may stand for any of them.
      if ((flags & ESCAPES) !== 0) flags |= IS_UPPER | IS_WIDE;
      if (current === undefined) continue;
      if (isRepeated(current, bytes, from, end, depth === 1, flags)) {
        return { kind: 'repeated', name: nameOf(bytes, from, end) };
      }
      if (known === undefined || depth > 2 || (depth === 2 && !isInOptions)) continue;
      if (depth === 1) isInOptions = end - from >= OPTIONS.length && nameOf(bytes, from, end) === OPTIONS;
      if ((flags & (IS_UPPER | IS_WIDE)) === 0 || ambiguous !== undefined) continue;
      const name = nameOf(bytes, from, end);
      const folded = foldedName(name);
      if (folded !== name && known.has(folded)) ambiguous = { kind: 'ambiguous', name };
    } else if (byte === COMMA) {
      values += 1;
      if (values > bounds.values) return { kind: 'values' };
      if (current === undefined || !current.isObject) continue;
      isName = true;
      if (++current.members >= bounds.entries) return { kind: 'entries' };
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      values += 1;
      objects += 1;
      if (objects > bounds.objects) return { kind: 'objects' };
      if (values > bounds.values) return { kind: 'values' };
      if (current !== undefined && !current.isObject && ++current.objects > bounds.entries) return { kind: 'entries' };
      if (depth >= bounds.depth) return { kind: 'depth' };
      isName = byte === OPEN_BRACE;
      current = open[depth];
      if (current === undefined) {
        current = { isObject: isName, members: 0, objects: 0, names: [], known: undefined };
        open.push(current);
      } else {
        current.isObject = isName;
        current.members = 0;
        current.objects = 0;
        current.names.length = 0;
        current.known = undefined;
      }
      depth += 1;
    } else if (byte !== COLON) {
      if (depth === 0) return ambiguous;
      isName = false;
      depth -= 1;
      current = depth === 0 ? undefined : open[depth - 1];
    }
  }
}

/** @param from after the opening quote; the result is at the closing one, or behind the text */
export function stringEnd(bytes: Buffer, from: number): number {
  const { length } = bytes;
  let at = from;
  while (true) {
    for (const pause = Math.min(at + SHORT, length); at < pause; at++) {
      const byte = bytes[at];
      if (byte === QUOTE) return at;
      if (byte === BACKSLASH) at += 1;
    }
    if (at >= length) return length;
    const quote = bytes.indexOf(QUOTE, at);
    if (quote === -1) return length;
    let slashes = 0;
    while (quote - slashes > at && bytes[quote - 1 - slashes] === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return quote;
    at = quote + 1;
  }
}

/** @param flags what the bytes of the name say */
function isRepeated(
  open: Open,
  bytes: Buffer,
  from: number,
  end: number,
  ignoresCase: boolean,
  flags: number,
): boolean {
  const { names } = open;
  if (open.known === undefined) {
    const needsText = (flags & (ignoresCase ? ESCAPES | IS_WIDE : ESCAPES)) !== 0;
    if (names.length < 3 * FEW && !needsText) {
      const key = ((end - from) << 16) | (((bytes[from] ?? 0) | CASE) << 8) | ((bytes[end - 1] ?? 0) | CASE);
      for (let at = 0; at < names.length; at += 3) {
        if (names[at] !== key) continue;
        if (isSame(bytes, names[at + 1] ?? 0, names[at + 2] ?? 0, from, end, ignoresCase)) return true;
      }
      names.push(key, from, end);
      return false;
    }
    open.known = new Set();
    for (let at = 0; at < names.length; at += 3) {
      open.known.add(keyOf(bytes, names[at + 1] ?? 0, names[at + 2] ?? 0, ignoresCase));
    }
  }
  const key = keyOf(bytes, from, end, ignoresCase);
  if (open.known.has(key)) return true;
  open.known.add(key);
  return false;
}

function isSame(bytes: Buffer, one: number, oneEnd: number, other: number, end: number, ignoresCase: boolean): boolean {
  const length = end - other;
  if (oneEnd - one !== length) return false;
  let differs = 0;
  for (let at = 0; at < length; at++) {
    const difference = (bytes[one + at] ?? 0) ^ (bytes[other + at] ?? 0);
    if ((difference & ~CASE) !== 0) return false;
    differs |= difference;
  }
  if (differs === 0) return true;
  return ignoresCase && keyOf(bytes, one, oneEnd, true) === keyOf(bytes, other, end, true);
}

function keyOf(bytes: Buffer, from: number, end: number, ignoresCase: boolean): string {
  const name = nameOf(bytes, from, end);
  return ignoresCase ? foldedName(name) : name;
}

/** A string of the text without its quotes. @returns its bytes as text where it is malformed */
export function nameOf(bytes: Buffer, from: number, end: number): string {
  const text = bytes.toString('utf8', from, end);
  if (!text.includes('\\')) return text;
  try {
    return String(parseExactly(`"${text}"`));
  } catch {
    return text;
  }
}
