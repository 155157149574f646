/** The counts of rate limits are saved, with the position in the log that they are true at. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type NewEvent, streamName } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { type LimitCounts, LimitMemoryStore } from '../../src/projections/limit-memory-store.ts';
import { openViewStore, type Snapshot, type ViewStore } from '../../src/projections/view-store.ts';

let log: MemoryLog;
let views: ViewStore;
let written: string[];
beforeEach(() => {
  log = new MemoryLog();
  const store = openViewStore(':memory:');
  written = [];
  views = {
    load: (name) => store.load(name),
    save(snapshots, bound) {
      for (const { state } of snapshots) written.push(state === undefined ? 'moved' : 'whole');
      store.save(snapshots, bound);
    },
    get boundTo() {
      return store.boundTo;
    },
    close: () => store.close(),
  };
});
afterEach(async () => {
  views.close();
  await log.close();
});

const event: NewEvent = { type: 'word.said', schema: 1, data: {}, context: { actor: 'system' } };

async function say() {
  const { position } = await log.append([
    { stream: streamName('word', 'a'), events: [event], expectedRevision: 'any' as const },
  ]);
  return position;
}

const fails = (error: unknown) => {
  throw error;
};
const storeOf = () => new LimitMemoryStore({ log, views, onError: fails, saveEveryMs: 1e9 });

/** Saves once, as at a stop. */
async function write(counts: LimitCounts, store = storeOf()): Promise<LimitMemoryStore> {
  store.begin(() => counts);
  await store.stop();
  return store;
}

const gauge = { key: 'k', resetAt: 7, requests: [[3, 1] as const], tokens: [] };

test('saved counts are loaded unchanged', async () => {
  const position = await say();
  await write({ gauges: [gauge], open: ['e'] });
  expect(await storeOf().load()).toEqual({ gauges: [gauge], open: ['e'], position });
});

test('the saved position moves with the log, and nothing else is written while nothing else changes', async () => {
  await say();
  const counts = { gauges: [gauge], open: [] };
  const store = await write(counts);
  await write(counts, store);
  expect(written).toEqual(['whole']);
  const position = await say();
  await write(counts, store);
  expect(written).toEqual(['whole', 'moved']);
  expect(await storeOf().load()).toMatchObject({ position, gauges: [gauge] });
});

test('without any rule nothing is written', async () => {
  await say();
  await write({ gauges: [], open: [] });
  expect(written).toEqual([]);
  expect(await storeOf().load()).toBeUndefined();
});

test('counts of another log, or from behind its end, are not loaded', async () => {
  await say();
  const position = await say();
  await write({ gauges: [gauge], open: [] });
  const saved = views.load('rate-limit-windows') as Snapshot;
  views.save([{ ...saved, logId: 'another' }]);
  expect(await storeOf().load()).toBeUndefined();
  views.save([{ ...saved, position: `${position}9` as Snapshot['position'] }]);
  expect(await storeOf().load()).toBeUndefined();
});
