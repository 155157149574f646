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

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const CASE = 0x20;

/** Up to this many names of an object are compared one by one. */
const FEW = 16;
/** Strings are read byte by byte up to this length, and with a search from there on. */
const SHORT = 48;

/** An object or list that contains the current place. */
interface Open {
  isObject: boolean;
  members: number;
  objects: number;
  /** Beginning and end of the names so far, in turn. */
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
  const open: Open[] = [];
  let depth = 0;
  let objects = 0;
  let values = 0;
  let current: Open | undefined;
  let ambiguous: JsonProblem | undefined;
  let inOptions = false;
  const { length } = bytes;
  for (let at = 0; at < length; at++) {
    const byte = bytes[at] ?? 0;
    if (byte <= 0x20) continue;
    if (byte === QUOTE) {
      const from = at + 1;
      const end = stringEnd(bytes, from);
      at = end;
      if (!findsRepeated || current === undefined || !current.isObject) continue;
      let next = end + 1;
      while ((bytes[next] ?? 0xff) <= 0x20) next += 1;
      if (bytes[next] !== COLON) continue;
      at = next;
      if (isRepeated(current, bytes, from, end, depth === 1)) {
        return { kind: 'repeated', name: nameOf(bytes, from, end) };
      }
      if (known === undefined || depth > 2 || (depth === 2 && !inOptions)) continue;
      const name = nameOf(bytes, from, end);
      if (depth === 1) inOptions = name === 'options';
      const folded = foldedName(name);
      if (folded !== name && known.has(folded)) ambiguous ??= { kind: 'ambiguous', name };
    } else if (byte === COMMA) {
      values += 1;
      if (values > bounds.values) return { kind: 'values' };
      if (current?.isObject === true && ++current.members >= bounds.entries) return { kind: 'entries' };
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      values += 1;
      objects += 1;
      if (objects > bounds.objects) return { kind: 'objects' };
      if (values > bounds.values) return { kind: 'values' };
      if (current?.isObject === false && ++current.objects > bounds.entries) return { kind: 'entries' };
      if (depth >= bounds.depth) return { kind: 'depth' };
      current = open[depth];
      if (current === undefined) {
        current = { isObject: false, members: 0, objects: 0, names: [], known: undefined };
        open.push(current);
      }
      current.isObject = byte === OPEN_BRACE;
      current.members = 0;
      current.objects = 0;
      current.names.length = 0;
      current.known = undefined;
      depth += 1;
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      if (depth === 0) return ambiguous;
      depth -= 1;
      current = depth === 0 ? undefined : open[depth - 1];
    }
  }
  return ambiguous;
}

/** @param from after the opening quote; the result is at the closing one, or behind the text */
function stringEnd(bytes: Buffer, from: number): number {
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

function isRepeated(open: Open, bytes: Buffer, from: number, end: number, ignoresCase: boolean): boolean {
  const { names } = open;
  if (open.known === undefined) {
    if (names.length < 2 * FEW && !needsText(bytes, from, end, ignoresCase)) {
      for (let at = 0; at < names.length; at += 2) {
        if (isSame(bytes, names[at] ?? 0, names[at + 1] ?? 0, from, end, ignoresCase)) return true;
      }
      names.push(from, end);
      return false;
    }
    open.known = new Set();
    for (let at = 0; at < names.length; at += 2) {
      open.known.add(keyOf(bytes, names[at] ?? 0, names[at + 1] ?? 0, ignoresCase));
    }
  }
  const key = keyOf(bytes, from, end, ignoresCase);
  if (open.known.has(key)) return true;
  open.known.add(key);
  return false;
}

/** Whether the name has an escape, or letters whose case is not a bit. */
function needsText(bytes: Buffer, from: number, end: number, ignoresCase: boolean): boolean {
  for (let at = from; at < end; at++) {
    const byte = bytes[at] ?? 0;
    if (byte === BACKSLASH || (ignoresCase && byte >= 0x80)) return true;
  }
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

function nameOf(bytes: Buffer, from: number, end: number): string {
  const text = bytes.toString('utf8', from, end);
  if (!text.includes('\\')) return text;
  try {
    return String(parseExactly(`"${text}"`));
  } catch {
    return text;
  }
}
