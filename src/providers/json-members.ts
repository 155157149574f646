/** Changes top-level members of a JSON object in its text; all other bytes stay unchanged. */
import { nameOf, stringEnd } from '../json/body-scan.ts';

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
  const added = new Set(Object.keys(changes).filter((name) => changes[name] !== undefined));
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
      added.delete(name);
      kept = true;
    } else {
      // One comma is removed with the member: the one before it, or after it when the member is the first.
      parts.push(bytes.subarray(copied, Math.max(copied, kept ? memberStart - 1 : memberStart)));
      copied = kept || !hasMore ? at : at + 1;
    }
    if (!hasMore) break;
    at += 1;
  }

  for (const name of added) {
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
