import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type NewEvent, type Position, START, streamName } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { eventView, LiveTail, type TailSubscription } from '../../src/projections/live-tail.ts';
import { countOf } from '../support/seed.ts';
import { openTestLog, type TestLog } from './log-engines.ts';

let opened: TestLog;
let log: EventLog;
let seats: TailSubscription[];
beforeEach(async () => {
  opened = await openTestLog('memory');
  ({ log } = opened);
  seats = [];
});
afterEach(async () => {
  for (const seat of seats) seat.leave();
  await opened.discard();
});

const written = async (count: number, body?: Uint8Array): Promise<Position[]> => {
  const event: NewEvent = { type: 'word.said', schema: 1, data: {}, context: { actor: 'system' }, body };
  const positions: Position[] = [];
  for (let i = 0; i < count; i++) {
    const write = { stream: streamName('word', 'a'), events: [event], expectedRevision: 'any' as const };
    positions.push((await log.append([write])).position);
  }
  return positions;
};

/** A listener that keeps the positions it gets. */
function sit(tail: LiveTail, position: Position) {
  const sent: Position[] = [];
  const failures: unknown[] = [];
  const seat = tail.join(position, {
    frames: (frames) => sent.push(...frames.map((frame) => frame.position)),
    failed: (error) => failures.push(error),
  });
  if (seat !== undefined) seats.push(seat);
  return { seat, sent: sent, failures };
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('a listener that joins', () => {
  test('gets the kept events from its position on, before anything new', async () => {
    const tail = new LiveTail(log, eventView(log));
    const first = sit(tail, START);
    const old = await written(10);
    await expect.poll(() => first.sent).toEqual(old);
    const second = sit(tail, old[3] as Position);
    expect(second.sent).toEqual(old.slice(4));
    const fresh = await written(1);
    await expect.poll(() => second.sent).toEqual([...old.slice(4), ...fresh]);
  });

  test('ahead of the shared tail does not get events again', async () => {
    const gate = Promise.withResolvers<void>();
    const slowToFollow: EventLog = new Proxy(log, {
      get(target, name) {
        if (name === 'subscribe') {
          return async function* (options: Parameters<EventLog['subscribe']>[0]) {
            await gate.promise;
            yield* target.subscribe(options);
          };
        }
        const value = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const tail = new LiveTail(slowToFollow, eventView(log));
    const behind = sit(tail, START);
    const old = await written(5);
    const ahead = sit(tail, old[2] as Position);
    expect(ahead.seat?.position).toBe(old[2]);
    gate.resolve();
    await expect.poll(() => behind.sent).toEqual(old);
    expect(ahead.sent).toEqual(old.slice(3));
  });

  test.each([
    ['many', 2_500, undefined],
    ['large', 40, Buffer.alloc(512 * 1024)],
  ] as const)('is sent away to catch up when too %s have come since', async (_what, count, body) => {
    const tail = new LiveTail(log, eventView(log));
    const first = sit(tail, START);
    const old = await written(count, body);
    await expect.poll(() => first.sent.length).toBe(count);
    expect(sit(tail, START).seat).toBeUndefined();
    expect(sit(tail, old[2] as Position).seat).toBeUndefined();
    const near = sit(tail, old.at(-3) as Position);
    expect(near.sent).toEqual(old.slice(-2));
  });

  test('while there are no others begins a tail of its own, at its position', async () => {
    const tail = new LiveTail(log, eventView(log));
    const old = await written(5);
    const first = sit(tail, old[1] as Position);
    await expect.poll(() => first.sent).toEqual(old.slice(2));
    expect(sit(tail, START).seat).toBeUndefined();
    first.seat?.leave();
    expect(tail.listeners).toBe(0);
    const second = sit(tail, START);
    await expect.poll(() => second.sent).toEqual(old);
  });

  test('gets an error when the log is closed, and its seat is gone', async () => {
    const tail = new LiveTail(log, eventView(log));
    const one = sit(tail, START);
    await written(1);
    await expect.poll(() => one.sent).toHaveLength(1);
    await opened.close();
    await expect.poll(() => one.failures).toHaveLength(1);
    expect(tail.listeners).toBe(0);
  });
});

test('wherever listeners join and leave, each gets exactly the events that follow, and has no later position', async () => {
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ do: fc.constant('write' as const), count: fc.integer({ min: 1, max: 4 }) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('join' as const), back: fc.nat(8) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const), which: fc.nat(5) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('turn' as const) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('wait' as const) }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      await opened.discard();
      opened = await openTestLog('memory');
      ({ log } = opened);
      const tail = new LiveTail(log, eventView(log));
      const all: Position[] = [];
      let listeners: (ReturnType<typeof sit> & { from: number })[] = [];
      const check = () => {
        for (const { seat, sent, from } of listeners) {
          expect(sent).toEqual(all.slice(from, from + sent.length));
          // A listener that resumes from here must not miss anything.
          const claimed = all.filter((position) => position <= (seat?.position ?? START)).length;
          expect(claimed).toBeLessThanOrEqual(from + sent.length);
        }
      };
      for (const one of steps) {
        if (one.do === 'write') all.push(...(await written(one.count)));
        else if (one.do === 'turn') await turn();
        // A time: one of the random steps.
        else if (one.do === 'wait') await new Promise((resolve) => setTimeout(resolve, 12));
        else if (one.do === 'join') {
          const from = Math.max(0, all.length - one.back);
          const joined = sit(tail, all[from - 1] ?? START);
          if (joined.seat !== undefined) listeners.push({ ...joined, from });
        } else {
          const leaving = listeners[one.which];
          leaving?.seat?.leave();
          listeners = listeners.filter((other) => other !== leaving);
        }
        check();
      }
      for (const { sent, from } of listeners) {
        await expect.poll(() => sent.length, { interval: 2 }).toBe(all.length - from);
      }
      check();
      for (const { seat } of listeners) seat?.leave();
      expect(tail.listeners).toBe(0);
    }),
    { numRuns: countOf(15, 60) },
  );
});

describe('catching up', () => {
  test('ends at the end of the log, also when the filter leaves that out', async () => {
    const tail = new LiveTail(log, eventView(log));
    const old = await written(3);
    const steps: [Position | undefined, Position][] = [];
    const none = { streams: ['other-'] };
    for await (const { frame, position } of tail.catchUp(START, none, AbortSignal.timeout(5_000))) {
      steps.push([frame?.position, position]);
    }
    expect(steps).toEqual([[undefined, old[2]]]);
  });

  test('lets others run, however much there is to read', async () => {
    const tail = new LiveTail(log, eventView(log));
    await written(20_000);
    let turns = 0;
    const others = setInterval(() => {
      turns += 1;
    }, 1);
    let count = 0;
    for await (const { frame } of tail.catchUp(START, {}, AbortSignal.timeout(10_000))) if (frame) count += 1;
    clearInterval(others);
    expect(count).toBe(20_000);
    expect(turns).toBeGreaterThan(0);
  });
});
