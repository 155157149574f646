import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { leaseEnded, leaseGranted } from '../../src/events/catalogue/gateway.ts';
import type { EventContext, NewEvent, RecordedEvent, StreamName } from '../../src/events/event.ts';
import { type InFlight, inFlight, openExchanges } from '../../src/projections/in-flight.ts';
import { fold } from '../../src/projections/projection.ts';
import { createProjectionRunner } from '../../src/projections/runner.ts';
import { openViewStore } from '../../src/projections/view-store.ts';
import { countOf } from '../support/seed.ts';
import { append, type ExchangeHistory, exchangeOf } from './exchange-history.ts';
import { engines, openTestLog, type TestLog } from './log-engines.ts';

let opened: TestLog;
afterEach(() => opened.discard());

/** The events of the projection, read back from the log. */
async function history(): Promise<RecordedEvent[]> {
  const events: RecordedEvent[] = [];
  for await (const event of opened.log.readAll({ filter: inFlight.filter })) events.push(event);
  return events;
}

describe.each(engines)('requests in flight, from a log in %s', (engine) => {
  beforeEach(async () => {
    opened = await openTestLog(engine);
  });

  test('are those that began and did not end, with their progress', async () => {
    const [a, b, c] = [exchangeOf('a'), exchangeOf('b', { userPath: '/team', stream: false }), exchangeOf('c')];
    await append(opened.log, a.stream, a.received, a.resolved, a.attempt(1), a.attemptFailed(1), a.attempt(2));
    await append(opened.log, b.stream, b.received);
    await append(opened.log, c.stream, c.received, c.resolved, c.attempt(), c.words(0, 'x'), c.usage, c.completed);
    await append(opened.log, a.stream, a.words(0, 'x'));
    const open = openExchanges(fold(inFlight, await history()));
    expect(open.map(({ stream }) => stream)).toEqual(['exchange-a', 'exchange-b']);
    expect(open[0]?.exchange).toMatchObject({
      requestId: 'req-a',
      method: 'POST',
      path: '/v1/chat/completions',
      dialect: 'chat',
      requestedModel: 'local/tiny',
      provider: 'local',
      model: 'tiny',
      streaming: true,
      attempts: 2,
      attempt: { seq: 2, kind: 'retry' },
      lastEvent: 'attempt.started',
      userAgent: 'test/1',
    });
    expect(open[1]?.exchange).toMatchObject({ userPath: '/team', streaming: false, lastEvent: 'request.received' });
    expect(open[1]?.exchange.provider).toBeUndefined();
  });

  test.each(['refused', 'failed', 'completed', 'left'] as const)('are no more once they are %s', async (end) => {
    const exchange = exchangeOf('a');
    await append(opened.log, exchange.stream, exchange.received, exchange[end]);
    expect(fold(inFlight, await history()).exchanges.size).toBe(0);
  });
});

describe('the owner of a request in flight', () => {
  const context: EventContext = { actor: 'system' };
  const granted = leaseGranted.create({ folder: 'f', leaseMs: 1000 }, context);
  const ended = (heir?: string) =>
    leaseEnded.create({ reason: heir === undefined ? 'stopped' : 'expired', heir }, context);
  const owner = async () => {
    const [one] = openExchanges(fold(inFlight, await history()));
    return one?.exchange.gateway;
  };
  const record = (stream: string, event: NewEvent) => append(opened.log, stream as StreamName, event);

  test('is the heir of its gateway; without one the oldest lease that lasts, else the next lease', async () => {
    opened = await openTestLog('memory');
    const { stream, received } = exchangeOf('a');
    await record('lease-1', granted);
    await append(opened.log, stream, { ...received, data: { ...received.data, gateway: '1' } });
    await record('lease-2', granted);
    await record('lease-3', granted);
    expect(await owner()).toBe('1');
    await record('lease-1', ended());
    expect(await owner()).toBe('2');
    await record('lease-2', ended('3'));
    expect(await owner()).toBe('3');
    await record('lease-3', ended());
    expect(await owner()).toBeUndefined();
    await record('lease-4', granted);
    expect(await owner()).toBe('4');
  });
});

describe('requests in flight', () => {
  /** Any interleaving of a few exchanges, each up to any event. */
  const anyHistory = fc.array(fc.tuple(fc.nat(5), fc.nat(6)), { maxLength: 40 }).map((steps) => {
    const exchanges = new Map<number, { exchange: ExchangeHistory; left: NewEvent[] }>();
    const writes: [ExchangeHistory, NewEvent][] = [];
    for (const [which, howEnds] of steps) {
      let entry = exchanges.get(which);
      if (entry === undefined) {
        const exchange = exchangeOf(String(which));
        const end = [exchange.completed, exchange.failed, exchange.left, exchange.refused][howEnds % 4];
        const left = [exchange.received, exchange.resolved, exchange.attempt(), exchange.words(0, 'x'), exchange.usage];
        entry = { exchange, left: end === undefined ? left : [...left, end] };
        exchanges.set(which, entry);
      }
      const next = entry.left.shift();
      if (next !== undefined) writes.push([entry.exchange, next]);
    }
    return writes;
  });

  test('are the same from the beginning and from a snapshot anywhere with the rest', async () => {
    await fc.assert(
      fc.asyncProperty(anyHistory, fc.nat(40), async (writes, at) => {
        opened = await openTestLog('memory');
        for (const [exchange, event] of writes) await append(opened.log, exchange.stream, event);
        const events = await history();
        const whole = fold(inFlight, events);
        const early = fold(inFlight, events.slice(0, at));
        const saved: unknown = structuredClone(inFlight.save?.(early));
        const resumed = inFlight.load?.(saved);
        expect(fold(inFlight, events.slice(at), resumed)).toEqual(withoutUndefined(whole));
        await opened.discard();
      }),
      { numRuns: countOf(25, 100) },
    );
  });

  test('are restored after a crash from the snapshot and the tail', async () => {
    opened = await openTestLog('file');
    const [done, cut] = [exchangeOf('done'), exchangeOf('cut')];
    const views = openViewStore(':memory:');
    await append(opened.log, done.stream, done.received);
    const first = createProjectionRunner(opened.log, views);
    await first.run(inFlight).caughtUp;
    await first.close();

    await append(opened.log, done.stream, done.completed);
    await append(opened.log, cut.stream, cut.received);
    const second = createProjectionRunner(opened.log, views);
    const running = second.run(inFlight);
    await running.caughtUp;
    expect(running.status().startedFrom).toMatch(/^the snapshot/);
    expect(openExchanges(running.state).map(({ id }) => id)).toEqual(['cut']);
    await second.close();
    views.close();
  });
});

function withoutUndefined({ exchanges, leases }: InFlight): unknown {
  return { exchanges: new Map(JSON.parse(JSON.stringify([...exchanges]))), leases };
}
