import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as otherWork } from 'node:timers/promises';
import { serialize } from 'node:v8';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { skipEvent } from '../../src/commands/views/change-views.ts';
import { rebuildsStream, viewRebuildRequested } from '../../src/events/catalogue/gateway.ts';
import { type NewEvent, type Position, type RecordedEvent, START, streamName } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import type { Projection } from '../../src/projections/projection.ts';
import { createProjectionRunner, type ProjectionRunner } from '../../src/projections/runner.ts';
import { boundEvents, openViewStore, type ViewStore } from '../../src/projections/view-store.ts';
import { countOf } from '../support/seed.ts';

let dir: string;
let log: EventLog;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'views-'));
  log = new MemoryLog();
});
afterEach(async () => {
  await log.close();
  rmSync(dir, { recursive: true });
});

const file = () => join(dir, 'views.db');

interface Seen {
  positions: string[];
}

/** Keeps the position of every event it gets. `applied` counts the calls of this run. */
function seen(overrides: Partial<Projection<Seen>> = {}) {
  const calls: RecordedEvent[] = [];
  const projection: Projection<Seen> = {
    name: 'seen',
    version: 1,
    filter: { streams: ['word-'] },
    initial: () => ({ positions: [] }),
    apply(state, event) {
      calls.push(event);
      state.positions.push(event.position);
      return state;
    },
    save: (state) => state,
    load: (saved) => saved as Seen,
    ...overrides,
  };
  return { projection, calls };
}

const event = (type = 'word.said', data = {}): NewEvent => ({ type, schema: 1, data, context: { actor: 'system' } });

async function say(count: number, stream = 'word-a', to = log): Promise<Position> {
  let position = START;
  for (let i = 0; i < count; i++) {
    const write = { stream: streamName('word', stream.slice(5)), events: [event()], expectedRevision: 'any' as const };
    position = (await to.append([write])).position;
  }
  return position;
}

async function run<T>(
  projection: Projection<T>,
  views: ViewStore | undefined,
  use: (running: ReturnType<ReturnType<typeof createProjectionRunner>['run']>) => Promise<void> | void,
  on = log,
) {
  const runner = createProjectionRunner(on, views);
  const running = runner.run(projection);
  try {
    await running.caughtUp;
    await use(running);
  } finally {
    await runner.close();
  }
  return running;
}

/** One life of the process: opens the file, catches up, closes. */
async function life(projection: Projection<Seen>, on = log) {
  const discarded: Error[] = [];
  const views = openViewStore(file(), { onDiscarded: (reason) => discarded.push(reason) });
  const running = await run(projection, views, () => {}, on);
  views.close();
  return { state: running.state as Seen, status: running.status(), discarded };
}

describe('a projection', () => {
  test('gets existing events, then new ones, and only those that its filter names', async () => {
    await say(2);
    await log.append([{ stream: streamName('other', 'x'), events: [event()], expectedRevision: 'any' }]);
    const { projection, calls } = seen();
    await run(projection, undefined, async (running) => {
      expect(calls).toHaveLength(2);
      await running.whenProcessed(await say(1));
      expect(calls).toHaveLength(3);
      expect(running.status()).toMatchObject({ phase: 'live', lagMs: 0, startedFrom: 'the beginning' });
    });
  });

  test('has processed a position whose events it filters out', async () => {
    const { projection, calls } = seen();
    await run(projection, undefined, async (running) => {
      const { position } = await log.append([
        { stream: streamName('other', 'x'), events: [event()], expectedRevision: 'any' },
      ]);
      await running.whenProcessed(position);
      expect(calls).toHaveLength(0);
      expect(running.position).toBe(position);
    });
  });

  test('with a snapshot reads only the tail', async () => {
    await say(5);
    await life(seen().projection);
    await say(2);
    const { projection, calls } = seen();
    const { state, status } = await life(projection);
    expect(calls).toHaveLength(2);
    expect(state.positions).toHaveLength(7);
    expect(status.startedFrom).toMatch(/^the snapshot at/);
  });

  test('is kept in files for their owner only, also where they were open to others', async () => {
    const modes = () => readdirSync(dir).map((name) => [name, (statSync(join(dir, name)).mode & 0o777).toString(8)]);
    const views = openViewStore(file());
    views.save([{ name: 'a', version: 1, logId: 'x', position: await say(1), state: serialize({}) }]);
    expect(modes()).toEqual([
      ['views.db', '600'],
      ['views.db-shm', '600'],
      ['views.db-wal', '600'],
    ]);
    for (const [name = ''] of modes()) chmodSync(join(dir, name), 0o644);
    const again = openViewStore(file());
    expect(modes().map(([, mode]) => mode)).toEqual(['600', '600', '600']);
    again.close();
    views.close();
  });

  test('cannot be saved while another process holds the file: the error names it', async () => {
    const views = openViewStore(file());
    const other = new DatabaseSync(file());
    other.exec('BEGIN IMMEDIATE');
    const snapshot = { name: 'a', version: 1, logId: 'x', position: await say(1), state: serialize({}) };
    expect(() => views.save([snapshot])).toThrow(`${file()}: database is locked`);
    other.close();
    views.save([snapshot]);
    expect(views.load('a')).toEqual({ ...snapshot, state: new Uint8Array(snapshot.state) });
    views.close();
  });

  test('that throws stops there, reports it, and skips nothing', async () => {
    await say(2);
    const failures: Error[] = [];
    const views = openViewStore(file());
    const runner = createProjectionRunner(log, views, { onError: (error) => failures.push(error) });
    const { projection } = seen({
      apply(state, one) {
        state.positions.push(one.position);
        if (state.positions.length === 3) throw new Error('cannot read this');
        return state;
      },
    });
    const running = runner.run(projection);
    await running.caughtUp;
    const good = running.position;
    const bad = await say(1);
    await expect(running.whenProcessed(bad)).rejects.toThrow(/projection seen stopped .* cannot read this/);
    expect(running.position).toBe(good);
    expect(running.status()).toMatchObject({ phase: 'stopped', error: expect.stringContaining('cannot read this') });
    expect(failures).toHaveLength(1);
    await expect(running.whenProcessed((await say(1)) as Position)).rejects.toThrow(/stopped/);
    await runner.close();
    views.close();

    const { state } = await life(seen().projection);
    expect(state.positions).toHaveLength(4);
  });

  test('rejects waiting calls when it is closed', async () => {
    const runner = createProjectionRunner(log);
    const running = runner.run(seen().projection);
    await running.caughtUp;
    const never = running.whenProcessed('9999999999999999' as Position);
    const asserted = expect(never).rejects.toThrow(/stopp/);
    await runner.close();
    await asserted;
  });
});

describe('a snapshot is thrown away and the log folded again', () => {
  test('when it is of another version', async () => {
    await say(3);
    await life(seen().projection);
    const { projection, calls } = seen({ version: 2 });
    const { status } = await life(projection);
    expect(calls).toHaveLength(3);
    expect(status.startedFrom).toBe('the beginning: the snapshot is of version 1, not 2');
  });

  test('when the log is another one', async () => {
    await say(3);
    await life(seen().projection);
    const other = new MemoryLog();
    await say(5, 'word-b', other);
    const { projection, calls } = seen();
    const { status, state } = await life(projection, other);
    expect(calls).toHaveLength(5);
    expect(state.positions).toHaveLength(5);
    expect(status.startedFrom).toBe('the beginning: the snapshot is of another log');
    await other.close();
  });

  test('when the log ends before it, as one restored from an older backup does', async () => {
    const restored = new MemoryLog();
    const events = [event(), event(), event()].map((one, index) => ({ ...one, id: `id-${index}` }));
    const stream = streamName('word', 'a');
    await log.append([{ stream, events, expectedRevision: 'any' }]);
    await restored.append([{ stream, events: events.slice(0, 2), expectedRevision: 'any' }]);
    await life(seen().projection);
    const { status, state } = await life(seen().projection, restored);
    expect(state.positions).toHaveLength(2);
    expect(status.startedFrom).toBe('the beginning: the snapshot is newer than the log');
    await restored.close();
  });

  test('when it cannot be read', async () => {
    await say(3);
    await life(seen().projection);
    const { projection, calls } = seen({
      load() {
        throw new Error('what is this');
      },
    });
    await life(projection);
    expect(calls).toHaveLength(3);
  });

  test('when its text was changed', async () => {
    await say(3);
    await life(seen().projection);
    const db = new DatabaseSync(file());
    db.prepare('UPDATE states SET state = ?').run(serialize({ positions: ['forged'] }));
    db.close();
    const { projection, calls } = seen();
    const { state } = await life(projection);
    expect(calls).toHaveLength(3);
    expect(state.positions).not.toContain('forged');
  });

  test('when the file is no database, or one of something else', async () => {
    await say(3);
    writeFileSync(file(), 'this is not SQLite, by any stretch of the imagination'.repeat(100));
    const first = await life(seen().projection);
    expect(first.discarded).toHaveLength(1);
    expect(first.state.positions).toHaveLength(3);

    rmSync(file());
    const db = new DatabaseSync(file());
    db.exec('CREATE TABLE states (what TEXT)');
    db.close();
    const second = await life(seen().projection);
    expect(second.discarded).toHaveLength(1);
    const third = seen();
    await life(third.projection);
    expect(third.calls).toHaveLength(0);
  });

  test('wherever the file was damaged: the state is always the fold of the log', {
    timeout: 20_000,
  }, async () => {
    await say(3);
    await life(seen().projection);
    const whole = readFileSync(file());
    const expected = (await life(seen().projection)).state.positions;
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length - 1), fc.integer({ min: 1, max: 255 }), async (at, change) => {
        const damaged = Buffer.from(whole);
        damaged[at] = (damaged[at] ?? 0) ^ change;
        for (const suffix of ['-wal', '-shm']) rmSync(file() + suffix, { force: true });
        writeFileSync(file(), damaged);
        expect((await life(seen().projection)).state.positions).toEqual(expected);
      }),
      { numRuns: countOf(15, 60) },
    );
  });
});

test('snapshots and checkpoints are saved while running, so that a killed process loses little', async () => {
  const views = openViewStore(file());
  const runner = createProjectionRunner(log, views, { saveEveryMs: 5 });
  const running = runner.run(seen().projection);
  const position = await say(3);
  await running.whenProcessed(position);
  await expect.poll(() => running.status().checkpoint).toBe(position);
  const other = openViewStore(file());
  expect(other.load('seen')).toMatchObject({ position, version: 1 });
  other.close();
  await runner.close();
  views.close();
});

test('saving that takes long is done less often, and once more at the end', async () => {
  const views = openViewStore(file());
  const runner = createProjectionRunner(log, views, { saveEveryMs: 1 });
  let saves = 0;
  const { projection } = seen({
    save(state) {
      saves += 1;
      const until = performance.now() + 100;
      while (performance.now() < until) {
        // It is a large state.
      }
      return state;
    },
  });
  const running = runner.run(projection);
  await running.whenProcessed(await say(1));
  await expect.poll(() => saves).toBe(1);
  const until = performance.now() + 300;
  while (performance.now() < until) {
    await running.whenProcessed(await say(1));
    await otherWork();
  }
  expect(saves).toBe(1);
  const { position } = running;
  await runner.close();
  expect(saves).toBe(2);
  expect(views.load('seen')?.position).toBe(position);
  views.close();
});

test('snapshots are saved together with the event to which they are bound, once the log has it on disk', async () => {
  const views = openViewStore(file());
  let durableHead = START;
  const lagging: EventLog = Object.create(log, {
    status: { value: () => ({ ...log.status(), durableHead }) },
    ...Object.fromEntries(
      (['readAll', 'readStream', 'head', 'subscribe'] as const).map((name) => [name, { value: log[name].bind(log) }]),
    ),
  });
  const runner = createProjectionRunner(lagging, views);
  const running = runner.run(seen().projection);
  const position = await say(2);
  await running.whenProcessed(position);
  await runner.save();
  expect([views.load('seen'), boundEvents(file())]).toEqual([undefined, []]);
  durableHead = position;
  await runner.save();
  expect([views.load('seen'), ...boundEvents(file())]).toMatchObject([{ position }, { position }]);
  await runner.close();
  views.close();
});

test('an unchanged state is not saved again, however far the log moves on', async () => {
  const views = openViewStore(file());
  const runner = createProjectionRunner(log, views);
  let saves = 0;
  const { projection } = seen({
    save(state) {
      saves += 1;
      return state;
    },
  });
  const running = runner.run(projection);
  await running.whenProcessed(await say(2));
  await runner.save();
  for (let count = 0; count < 3; count++) {
    const { position } = await log.append([
      { stream: streamName('other', 'x'), events: [event()], expectedRevision: 'any' },
    ]);
    await running.whenProcessed(position);
    await runner.save();
    expect(views.load('seen')).toMatchObject({ position, state: new Uint8Array(serialize(running.state)) });
  }
  expect(saves).toBe(1);
  await running.whenProcessed(await say(1));
  await runner.save();
  expect(saves).toBe(2);
  await runner.close();
  views.close();

  const next = await life(seen().projection);
  expect(next.status.startedFrom).toContain('the snapshot at');
  expect(next.state.positions).toHaveLength(3);
});

test('a start that changes nothing moves the position of its snapshot', async () => {
  await say(2);
  await life(seen().projection);
  const { position } = await log.append([
    { stream: streamName('other', 'x'), events: [event()], expectedRevision: 'any' },
  ]);
  await life(seen({ save: () => expect.fail('it was saved whole') }).projection);
  const again = seen();
  expect((await life(again.projection)).status).toMatchObject({ startedFrom: `the snapshot at ${position}` });
  expect(again.calls).toEqual([]);
});

test('however often it is stopped and started, the state is the fold of the whole history', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(6), { minLength: 1, maxLength: 6 }), async (portions) => {
      const own = new MemoryLog();
      const views = openViewStore(':memory:');
      let state: Seen = { positions: [] };
      for (const portion of portions) {
        await say(portion, 'word-a', own);
        state = (await run(seen().projection, views, () => {}, own)).state as Seen;
      }
      const all: string[] = [];
      for await (const one of own.readAll()) all.push(one.position);
      expect(state.positions).toEqual(all);
      views.close();
      await own.close();
    }),
    { numRuns: countOf(10, 40) },
  );
});

describe('an operator decides while the process runs', () => {
  /** Stops at the event with `broken` in its data. */
  const fragile = () => {
    const { projection, calls } = seen();
    const apply: Projection<Seen>['apply'] = (state, one) => {
      if ((one.data as { broken?: true }).broken) throw new Error('it does not fit');
      return projection.apply(state, one);
    };
    return { projection: { ...projection, apply }, calls };
  };
  const broken = async () => {
    const write = { stream: streamName('word', 'a'), events: [event('word.said', { broken: true })] };
    return (await log.append([{ ...write, expectedRevision: 'any' }])).position;
  };
  const skip = (position: Position, { status }: ProjectionRunner) => {
    const asked = { view: 'seen', position, reason: 'broken' };
    const find = () => ({ rebuild: 'possible' as const, stoppedAt: status()[0]?.stoppedAt });
    return skipEvent(asked, { find, isSkipped: async () => false }, log, { actor: 'master' });
  };
  const started = async (options?: { hasEffects: boolean }) => {
    const views = openViewStore(file());
    const runner = createProjectionRunner(log, views);
    const { projection, calls } = fragile();
    const running = runner.run(projection, options);
    await running.caughtUp;
    const close = async () => {
      await runner.close();
      views.close();
    };
    return { runner, running, calls, close };
  };

  test('a skip lets a stopped projection continue from its snapshot, with every other event exactly once', async () => {
    const first = await say(2);
    const { runner, running, calls, close } = await started();
    await runner.save();
    const at = await broken();
    const last = await say(1);
    await expect(running.whenProcessed(last)).rejects.toThrow('it does not fit');
    expect(running.status()).toMatchObject({ phase: 'stopped', position: first, stoppedAt: { position: at } });
    await expect(skip(last, runner)).rejects.toMatchObject({ status: 409, code: 'view_not_stopped' });
    await skip(at, runner);
    await runner.whenContinued('seen', last);
    await running.whenProcessed(last);
    await running.caughtUp;
    expect(running.status()).toMatchObject({ phase: 'live', startedFrom: `the snapshot at ${first}` });
    expect(running.status()).not.toHaveProperty('error');
    expect(running.state.positions).toHaveLength(3);
    expect(calls).toHaveLength(3);
    await close();
  });

  test('readers get the state from before until a continued projection is at the end of the log', async () => {
    await say(2);
    const { runner, running, close } = await started();
    const at = await broken();
    const last = await say(3);
    await expect(running.whenProcessed(last)).rejects.toThrow();
    const lengths = new Set<number>();
    await skip(at, runner);
    let continued = false;
    const whole = runner.whenContinued('seen', last).then(() => {
      continued = true;
    });
    while (!continued) {
      lengths.add(running.state.positions.length);
      await otherWork();
    }
    await whole;
    expect([...lengths].every((length) => length === 2 || length === 5)).toBe(true);
    expect(running.state.positions).toHaveLength(5);
    await close();
  });

  test('a projection that stops again at a later event can be continued again', async () => {
    const { runner, running, close } = await started();
    const [one, two] = [await broken(), await broken()];
    const last = await say(1);
    await expect(running.whenProcessed(one)).rejects.toThrow();
    await skip(one, runner);
    await runner.whenContinued('seen', one);
    await expect(running.whenProcessed(last)).rejects.toThrow();
    expect(running.status().stoppedAt?.position).toBe(two);
    await skip(two, runner);
    await runner.whenContinued('seen', last);
    expect(running.state.positions).toHaveLength(1);
    await close();
  });

  test('a projection with effects stays stopped until the next start', async () => {
    const { runner, running, close } = await started({ hasEffects: true });
    const at = await broken();
    await expect(running.whenProcessed(at)).rejects.toThrow();
    await skip(at, runner);
    expect(running.status()).toMatchObject({ phase: 'stopped', continues: false });
    await close();
    const again = await started({ hasEffects: true });
    expect(again.running.status().phase).toBe('live');
    await again.close();
  });

  test('a request to rebuild makes the next start fold the log again, once', async () => {
    await say(4);
    await life(seen().projection);
    const { runner, running, close } = await started();
    const events = [viewRebuildRequested.create({ view: 'seen' }, { actor: 'master' })];
    await log.append([{ stream: rebuildsStream, events, expectedRevision: 'any' }]);
    await running.whenProcessed(await say(1));
    await runner.save();
    expect(running.status().startedFrom).toMatch(/^the snapshot/);
    await close();
    const rebuilt = seen();
    expect((await life(rebuilt.projection)).status.startedFrom).toBe('the beginning: master has requested it');
    expect(rebuilt.calls).toHaveLength(5);
    expect((await life(seen().projection)).status.startedFrom).toMatch(/^the snapshot/);
  });
});
