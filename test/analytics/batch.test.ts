import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { usageRecorded } from '../../src/events/catalogue/exchange.ts';
import { parsePosition, type RecordedEvent } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { BatchBuilder, type RowBatch } from '../../src/projections/analytics/batch.ts';
import {
  type TableKey,
  tableKeys,
  tables,
  valueColumns,
  verdictRowId,
} from '../../src/projections/analytics/tables.ts';
import { isA } from '../../src/projections/projection.ts';
import { countOf } from '../support/seed.ts';
import { writeHistory } from './generated-history.ts';

const retention = { audit: 30, usage: 90 };
const noAccounts = async () => new Map();

async function historyOf(exchanges: number, seed: number): Promise<readonly RecordedEvent[]> {
  const log = new MemoryLog();
  await writeHistory(log, { exchanges, seed, from: Date.UTC(2026, 0, 31, 23, 59, 58) });
  return Array.fromAsync(log.readAll());
}

/** Ends a batch, where it may, after so many events each; the sizes repeat. */
async function batchesOf(events: readonly RecordedEvent[], sizes: readonly number[]): Promise<RowBatch[]> {
  const builder = new BatchBuilder({ after: 0, resumeAfter: 0 }, retention);
  const batches: RowBatch[] = [];
  for (const event of events) {
    builder.apply(event);
    if (builder.events >= (sizes[batches.length % sizes.length] ?? 1) && builder.mayEnd) {
      batches.push(await builder.end(noAccounts));
    }
  }
  builder.caughtUp();
  if (builder.mayEnd) batches.push(await builder.end(noAccounts));
  return batches;
}

function textOf(batches: readonly RowBatch[], key: TableKey): string {
  return batches.map(({ rows }) => rows[key].all().toString('latin1')).join('');
}

const sizes = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 5 });
const seeds = fc.integer({ min: 0 });

describe('a batch', () => {
  test('makes the same rows however the log is cut', async () => {
    await fc.assert(
      fc.asyncProperty(seeds, sizes, async (seed, cut) => {
        const events = await historyOf(40, seed);
        const whole = await batchesOf(events, [events.length + 1]);
        const cutUp = await batchesOf(events, cut);
        // A correction is counted from the rows of earlier batches, which are not queried here.
        for (const key of ['events', 'exchanges', 'adminChanges', 'guardrailVerdicts'] as const) {
          expect(textOf(cutUp, key)).toBe(textOf(whole, key));
        }
      }),
      { numRuns: countOf(10, 40) },
    );
  });

  test('can be made again from its range alone, byte for byte', async () => {
    await fc.assert(
      fc.asyncProperty(seeds, sizes, async (seed, cut) => {
        const events = await historyOf(40, seed);
        for (const batch of await batchesOf(events, cut)) {
          const again = new BatchBuilder(batch, retention);
          for (const event of events) {
            const position = parsePosition(event.position);
            if (position > batch.resumeAfter && position <= batch.to) again.apply(event);
          }
          again.caughtUp();
          const same = await again.end(noAccounts);
          expect([same.after, same.to, same.events]).toEqual([batch.after, batch.to, batch.events]);
          for (const key of tableKeys) expect(textOf([same], key)).toBe(textOf([batch], key));
        }
      }),
      { numRuns: countOf(10, 40) },
    );
  });

  test('does not end between the last event of an exchange and its usage', async () => {
    const events = await historyOf(60, 7);
    const batches = await batchesOf(events, [1]);
    const ends = new Set(batches.map(({ to }) => to));
    for (const [index, event] of events.entries()) {
      const used = events[index + 1];
      if (used === undefined || !isA(used, usageRecorded) || used.data.failedAttempt !== undefined) continue;
      expect(ends.has(parsePosition(event.position))).toBe(false);
    }
    expect(batches.length).toBeGreaterThan(100);
  });

  test('leaves out the rows that are there already', async () => {
    const [batch] = await batchesOf(await historyOf(30, 3), [100_000]);
    const rows = batch?.rows.events;
    if (rows === undefined) throw new Error('no batch');
    const positions = rows.ids;
    const even = new Set(positions.filter((position) => position % 2 === 0));
    const kept = rows.without(even).toString('latin1').split('\n').slice(0, -1);
    expect(kept.map((row) => Number(row.split('\t')[0]))).toEqual(positions.filter((position) => position % 2 === 1));
    expect(rows.without(new Set(positions))).toHaveLength(0);
    expect(rows.without(new Set())).toEqual(rows.all());
  });

  test('leaves out single runs of an event with several verdicts', async () => {
    const [batch] = await batchesOf(await historyOf(60, 3), [100_000]);
    const rows = batch?.rows.guardrailVerdicts;
    if (rows === undefined) throw new Error('no batch');
    const idOf = (row: string) => {
      const fields = row.split('\t');
      return verdictRowId(Number(fields[0]), Number(fields[valueColumns(tables.guardrailVerdicts).indexOf('run')]));
    };
    expect(new Set(rows.ids).size).toBe(rows.count);
    expect(rows.without(new Set()).toString().split('\n').slice(0, -1).map(idOf)).toEqual(rows.ids);
    const first = rows.ids.filter((id) => rows.ids.includes(id + 1));
    expect(first.length).toBeGreaterThan(0);
    const kept = rows.without(new Set(first)).toString().split('\n').slice(0, -1);
    expect(kept.map(idOf)).toEqual(rows.ids.filter((id) => !first.includes(id)));
  });

  test('has no value that guardrails replaced by a placeholder', async () => {
    const events = await historyOf(60, 3);
    const secret = 'secret-value@example.com';
    expect(events.some(({ body }) => body !== undefined && Buffer.from(body).includes(secret))).toBe(true);
    const batches = await batchesOf(events, [500]);
    for (const key of tableKeys) expect(textOf(batches, key)).not.toContain(secret);
  });

  test('has as many fields in a row as its table has columns', async () => {
    const batches = await batchesOf(await historyOf(200, 11), [500]);
    for (const key of tableKeys) {
      for (const row of textOf(batches, key).split('\n').slice(0, -1)) {
        expect(row.split('\t')).toHaveLength(valueColumns(tables[key]).length);
      }
    }
  });
});
