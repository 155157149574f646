/**
 * What differs between two JSON documents, as paths: members by name, elements by the shortest sequence of changes.
 * White space, the order of members and the way a string is escaped are no difference; `1.0` and `1` are.
 */
import {
  childCountOf,
  childrenOf,
  isContainer,
  type JsonDocument,
  type JsonNode,
  kindOf,
  nameOf,
  rootOf,
  sourceOf,
  stringOf,
} from '../json/json-document.ts';
import type { JsonPath } from '../json/json-path.ts';
import type { Sliced } from '../sliced.ts';
import { compareSequences } from './compare-sequences.ts';

export type JsonChange =
  | { readonly kind: 'added'; readonly path: JsonPath; readonly after: JsonNode }
  /** `path` is the path in the old document. */
  | { readonly kind: 'removed'; readonly path: JsonPath; readonly before: JsonNode }
  /** Elements can move, so `path` is the path in the new document and `oldPath` the one in the old document. */
  | {
      readonly kind: 'changed';
      readonly path: JsonPath;
      readonly oldPath: JsonPath;
      readonly before: JsonNode;
      readonly after: JsonNode;
    };

export interface JsonComparison {
  readonly changes: readonly JsonChange[];
  /** Whether a bound was reached: the number of changes, or differences between two long arrays. */
  readonly limited: boolean;
}

const MAX_CHANGES = 2_000;
const MAX_VALUES = 500_000;
/** Below this depth, values that differ are one change. */
const MAX_DEPTH = 200;
const VALUES_BETWEEN_YIELDS = 1_000;

interface Pair {
  readonly before: JsonNode;
  readonly after: JsonNode;
  readonly path: JsonPath;
  readonly oldPath: JsonPath;
}

/** Undefined for documents with more than 500,000 values together. */
export function* compareJson(
  before: JsonDocument,
  after: JsonDocument,
  maxChanges = MAX_CHANGES,
): Sliced<JsonComparison | undefined> {
  if (before.count + after.count > MAX_VALUES) return undefined;
  const oldRoot = rootOf(before);
  const newRoot = rootOf(after);
  if (oldRoot === undefined || newRoot === undefined) return comparedWithNothing(oldRoot, newRoot);
  const numbers = new Map<string, number>();
  const oldNumbers = yield* numberValues(before, numbers);
  const newNumbers = yield* numberValues(after, numbers);
  const changes: JsonChange[] = [];
  let limited = false;
  const waiting: Pair[] = [{ before: oldRoot, after: newRoot, path: [], oldPath: [] }];
  for (let pair = waiting.pop(); pair !== undefined; pair = waiting.pop()) {
    yield;
    if (oldNumbers[pair.before.index] === newNumbers[pair.after.index]) continue;
    if (changes.length >= maxChanges) return { changes, limited: true };
    if (kindOf(pair.before) !== kindOf(pair.after) || !isContainer(pair.before) || pair.path.length >= MAX_DEPTH) {
      changes.push({ kind: 'changed', ...pair });
      continue;
    }
    const inside: (JsonChange | Pair)[] = [];
    if (kindOf(pair.before) === 'object') yield* compareMembers(pair, inside);
    else if (yield* compareElements(pair, oldNumbers, newNumbers, inside)) limited = true;
    // Pairs are compared in the order of the text, changes here are listed before them.
    for (const one of inside) if ('kind' in one) changes.push(one);
    for (const one of inside.reverse()) if (!('kind' in one)) waiting.push(one);
  }
  return { changes: changes.slice(0, maxChanges), limited: limited || changes.length > maxChanges };
}

function comparedWithNothing(before: JsonNode | undefined, after: JsonNode | undefined): JsonComparison {
  if (before !== undefined) return { changes: [{ kind: 'removed', path: [], before }], limited: false };
  return { changes: after === undefined ? [] : [{ kind: 'added', path: [], after }], limited: false };
}

/** A number for each value; equal values have equal numbers. From the end: children come after their parent. */
function* numberValues(document: JsonDocument, numbers: Map<string, number>): Sliced<Int32Array> {
  const list = new Int32Array(document.count);
  for (let index = document.count - 1; index >= 0; index -= 1) {
    if (index % VALUES_BETWEEN_YIELDS === 0) yield;
    list[index] = yield* numberOf({ document, index }, list, numbers);
  }
  return list;
}

function* numberOf(node: JsonNode, list: Int32Array, numbers: Map<string, number>): Sliced<number> {
  const kind = kindOf(node);
  if (kind === 'string') return intern(`"${stringOf(node)}`, numbers);
  if (kind !== 'array' && kind !== 'object') return intern(sourceOf(node), numbers);
  const inside = new Int32Array(childCountOf(node));
  const names = new Set<number>();
  let at = 0;
  for (const child of childrenOf(node)) {
    const value = list[child.index] ?? 0;
    if (kind === 'array') inside[at] = value;
    else {
      const name = intern(`"${nameOf(child)}`, numbers);
      names.add(name);
      inside[at] = intern(`${name}:${value}`, numbers);
    }
    at += 1;
    if (at % VALUES_BETWEEN_YIELDS === 0) yield;
  }
  // The order of members is no difference, unless two of them have the same name: the last one counts.
  const isSorted = kind === 'object' && names.size === inside.length;
  return intern(`${kind === 'array' ? '[' : '{'}${(isSorted ? inside.sort() : inside).join()}`, numbers);
}

function intern(key: string, numbers: Map<string, number>): number {
  const known = numbers.get(key);
  if (known !== undefined) return known;
  numbers.set(key, numbers.size);
  return numbers.size - 1;
}

function* compareMembers({ before, after, path, oldPath }: Pair, found: (JsonChange | Pair)[]): Sliced<void> {
  const remaining = new Map<string, JsonNode[]>();
  let work = 0;
  for (const child of childrenOf(before)) {
    work += 1;
    if (work % VALUES_BETWEEN_YIELDS === 0) yield;
    const name = nameOf(child) ?? '';
    const same = remaining.get(name);
    if (same === undefined) remaining.set(name, [child]);
    else same.push(child);
  }
  for (const child of childrenOf(after)) {
    work += 1;
    if (work % VALUES_BETWEEN_YIELDS === 0) yield;
    const name = nameOf(child) ?? '';
    const old = remaining.get(name)?.shift();
    if (old === undefined) found.push({ kind: 'added', path: [...path, name], after: child });
    else found.push({ before: old, after: child, path: [...path, name], oldPath: [...oldPath, name] });
  }
  for (const [name, children] of remaining) {
    for (const child of children) found.push({ kind: 'removed', path: [...oldPath, name], before: child });
  }
}

/** Returns whether the bound of the comparison was reached. */
function* compareElements(
  pair: Pair,
  oldNumbers: Int32Array,
  newNumbers: Int32Array,
  found: (JsonChange | Pair)[],
): Sliced<boolean> {
  const { before, after, path, oldPath } = pair;
  const oldItems = [...childrenOf(before)];
  const newItems = [...childrenOf(after)];
  const { runs, limited } = yield* compareSequences(
    Int32Array.from(oldItems, ({ index }) => oldNumbers[index] ?? 0),
    Int32Array.from(newItems, ({ index }) => newNumbers[index] ?? 0),
  );
  for (const run of runs) {
    if (run.kind === 'equal') continue;
    let newAt = run.newStart;
    for (let oldAt = run.oldStart; oldAt < run.oldEnd; oldAt += 1) {
      const old = oldItems[oldAt];
      if (old === undefined) continue;
      const partner = findPartner(old, newItems, newAt, run.newEnd);
      if (partner === undefined) {
        found.push({ kind: 'removed', path: [...oldPath, oldAt], before: old });
        continue;
      }
      addAll(newItems, newAt, partner.at, path, found);
      found.push({ before: old, after: partner.node, path: [...path, partner.at], oldPath: [...oldPath, oldAt] });
      newAt = partner.at + 1;
    }
    addAll(newItems, newAt, run.newEnd, path, found);
  }
  return limited;
}

function addAll(
  items: readonly JsonNode[],
  from: number,
  to: number,
  path: JsonPath,
  found: (JsonChange | Pair)[],
): void {
  for (let at = from; at < to; at += 1) {
    const after = items[at];
    if (after !== undefined) found.push({ kind: 'added', path: [...path, at], after });
  }
}

const PARTNERS = 20;

/** The next new element that the old one can have become. */
function findPartner(
  old: JsonNode,
  items: readonly JsonNode[],
  from: number,
  to: number,
): { node: JsonNode; at: number } | undefined {
  for (let at = from; at < Math.min(to, from + PARTNERS); at += 1) {
    const node = items[at];
    if (node !== undefined && canBeSame(old, node)) return { node, at };
  }
  return undefined;
}

/** Members that say what an element is: elements that differ in one of them are not compared with each other. */
const identifying = ['id', 'role', 'type', 'name', 'call_id', 'tool_call_id'];

function canBeSame(before: JsonNode, after: JsonNode): boolean {
  const kind = kindOf(before);
  if (kind !== kindOf(after)) return false;
  if (kind !== 'object') return true;
  const oldValues = identityOf(before);
  const newValues = identityOf(after);
  return identifying.every((name) => oldValues.get(name) === newValues.get(name));
}

function identityOf(object: JsonNode): Map<string, string | undefined> {
  const values = new Map<string, string | undefined>();
  for (const child of childrenOf(object)) {
    const name = nameOf(child) ?? '';
    if (identifying.includes(name)) values.set(name, stringOf(child));
  }
  return values;
}
