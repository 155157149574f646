/** Projections that start together read the log once, and each gets the same events as it would alone. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type NewEvent, type RecordedEvent, streamName } from '../../src/events/event.ts';
import type { EventLog, ReadAllOptions } from '../../src/events/log.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import type { Projection } from '../../src/projections/projection.ts';
import { createProjectionRunner } from '../../src/projections/runner.ts';
import { openViewStore } from '../../src/projections/view-store.ts';
import { countOf } from '../support/seed.ts';

const types = ['a.one', 'a.two', 'b.one', 'c.one'];
const event = (type: string): NewEvent => ({ type, schema: 1, data: {}, context: { actor: 'system' } });

async function logOf(...said: readonly string[]): Promise<MemoryLog> {
  const log = new MemoryLog();
  for (const type of said) {
    await log.append([{ stream: streamName('s', '1'), events: [event(type)], expectedRevision: 'any' }]);
  }
  return log;
}

/** Counts how often the log is read from a position, except for reads of its first event. */
function counting(log: MemoryLog): { log: EventLog; readings: ReadAllOptions[] } {
  const readings: ReadAllOptions[] = [];
  const counted: EventLog = Object.create(log, {
    readAll: {
      value: (options: ReadAllOptions = {}) => {
        if (options.maxCount !== 1) readings.push(options);
        return log.readAll(options);
      },
    },
    append: { value: log.append.bind(log) },
    readStream: { value: log.readStream.bind(log) },
    subscribe: { value: log.subscribe.bind(log) },
    head: { value: log.head.bind(log) },
    status: { value: log.status.bind(log) },
    close: { value: log.close.bind(log) },
  });
  return { log: counted, readings };
}

function seenOf(name: string, ...filter: readonly string[]): Projection<string[]> {
  return {
    name,
    version: 1,
    filter: { types: filter },
    initial: () => [],
    apply: (state, { position, type }) => [...state, `${position} ${type}`],
    save: (state) => state,
    load: (saved) => saved as string[],
  };
}

const all = async (log: EventLog, ...filter: readonly string[]) =>
  (await Array.fromAsync(log.readAll({ filter: { types: filter } }))).map(
    ({ position, type }) => `${position} ${type}`,
  );

describe('projections that start together', () => {
  it('see each event of their own once and in order, then and later, from one reading', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom(...types), { maxLength: 30 }),
        fc.array(fc.constantFrom(...types), { maxLength: 10 }),
        async (before, after) => {
          const { log, readings } = counting(await logOf(...before));
          const runner = createProjectionRunner(log);
          const filters = [['a.'], ['a.one', 'b.one'], ['a.', 'b.', 'c.'], ['d.']];
          const running = filters.map((filter, n) => runner.run(seenOf(String(n), ...filter)));
          await Promise.all(running.map(({ caughtUp }) => caughtUp));
          expect(readings.length).toBeLessThanOrEqual(1);
          let last = await log.head();
          for (const type of after) {
            const write = { stream: streamName('s', '1'), events: [event(type)], expectedRevision: 'any' as const };
            last = (await log.append([write])).position;
          }
          await Promise.all(running.map((one) => one.whenProcessed(last)));
          for (const [n, one] of running.entries()) expect(one.state).toEqual(await all(log, ...(filters[n] ?? [])));
          await runner.close();
        },
      ),
      { numRuns: countOf(8, 30) },
    );
  });

  it('also read with those of some streams only, and with those of another runner', async () => {
    const { log, readings } = counting(await logOf('a.one', 'b.one'));
    const other = streamName('other', '1');
    await log.append([{ stream: other, events: [event('a.one'), event('c.one')], expectedRevision: 'any' }]);
    const runner = createProjectionRunner(log);
    const second = createProjectionRunner(log, undefined, { together: runner });
    const ofStreams = { ...seenOf('streams', 'a.'), filter: { types: ['a.'], streams: ['other-'] } };
    const running = [
      runner.run(seenOf('types', 'b.')),
      runner.run(ofStreams),
      second.run(seenOf('second', 'a.', 'c.')),
    ];
    await Promise.all(running.map(({ caughtUp }) => caughtUp));
    expect(readings.length).toBe(1);
    expect(running.map(({ state }) => state)).toEqual([
      await all(log, 'b.'),
      ['0000000000000003 a.one'],
      await all(log, 'a.', 'c.'),
    ]);
    await second.close();
    await runner.close();
  });

  it('are not held up by one that throws', async () => {
    const { log } = counting(await logOf('a.one', 'b.one', 'a.two'));
    const errors: Error[] = [];
    const runner = createProjectionRunner(log, undefined, { onError: (error) => errors.push(error) });
    const broken = runner.run({
      ...seenOf('broken', 'a.'),
      apply() {
        throw new Error('no more');
      },
    });
    const others = [runner.run(seenOf('one', 'a.')), runner.run(seenOf('two', 'a.', 'b.'))];
    await expect(broken.caughtUp).rejects.toThrow('no more');
    await Promise.all(others.map(({ caughtUp }) => caughtUp));
    expect(others[0]?.state).toEqual(await all(log, 'a.'));
    expect(others[1]?.state).toEqual(await all(log, 'a.', 'b.'));
    expect(errors).toHaveLength(1);
    expect(broken.status()).toMatchObject({ phase: 'stopped', error: expect.stringContaining('no more') });
    await runner.close();
  });

  it('start each from its own snapshot where they have one', async () => {
    const { log } = counting(await logOf('a.one', 'b.one'));
    const views = openViewStore(':memory:');
    const first = createProjectionRunner(log, views);
    const early = first.run(seenOf('early', 'a.', 'b.'));
    await early.caughtUp;
    await first.close();
    await log.append([{ stream: streamName('s', '1'), events: [event('a.two')], expectedRevision: 'any' }]);
    let applied: RecordedEvent[] = [];
    const again = createProjectionRunner(log, views);
    const reported = seenOf('early', 'a.', 'b.');
    const running = [
      again.run({
        ...reported,
        apply(state, one) {
          applied = [...applied, one];
          return reported.apply(state, one);
        },
      }),
      again.run(seenOf('late', 'a.')),
      again.run(seenOf('later', 'b.')),
    ];
    await Promise.all(running.map(({ caughtUp }) => caughtUp));
    expect(applied.map(({ type }) => type)).toEqual(['a.two']);
    expect(running[0]?.state).toEqual(await all(log, 'a.', 'b.'));
    expect(running[1]?.state).toEqual(await all(log, 'a.'));
    expect(running[2]?.state).toEqual(await all(log, 'b.'));
    await again.close();
    views.close();
  });

  it('that are stopped while they read end without an error, and claim nothing that they have not seen', async () => {
    const { log } = counting(await logOf(...Array.from({ length: 200 }, () => 'a.one')));
    const errors: Error[] = [];
    const runner = createProjectionRunner(log, undefined, { onError: (error) => errors.push(error) });
    const running = [runner.run(seenOf('one', 'a.')), runner.run(seenOf('two', 'a.'))];
    await runner.close();
    expect(errors).toEqual([]);
    for (const { state, position } of running) {
      const seen = await all(log, 'a.');
      expect(state).toEqual(seen.slice(0, state.length));
      if (state.length < seen.length) expect(position < (await log.head())).toBe(true);
    }
  });
});
