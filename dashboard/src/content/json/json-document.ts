/**
 * JSON read for display: a flat list of values in the order of the text, each with its place in the text. Numbers are
 * never converted, members with the same name are all kept, nothing is recursive, and a text that breaks off or is
 * wrong keeps the values before the mistake.
 */
import { runNow, type Sliced } from '../sliced.ts';

export type JsonKind = 'object' | 'array' | 'string' | 'number' | 'true' | 'false' | 'null';

const kinds: readonly JsonKind[] = ['object', 'array', 'string', 'number', 'true', 'false', 'null'];
const OBJECT = 0;
const ARRAY = 1;
const STRING = 2;
const NUMBER = 3;
const literals = [
  { word: 'true', code: 4 },
  { word: 'false', code: 5 },
  { word: 'null', code: 6 },
];

export interface JsonProblem {
  /** Index in the text of the first character that is not valid. */
  readonly offset: number;
  readonly message: string;
}

export interface JsonDocument {
  readonly text: string;
  /** Number of values. Value 0 is the root; a value is followed by all values inside it. */
  readonly count: number;
  readonly kinds: Uint8Array;
  readonly starts: Uint32Array;
  /** Index in the text after the value; of a container that is not closed, the end of what was read. */
  readonly ends: Uint32Array;
  /** The value after this one and everything inside it. */
  readonly nexts: Uint32Array;
  readonly parents: Int32Array;
  /** 0 for the first child of its parent. */
  readonly ordinals: Uint32Array;
  readonly childCounts: Uint32Array;
  /** Of members: where the quoted name begins and ends; -1 for others. */
  readonly keyStarts: Int32Array;
  readonly keyEnds: Int32Array;
  /** Why the rest of the text was not read. */
  readonly problem: JsonProblem | undefined;
}

/** One value of a document. */
export interface JsonNode {
  readonly document: JsonDocument;
  readonly index: number;
}

/** A text with more values is shown up to this number: the lists take 29 bytes for each. */
const MAX_VALUES = 4_000_000;
const SPACE = 0x20;
const BACKSLASH = 0x5c;
const STEPS_BETWEEN_YIELDS = 2_000;
const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const whiteSpacePattern = /[ \t\n\r]*/y;

export function readJson(text: string): JsonDocument {
  return runNow(scanJson(text));
}

export function* scanJson(text: string, maxValues = MAX_VALUES): Sliced<JsonDocument> {
  let capacity = Math.max(16, Math.min(maxValues, Math.ceil(text.length / 16)));
  let lists = allocate(capacity);
  let count = 0;
  let at = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  let container = -1;
  let keyStart = -1;
  let keyEnd = -1;
  let problem: JsonProblem | undefined;
  let expecting = 'value' as Expecting;

  const fail = (message: string) => {
    problem = { offset: at, message: at >= text.length ? 'The text ends before the value is complete.' : message };
  };
  const add = (kind: number, end: number): number => {
    if (count === capacity) {
      capacity *= 2;
      lists = widen(lists, capacity);
    }
    const index = count;
    count += 1;
    lists.kinds[index] = kind;
    lists.starts[index] = at;
    lists.ends[index] = end;
    lists.nexts[index] = count;
    lists.parents[index] = container;
    lists.keyStarts[index] = keyStart;
    lists.keyEnds[index] = keyEnd;
    keyStart = -1;
    keyEnd = -1;
    if (container >= 0) {
      const ordinal = lists.childCounts[container] ?? 0;
      lists.ordinals[index] = ordinal;
      lists.childCounts[container] = ordinal + 1;
    }
    return index;
  };
  const close = () => {
    lists.ends[container] = at;
    lists.nexts[container] = count;
    container = lists.parents[container] ?? -1;
    expecting = container < 0 ? 'end' : 'separator';
  };
  /** @param stringEnd where the string here ends, -1 when it is not closed */
  const readValue = (stringEnd: number) => {
    if (count >= maxValues) {
      problem = { offset: at, message: `Only the first ${maxValues} values are read.` };
      return;
    }
    const character = text[at];
    const after = container < 0 ? 'end' : 'separator';
    if (character === '{' || character === '[') {
      container = add(character === '{' ? OBJECT : ARRAY, at + 1);
      at += 1;
      expecting = character === '{' ? 'first member' : 'first element';
      return;
    }
    if (character === '"') {
      if (stringEnd < 0) {
        add(STRING, text.length);
        at = text.length;
        fail('');
        return;
      }
      add(STRING, stringEnd);
      at = stringEnd;
      expecting = after;
      return;
    }
    numberPattern.lastIndex = at;
    if (numberPattern.test(text)) {
      const end = numberPattern.lastIndex;
      add(NUMBER, end);
      at = end;
      expecting = after;
      return;
    }
    const literal = literals.find(({ word }) => text.startsWith(word, at));
    if (literal === undefined) {
      fail('Expected a value.');
      return;
    }
    add(literal.code, at + literal.word.length);
    at += literal.word.length;
    expecting = after;
  };
  const readName = (end: number) => {
    if (text[at] !== '"' || end < 0) {
      if (text[at] === '"') at = text.length;
      fail('Expected the name of a member in double quotes.');
      return;
    }
    const start = at;
    whiteSpacePattern.lastIndex = end;
    whiteSpacePattern.test(text);
    at = whiteSpacePattern.lastIndex;
    if (text[at] !== ':') {
      fail('Expected a colon.');
      return;
    }
    at += 1;
    keyStart = start;
    keyEnd = end;
    expecting = 'value';
  };

  for (let steps = 0; problem === undefined; steps += 1) {
    if (steps % STEPS_BETWEEN_YIELDS === STEPS_BETWEEN_YIELDS - 1) yield;
    if (text.charCodeAt(at) <= SPACE) {
      whiteSpacePattern.lastIndex = at;
      whiteSpacePattern.test(text);
      at = whiteSpacePattern.lastIndex;
    }
    if (expecting === 'end') {
      if (at < text.length) fail('Expected the end: the text goes on after the value.');
      break;
    }
    const character = text[at];
    let stringEnd = -1;
    if (character === '"' && expecting !== 'separator') {
      stringEnd = endOfPlainString(text, at);
      if (stringEnd < 0) stringEnd = yield* endOfString(text, at);
    }
    switch (expecting) {
      case 'value':
        readValue(stringEnd);
        break;
      case 'first element':
        if (character === ']') {
          at += 1;
          close();
        } else readValue(stringEnd);
        break;
      case 'first member':
      case 'member':
        if (expecting === 'first member' && character === '}') {
          at += 1;
          close();
        } else readName(stringEnd);
        break;
      case 'separator': {
        const isObject = lists.kinds[container] === OBJECT;
        if (character === (isObject ? '}' : ']')) {
          at += 1;
          close();
        } else if (character === ',') {
          at += 1;
          expecting = isObject ? 'member' : 'value';
        } else fail(isObject ? 'Expected a comma or }.' : 'Expected a comma or ].');
        break;
      }
    }
  }
  // Containers that the text does not close end where reading stopped.
  for (let open = container; open >= 0; open = lists.parents[open] ?? -1) {
    lists.ends[open] = at;
    lists.nexts[open] = count;
  }
  return { text, count, ...lists, problem };
}

type Expecting = 'value' | 'first element' | 'first member' | 'member' | 'separator' | 'end';

function allocate(length: number) {
  return {
    kinds: new Uint8Array(length),
    starts: new Uint32Array(length),
    ends: new Uint32Array(length),
    nexts: new Uint32Array(length),
    parents: new Int32Array(length),
    ordinals: new Uint32Array(length),
    childCounts: new Uint32Array(length),
    keyStarts: new Int32Array(length),
    keyEnds: new Int32Array(length),
  };
}

function widen(lists: ReturnType<typeof allocate>, length: number): ReturnType<typeof allocate> {
  const wider = allocate(length);
  wider.kinds.set(lists.kinds);
  wider.starts.set(lists.starts);
  wider.ends.set(lists.ends);
  wider.nexts.set(lists.nexts);
  wider.parents.set(lists.parents);
  wider.ordinals.set(lists.ordinals);
  wider.childCounts.set(lists.childCounts);
  wider.keyStarts.set(lists.keyStarts);
  wider.keyEnds.set(lists.keyEnds);
  return wider;
}

const ESCAPES_BETWEEN_YIELDS = 10_000;

/** The index after the closing quote of the string that begins at `start`; -1 when it is not closed, or has escapes. */
function endOfPlainString(text: string, start: number): number {
  const quote = text.indexOf('"', start + 1);
  return quote < 0 || text.charCodeAt(quote - 1) === BACKSLASH ? -1 : quote + 1;
}

/** The same for a string with escapes. */
function* endOfString(text: string, start: number): Sliced<number> {
  let from = start + 1;
  let quote = text.indexOf('"', from);
  for (let escapes = 1; quote >= 0; escapes += 1) {
    const backslash = text.indexOf('\\', from);
    if (backslash < 0 || backslash > quote) return quote + 1;
    from = backslash + 2;
    if (quote < from) quote = text.indexOf('"', from);
    if (escapes % ESCAPES_BETWEEN_YIELDS === 0) yield;
  }
  return -1;
}

/** The first value of the document; undefined when there is none. */
export function rootOf(document: JsonDocument): JsonNode | undefined {
  return document.count === 0 ? undefined : { document, index: 0 };
}

export function kindOf({ document, index }: JsonNode): JsonKind {
  return kinds[document.kinds[index] ?? 0] ?? 'null';
}

export function isContainer(node: JsonNode): boolean {
  return (node.document.kinds[node.index] ?? 0) <= ARRAY;
}

/** The value as it stands in the text. */
export function sourceOf({ document, index }: JsonNode): string {
  return document.text.slice(document.starts[index], document.ends[index]);
}

/** The name of a member; undefined for elements and the root. */
export function nameOf({ document, index }: JsonNode): string | undefined {
  const start = document.keyStarts[index] ?? -1;
  return start < 0 ? undefined : decodeString(document.text.slice(start, document.keyEnds[index]));
}

/** The text of a string; undefined for other values and when there is no value. */
export function stringOf(node: JsonNode | undefined): string | undefined {
  return node === undefined || kindOf(node) !== 'string' ? undefined : decodeString(sourceOf(node));
}

/** At most `max` characters from the beginning of a string, without reading all of it. */
export function beginningOf(node: JsonNode, max: number): { readonly text: string; readonly complete: boolean } {
  const { document, index } = node;
  const start = document.starts[index] ?? 0;
  const end = document.ends[index] ?? 0;
  if (end - start <= max + 2) return { text: decodeString(document.text.slice(start, end)), complete: true };
  const text = decodeString(document.text.slice(start, Math.min(end, start + max * 6)));
  return text.length <= max && start + max * 6 >= end
    ? { text, complete: true }
    : { text: cut(text, max), complete: false };
}

function cut(text: string, max: number): string {
  const last = text.charCodeAt(max - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? max - 1 : max);
}

/** The children of a container in the order of the text. */
export function* childrenOf({ document, index }: JsonNode): Generator<JsonNode> {
  if ((document.kinds[index] ?? 0) > ARRAY) return;
  const end = document.nexts[index] ?? 0;
  for (let child = index + 1; child < end; child = document.nexts[child] ?? end) yield { document, index: child };
}

export function childCountOf({ document, index }: JsonNode): number {
  return document.childCounts[index] ?? 0;
}

/** The member of that name; of several, the last one, as `JSON.parse` chooses. */
export function memberOf(node: JsonNode | undefined, name: string): JsonNode | undefined {
  if (node === undefined || kindOf(node) !== 'object') return undefined;
  let found: JsonNode | undefined;
  for (const child of childrenOf(node)) if (hasName(child, name)) found = child;
  return found;
}

/** Without decoding the name, unless it has escapes. */
function hasName({ document, index }: JsonNode, name: string): boolean {
  const start = (document.keyStarts[index] ?? 0) + 1;
  const length = (document.keyEnds[index] ?? 0) - 1 - start;
  if (length === name.length && document.text.startsWith(name, start)) return true;
  if (length <= name.length) return false;
  return document.text.slice(start, start + length).includes('\\') && nameOf({ document, index }) === name;
}

/** The elements of an array; nothing for other values. */
export function elementsOf(node: JsonNode | undefined): JsonNode[] {
  return node === undefined || kindOf(node) !== 'array' ? [] : [...childrenOf(node)];
}

/** A string or number as text; undefined for other values. */
export function scalarOf(node: JsonNode | undefined): string | undefined {
  if (node === undefined) return undefined;
  const kind = kindOf(node);
  if (kind === 'string') return stringOf(node);
  return kind === 'number' ? sourceOf(node) : undefined;
}

const escapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

/** The text of a quoted JSON string. Escapes that JSON does not know stand for their character. */
export function decodeString(quoted: string): string {
  const closed = quoted.length > 1 && quoted.endsWith('"');
  const inside = quoted.slice(1, closed ? -1 : undefined);
  if (!inside.includes('\\')) return inside;
  let text = '';
  for (let at = 0; at < inside.length; ) {
    const end = endOfPart(inside, at);
    text += decodePart(inside.slice(at, end));
    at = end;
  }
  return text;
}

const PART = 32_768;
/** Characters of the longest escape, `\u0000`. */
const LONGEST_ESCAPE = 6;

/** The end of a part that begins at `at`, not within an escape. */
function endOfPart(inside: string, at: number): number {
  const end = at + PART;
  if (end >= inside.length) return inside.length;
  const backslash = inside.lastIndexOf('\\', end - 1);
  if (backslash < end - LONGEST_ESCAPE || backslash < at) return end;
  let run = backslash;
  while (run > at && inside.charCodeAt(run - 1) === BACKSLASH) run -= 1;
  if (run > at) return run;
  // Nothing but backslashes, in pairs from `at` on.
  return (backslash - at) % 2 === 0 ? backslash : backslash + 1;
}

function decodePart(part: string): string {
  try {
    // Many times faster, but strict.
    return JSON.parse(`"${part}"`) as string;
  } catch {
    return part.replace(/\\(?:u([0-9a-fA-F]{4})|([\s\S])|$)/g, (_all, code?: string, character?: string) =>
      code === undefined
        ? (escapes[character ?? ''] ?? character ?? '')
        : String.fromCharCode(Number.parseInt(code, 16)),
    );
  }
}
