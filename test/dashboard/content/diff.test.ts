import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compareJson, type JsonChange, type JsonComparison } from '../../../dashboard/src/content/diff/compare-json.ts';
import { compareSequences } from '../../../dashboard/src/content/diff/compare-sequences.ts';
import { compareLines } from '../../../dashboard/src/content/diff/compare-texts.ts';
import { countChanges, diffRows, unfold, wordSpans } from '../../../dashboard/src/content/diff/diff-rows.ts';
import { readJson, sourceOf } from '../../../dashboard/src/content/json/json-document.ts';
import { formatPath } from '../../../dashboard/src/content/json/json-path.ts';
import { runNow } from '../../../dashboard/src/content/sliced.ts';
import { countOf } from '../../support/seed.ts';

/** The length of the longest common subsequence, by the textbook table. */
function commonLength(before: readonly number[], after: readonly number[]): number {
  let row = new Array<number>(after.length + 1).fill(0);
  for (const old of before) {
    const next = [0];
    for (const [index, item] of after.entries()) {
      next.push(old === item ? (row[index] ?? 0) + 1 : Math.max(row[index + 1] ?? 0, next[index] ?? 0));
    }
    row = next;
  }
  return row[after.length] ?? 0;
}

describe('compareSequences', () => {
  const sequences = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 25 });

  it('finds as many equal items as there can be, in order', () => {
    fc.assert(
      fc.property(sequences, sequences, (before, after) => {
        const { runs, limited } = runNow(compareSequences(Int32Array.from(before), Int32Array.from(after)));
        expect(limited).toBe(false);
        let oldAt = 0;
        let newAt = 0;
        let equal = 0;
        for (const run of runs) {
          expect([run.oldStart, run.newStart]).toEqual([oldAt, newAt]);
          oldAt = run.oldEnd;
          newAt = run.newEnd;
          if (run.kind === 'replaced') continue;
          equal += run.oldEnd - run.oldStart;
          expect(before.slice(run.oldStart, run.oldEnd)).toEqual(after.slice(run.newStart, run.newEnd));
        }
        expect([oldAt, newAt]).toEqual([before.length, after.length]);
        expect(equal).toBe(commonLength(before, after));
      }),
      { numRuns: countOf(250, 1_000) },
    );
  });

  it('stops at its bound and says so', () => {
    const before = Int32Array.from({ length: 5_000 }, (_, n) => n);
    const after = Int32Array.from({ length: 5_000 }, (_, n) => (n === 0 || n === 4_999 ? n : n + 10_000));
    const { runs, limited } = runNow(compareSequences(before, after, 100));
    expect(limited).toBe(true);
    expect(runs.map(({ kind, oldStart, oldEnd }) => [kind, oldStart, oldEnd])).toEqual([
      ['equal', 0, 1],
      ['replaced', 1, 4_999],
      ['equal', 4_999, 5_000],
    ]);
  });
});

describe('diffRows', () => {
  it('shows changes with context, folds the rest, and marks changed words', () => {
    const lines = Array.from({ length: 30 }, (_, n) => `line ${n}\n`);
    const changed = lines.with(10, 'line ten\n');
    const comparison = runNow(compareLines(lines.join(''), changed.join('')));
    const rows = runNow(diffRows(comparison));
    expect(rows.map(({ kind }) => kind)).toEqual([
      'folded',
      'equal',
      'equal',
      'equal',
      'changed',
      'equal',
      'equal',
      'equal',
      'folded',
    ]);
    expect(rows[4]).toMatchObject({
      before: { number: 11, spans: [{ text: 'line ' }, { text: '10', changed: true }, { text: '\n' }] },
      after: { spans: [{ text: 'line ' }, { text: 'ten', changed: true }, { text: '\n' }] },
    });
    expect(countChanges(comparison)).toEqual({ added: 1, removed: 1 });
    const [folded] = rows;
    expect(folded?.kind === 'folded' && unfold(comparison, folded)).toHaveLength(7);
  });

  it('shows that only a line break differs', () => {
    const comparison = runNow(compareLines('a\r\nb', 'a\nb'));
    expect(countChanges(comparison)).toEqual({ added: 1, removed: 1 });
  });

  it('restores both texts from the spans of a comparison by word', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), (before, after) => {
        const spans = runNow(wordSpans(before, after));
        expect(spans.old.map(({ text }) => text).join('')).toBe(before);
        expect(spans.new.map(({ text }) => text).join('')).toBe(after);
        const same = (list: typeof spans.old) =>
          list
            .filter(({ changed }) => !changed)
            .map(({ text }) => text)
            .join('');
        expect(same(spans.old)).toBe(same(spans.new));
      }),
    );
  });
});

function summary(change: JsonChange): string {
  const before = 'before' in change ? sourceOf(change.before) : '';
  const after = 'after' in change ? sourceOf(change.after) : '';
  return `${change.kind} ${formatPath(change.path)} ${[before, after].filter(Boolean).join(' → ')}`;
}

function compared(before: string, after: string, max?: number): JsonComparison {
  const comparison = runNow(compareJson(readJson(before), readJson(after), max));
  if (comparison === undefined) throw new Error('not compared');
  return comparison;
}

function changesOf(before: string, after: string): string[] {
  return compared(before, after).changes.map(summary);
}

describe('compareJson', () => {
  it('finds no change in the same value written differently', () => {
    expect(changesOf('{"a":1,"b":["é"]}', '{ "b": ["\\u00e9"],\n "a": 1 }')).toEqual([]);
  });

  it('lists added, removed and changed members and elements with their paths', () => {
    expect(
      changesOf(
        '{"model":"a","temperature":1.0,"messages":[{"role":"system","content":"s"},{"role":"user","content":"My mail is a@b.c"}]}',
        '{"model":"b","messages":[{"role":"user","content":"My mail is <EMAIL_1>"},{"role":"assistant","content":"x"}],"user":"u"}',
      ),
    ).toEqual([
      'added user "u"',
      'removed temperature 1.0',
      'changed model "a" → "b"',
      'removed messages[0] {"role":"system","content":"s"}',
      'added messages[1] {"role":"assistant","content":"x"}',
      'changed messages[0].content "My mail is a@b.c" → "My mail is <EMAIL_1>"',
    ]);
  });

  it('compares numbers by their digits', () => {
    expect(changesOf('[12345678901234567890]', '[12345678901234567891]')).toHaveLength(1);
    expect(changesOf('{"n":1}', '{"n":1.0}')).toHaveLength(1);
  });

  it('sees members with the same name', () => {
    expect(changesOf('{"a":1,"a":2}', '{"a":2}')).not.toEqual([]);
    expect(changesOf('{"a":1,"a":2}', '{"a":2,"a":1}')).not.toEqual([]);
  });

  it('finds a change exactly where two values differ', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), fc.jsonValue({ maxDepth: 3 }), (before, after) => {
        const [old, current] = [JSON.stringify(before), JSON.stringify(after)];
        const equal = JSON.stringify(sorted(before)) === JSON.stringify(sorted(after));
        expect(changesOf(old, current).length === 0).toBe(equal);
        expect(changesOf(old, old)).toEqual([]);
      }),
      { numRuns: countOf(125, 500) },
    );
  });

  it('compares documents of 100,000 levels', () => {
    const nested = (value: string) => `${'['.repeat(100_000)}${value}${']'.repeat(100_000)}`;
    const { changes } = compared(nested('1'), nested('2'));
    expect(changes).toHaveLength(1);
    expect(changes[0]?.path).toHaveLength(200);
  });

  it('returns a bounded number of changes', () => {
    const list = (offset: number) => JSON.stringify(Array.from({ length: 5_000 }, (_, n) => n + offset));
    expect(compared(list(0), list(10_000), 50)).toMatchObject({
      limited: true,
      changes: { length: 50 },
    });
  });
});

/** Members in one order, so that the same value is the same text. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== 'object') return value;
  const members = Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, member]) => [name, sorted(member)]);
  return { members };
}
