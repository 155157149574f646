import { describe, expect, it } from 'vitest';
import { type JsonDocument, readJson, rootOf, sourceOf } from '../../../dashboard/src/content/json/json-document.ts';
import { nodeAt } from '../../../dashboard/src/content/json/json-path.ts';
import {
  expandBelow,
  initialTree,
  PAGE,
  repeatedNames,
  reveal,
  rowsOf,
  showMore,
  toggle,
} from '../../../dashboard/src/content/json/tree-rows.ts';
import { runNow } from '../../../dashboard/src/content/sliced.ts';

function values(document: JsonDocument, rows: ReturnType<typeof rowsOf>): string[] {
  return rows.map((row) => (row.kind === 'value' ? sourceOf({ document, index: row.index }) : row.kind));
}

describe('rowsOf', () => {
  it('lists expanded values in the order of the text, with depth and place', () => {
    const document = readJson('{"a":[1,2],"b":{"c":3}}');
    const closed = rowsOf(document, initialTree(document));
    expect(values(document, closed)).toEqual(['{"a":[1,2],"b":{"c":3}}', '[1,2]', '{"c":3}']);
    const open = rowsOf(document, toggle(initialTree(document), 1));
    expect(values(document, open).slice(1)).toEqual(['[1,2]', '1', '2', '{"c":3}']);
    expect(open[2]).toMatchObject({ depth: 2, place: 1, siblings: 2, expandable: false });
  });

  it('shows a page of a long array, and further pages on request', () => {
    const document = readJson(JSON.stringify(Array.from({ length: 100_000 }, (_, n) => n)));
    let state = initialTree(document);
    expect(rowsOf(document, state)).toHaveLength(1 + PAGE + 1);
    for (let click = 0; click < 20; click += 1) state = showMore(document, state, 0, 'later');
    const rows = rowsOf(document, state);
    expect(rows.length).toBeLessThan(600);
    expect(rows[1]).toMatchObject({ kind: 'earlier', hidden: 1_600 });
    expect(rows.at(-1)).toMatchObject({ kind: 'later', hidden: 100_000 - 2_100 });
    expect(rowsOf(document, showMore(document, state, 0, 'earlier'))[1]).toMatchObject({ hidden: 1_500 });
  });

  it('is bounded', () => {
    const document = readJson(JSON.stringify(Array.from({ length: 100 }, () => Array.from({ length: 100 }, () => 1))));
    const rows = rowsOf(document, expandBelow(document, initialTree(document), 0), 500);
    expect(rows).toHaveLength(501);
    expect(rows.at(-1)?.kind).toBe('limit');
  });
});

describe('reveal', () => {
  it('shows an element far back in an array', () => {
    const document = readJson(JSON.stringify({ list: Array.from({ length: 100_000 }, (_, n) => ({ n })) }));
    const target = nodeAt(rootOf(document), ['list', 70_000, 'n']);
    const rows = rowsOf(document, reveal(document, initialTree(document), target?.index ?? 0));
    expect(rows.some((row) => row.kind === 'value' && row.index === target?.index)).toBe(true);
    expect(rows.length).toBeLessThan(200);
  });

  it('shows a value 100,000 levels deep below one of its ancestors', () => {
    const document = readJson(`${'['.repeat(100_000)}1${']'.repeat(100_000)}`);
    const target = document.count - 1;
    const state = reveal(document, initialTree(document), target);
    const rows = rowsOf(document, state);
    expect(state.top).toBeGreaterThan(99_000);
    expect(rows.some((row) => row.kind === 'value' && row.index === target)).toBe(true);
    expect(rows.length).toBeLessThan(100);
  });
});

describe('repeatedNames', () => {
  it('returns every member whose name another member has too', () => {
    const document = readJson('{"a":1,"b":{"a":1},"\\u0061":3}');
    expect([...runNow(repeatedNames(document))].sort()).toEqual([1, 4]);
  });
});
