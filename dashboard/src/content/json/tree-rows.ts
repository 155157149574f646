/**
 * The visible rows of a JSON tree, from what is expanded. Of a container only a window of its children is visible, so
 * that an array of 100,000 elements costs as much as one of 100.
 */

import type { Sliced } from '../sliced.ts';
import {
  childCountOf,
  childrenOf,
  isContainer,
  type JsonDocument,
  type JsonNode,
  kindOf,
  nameOf,
} from './json-document.ts';

/** Children `from` (inclusive) to `to` (exclusive) of a container. */
export interface ChildWindow {
  readonly from: number;
  readonly to: number;
}

export interface TreeState {
  /** The value at the top; not the root of the document when a very deep value is revealed. */
  readonly top: number;
  readonly expanded: ReadonlySet<number>;
  /** Of containers of which not the first `PAGE` children are shown. */
  readonly windows: ReadonlyMap<number, ChildWindow>;
}

export type TreeRow =
  | {
      readonly kind: 'value';
      readonly index: number;
      readonly depth: number;
      /** 1 for the first child, and the number of siblings: `aria-posinset`, `aria-setsize`. */
      readonly place: number;
      readonly siblings: number;
      readonly expandable: boolean;
      readonly expanded: boolean;
    }
  | {
      /** Children before or after the window. */
      readonly kind: 'earlier' | 'later';
      readonly index: number;
      readonly depth: number;
      readonly hidden: number;
    }
  | { readonly kind: 'limit'; readonly index: number; readonly depth: number };

export const PAGE = 100;
const MAX_WINDOW = 500;
const MAX_ROWS = 3_000;
/** How many levels above a revealed value stay visible. */
const REVEALED_LEVELS = 60;

export function initialTree(document: JsonDocument, top = 0): TreeState {
  return { top, expanded: new Set(document.count > 0 ? [top] : []), windows: new Map() };
}

export function rowsOf(document: JsonDocument, state: TreeState, maxRows = MAX_ROWS): TreeRow[] {
  const rows: TreeRow[] = [];
  if (document.count === 0) return rows;
  /** What is still to be listed, the next last. */
  const waiting: TreeRow[] = [valueRow({ document, index: state.top }, state, 0, 1, 1)];
  for (let row = waiting.pop(); row !== undefined; row = waiting.pop()) {
    if (rows.length >= maxRows) {
      rows.push({ kind: 'limit', index: row.index, depth: 0 });
      return rows;
    }
    rows.push(row);
    if (row.kind === 'value' && row.expanded)
      waiting.push(...childRows(document, state, row.index, row.depth).reverse());
  }
  return rows;
}

function childRows(document: JsonDocument, state: TreeState, parent: number, depth: number): TreeRow[] {
  const count = childCountOf({ document, index: parent });
  const { from, to } = windowOf(document, state, parent);
  const rows: TreeRow[] = [];
  if (from > 0) rows.push({ kind: 'earlier', index: parent, depth: depth + 1, hidden: from });
  // Where no child has children, they follow each other.
  const isFlat = (document.nexts[parent] ?? 0) - parent - 1 === count;
  let ordinal = isFlat ? from : 0;
  const end = document.nexts[parent] ?? 0;
  for (let child = parent + 1 + ordinal; child < end && ordinal < to; child = document.nexts[child] ?? end) {
    if (ordinal >= from) rows.push(valueRow({ document, index: child }, state, depth + 1, ordinal + 1, count));
    ordinal += 1;
  }
  if (to < count) rows.push({ kind: 'later', index: parent, depth: depth + 1, hidden: count - to });
  return rows;
}

function valueRow(node: JsonNode, state: TreeState, depth: number, place: number, siblings: number): TreeRow {
  const expandable = isContainer(node) && childCountOf(node) > 0;
  const expanded = expandable && state.expanded.has(node.index);
  return { kind: 'value', index: node.index, depth, place, siblings, expandable, expanded };
}

function windowOf(document: JsonDocument, state: TreeState, index: number): ChildWindow {
  const count = childCountOf({ document, index });
  const { from, to } = state.windows.get(index) ?? { from: 0, to: PAGE };
  return { from, to: Math.min(to, count) };
}

export function toggle(state: TreeState, index: number, open = !state.expanded.has(index)): TreeState {
  const expanded = new Set(state.expanded);
  if (open) expanded.add(index);
  else expanded.delete(index);
  return { ...state, expanded };
}

/** Moves or widens the window of a container by one page. */
export function showMore(
  document: JsonDocument,
  state: TreeState,
  index: number,
  where: 'earlier' | 'later',
): TreeState {
  const { from, to } = windowOf(document, state, index);
  const moved =
    where === 'later'
      ? { from: Math.max(from, to + PAGE - MAX_WINDOW), to: to + PAGE }
      : { from: Math.max(0, from - PAGE), to: Math.min(to, Math.max(0, from - PAGE) + MAX_WINDOW) };
  return { ...state, windows: new Map(state.windows).set(index, moved) };
}

/** Expands the value and what is in it, level by level, as long as there are at most `max` containers. */
export function expandBelow(document: JsonDocument, state: TreeState, index: number, max = 200): TreeState {
  const expanded = new Set(state.expanded);
  const level = [index];
  for (let next = level.shift(), opened = 0; next !== undefined && opened < max; next = level.shift()) {
    if (!isContainer({ document, index: next })) continue;
    expanded.add(next);
    opened += 1;
    let ordinal = 0;
    for (const child of childrenOf({ document, index: next })) {
      if (ordinal >= PAGE) break;
      ordinal += 1;
      if (isContainer(child)) level.push(child.index);
    }
  }
  return { ...state, expanded };
}

export function collapseAll(state: TreeState, top = 0): TreeState {
  return { top, expanded: new Set([top]), windows: state.windows };
}

/** Makes a value visible: its ancestors are expanded, and the windows of long ones moved to it. */
export function reveal(document: JsonDocument, state: TreeState, index: number): TreeState {
  const expanded = new Set(state.expanded);
  const windows = new Map(state.windows);
  let child = index;
  let levels = 0;
  let top = 0;
  while (child !== state.top && child > 0) {
    const parent = document.parents[child] ?? 0;
    expanded.add(parent);
    const ordinal = document.ordinals[child] ?? 0;
    const { from, to } = windowOf(document, state, parent);
    if (ordinal < from || ordinal >= to) {
      const start = Math.max(0, ordinal - PAGE / 2);
      windows.set(parent, { from: start, to: start + PAGE });
    }
    child = parent;
    levels += 1;
    if (levels === REVEALED_LEVELS) {
      top = child;
      break;
    }
  }
  if (levels < REVEALED_LEVELS) top = child;
  return { top, expanded, windows };
}

const VALUES_BETWEEN_YIELDS = 1_000;

/** All members whose name another member of the same object has too. */
export function* repeatedNames(document: JsonDocument): Sliced<ReadonlySet<number>> {
  const repeated = new Set<number>();
  let work = 0;
  for (let object = 0; object < document.count; object += 1) {
    work += 1;
    if (work % VALUES_BETWEEN_YIELDS === 0) yield;
    if (kindOf({ document, index: object }) !== 'object' || (document.childCounts[object] ?? 0) < 2) continue;
    const first = new Map<string, number>();
    for (const child of childrenOf({ document, index: object })) {
      work += 1;
      if (work % VALUES_BETWEEN_YIELDS === 0) yield;
      const name = nameOf(child) ?? '';
      const earlier = first.get(name);
      if (earlier === undefined) first.set(name, child.index);
      else repeated.add(earlier).add(child.index);
    }
  }
  return repeated;
}
