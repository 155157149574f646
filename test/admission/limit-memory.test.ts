/** The counts of rate limits, over a restart. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { RateLimiter } from '../../src/commands/admission/rate-limiter.ts';
import { restoreLimits } from '../../src/commands/admission/requests-elsewhere.ts';
import type { RateLimitRule } from '../../src/commands/admission/sliding-window.ts';
import { unknownUsage } from '../../src/commands/model-request/usage.ts';
import { usageRecorded } from '../../src/events/catalogue/exchange.ts';
import { type NewEvent, type Position, START } from '../../src/events/event.ts';
import { positionAtTime } from '../../src/events/log.ts';
import type { LimitMemory } from '../../src/projections/limit-memory-store.ts';
import { append, exchangeOf } from '../projections/exchange-history.ts';
import { engines, openTestLog, type TestLog } from '../projections/log-engines.ts';

const NOW = Date.parse('2026-03-01T12:00:00Z');
let opened: TestLog;
afterEach(() => opened.discard());

const rule = (more: Partial<RateLimitRule> & { subject: string }): RateLimitRule => ({
  scope: 'user_path',
  periodSeconds: 3600,
  maxRequests: 100,
  maxTokens: 1000,
  ...more,
});

/** The counts of rules, once the log was read. */
async function counted(memory: LimitMemory | undefined, ...rules: RateLimitRule[]) {
  const state = { changes: 1, rules: new Map(rules.map((one, index) => [String(index), one])) };
  const limiter = new RateLimiter({ state }, () => NOW);
  await restoreLimits({ log: opened.log, limiter, rules: state, memory, now: NOW });
  return rules.map((_, index) => {
    const { requests = 0, tokens = 0 } = limiter.counts(String(index))?.read(NOW) ?? {};
    return [requests, tokens];
  });
}

const atTime = (at: number, event: NewEvent): NewEvent => ({ ...event, at });

/** A request that was let through so long ago, and its 15 tokens. @returns the position of its beginning */
async function served(id: string, msAgo: number, userPath = '/team'): Promise<Position> {
  const exchange = exchangeOf(id, { userPath });
  const at = NOW - msAgo;
  const begun = await append(
    opened.log,
    exchange.stream,
    ...[exchange.received, exchange.attempt(1)].map((one) => atTime(at, one)),
  );
  await append(opened.log, exchange.stream, ...[exchange.completed, exchange.usage].map((one) => atTime(at + 10, one)));
  return begun.position;
}

const MINUTE = 60_000;

describe.each(engines)('from a log in %s', (engine) => {
  beforeEach(async () => {
    opened = await openTestLog(engine);
  });

  test('everything within the windows is counted again, when no counts were saved', async () => {
    await served('1', 200 * MINUTE);
    await served('2', 50 * MINUTE);
    await served('3', 10 * MINUTE, '/other');
    await served('4', MINUTE, '/team/alpha');
    expect(
      await counted(
        undefined,
        rule({ subject: '/' }),
        rule({ subject: '/team' }),
        rule({ subject: '/', periodSeconds: 1800 }),
        rule({ scope: 'provider', subject: 'local' }),
        rule({ scope: 'model', subject: 'local/tiny' }),
        rule({ scope: 'model', subject: 'tiny', lastResetAt: NOW - 5 * MINUTE }),
      ),
    ).toEqual([
      [3, 45],
      [2, 30],
      [2, 30],
      [3, 45],
      [3, 45],
      [1, 15],
    ]);
  });

  test('estimated tokens are counted where the provider reported none', async () => {
    const exchange = exchangeOf('1', { userPath: '/team' });
    const estimate = { estimated: true, estimatedInputTokens: 30, estimatedOutputTokens: 12 };
    const data = usageRecorded.data.parse({ ...exchange.usage.data, ...unknownUsage, ...estimate });
    const events = [
      exchange.received,
      exchange.attempt(1),
      exchange.left,
      usageRecorded.create(data, exchange.context),
    ];
    await append(opened.log, exchange.stream, ...events.map((one) => atTime(NOW - MINUTE, one)));
    expect(await counted(undefined, rule({ subject: '/team' }))).toEqual([[1, 42]]);
  });

  test('answers from the response cache count against no limit', async () => {
    const exchange = exchangeOf('1', { userPath: '/team' });
    const free = { cacheType: 'exact', inputCost: '0', outputCost: '0', totalCost: '0', savedCost: '5' };
    const usage = usageRecorded.create(usageRecorded.data.parse({ ...exchange.usage.data, ...free }), exchange.context);
    const events = [exchange.received, exchange.completed, usage];
    await append(opened.log, exchange.stream, ...events.map((one) => atTime(NOW - MINUTE, one)));
    expect(await counted(undefined, rule({ subject: '/team' }))).toEqual([[0, 0]]);
  });

  test('retries count as the same request, and refused requests do not count', async () => {
    const exchange = exchangeOf('1', { userPath: '/team' });
    const events = [
      exchange.received,
      exchange.attempt(1),
      exchange.attemptFailed(1),
      exchange.attempt(2),
      exchange.failed,
    ];
    await append(opened.log, exchange.stream, ...events.map((one) => atTime(NOW - MINUTE, one)));
    const refused = exchangeOf('2', { userPath: '/team' });
    await append(opened.log, refused.stream, ...[refused.received, refused.refused].map((one) => atTime(NOW, one)));
    expect(await counted(undefined, rule({ subject: '/' }), rule({ scope: 'provider', subject: 'local' }))).toEqual([
      [1, 0],
      [1, 0],
    ]);
  });

  test('saved counts are taken, and later requests added', async () => {
    await served('before', 20 * MINUTE);
    const position = await opened.log.head();
    await served('open', 2 * MINUTE);
    await served('after', MINUTE);
    const part = Math.floor(NOW / MINUTE);
    const memory = {
      position,
      gauges: [{ key: '0', requests: [[part - 20, 2] as const], tokens: [[part - 20, 15] as const] }],
      open: ['open'],
    };
    // The request that was under way is among the two; its tokens came later.
    expect(await counted(memory, rule({ subject: '/' }))).toEqual([[3, 45]]);
  });

  test('counts saved before a reset are forgotten, and later requests counted', async () => {
    await served('before', 20 * MINUTE);
    const position = await opened.log.head();
    await served('forgiven', 10 * MINUTE);
    await served('after', MINUTE);
    const part = Math.floor(NOW / MINUTE);
    const gauge = { requests: [[part - 20, 1] as const], tokens: [[part - 20, 15] as const] };
    const resetAt = NOW - 5 * MINUTE;
    const memory = {
      position,
      gauges: [
        { ...gauge, key: '0' },
        { ...gauge, key: '1', resetAt },
      ],
      open: [],
    };
    const reset = rule({ subject: '/', lastResetAt: resetAt });
    expect(await counted(memory, reset, reset)).toEqual([
      [1, 15],
      [2, 30],
    ]);
  });

  test('the first call of a request counts, also when it is a failover from a target that was not called', async () => {
    const exchange = exchangeOf('1', { userPath: '/team' });
    const first = exchange.attempt(1);
    const failover = { ...first, data: { ...first.data, kind: 'failover' } };
    await append(opened.log, exchange.stream, ...[exchange.received, failover].map((one) => atTime(NOW - MINUTE, one)));
    expect(await counted(undefined, rule({ subject: '/team' }))).toEqual([[1, 0]]);
  });

  test('nothing is read that is older than the longest window, however old the saved counts are', async () => {
    const position = await opened.log.head();
    for (let id = 1; id <= 5; id++) await served(`old-${id}`, (100 - id) * MINUTE);
    await served('new', MINUTE);
    const { log } = opened;
    let read = 0;
    const state = { changes: 1, rules: new Map([['0', rule({ subject: '/' })]]) };
    const limiter = new RateLimiter({ state }, () => NOW);
    const watched = new Proxy(log, {
      get(target, member) {
        if (member !== 'readAll') return Reflect.get(target, member).bind(target);
        return async function* (options: Parameters<typeof log.readAll>[0]) {
          for await (const event of target.readAll(options)) {
            if (options?.maxCount !== 1) read += 1;
            yield event;
          }
        };
      },
    });
    const memory = { position, gauges: [], open: [] };
    await restoreLimits({ log: watched, limiter, rules: state, memory, now: NOW });
    expect(limiter.counts('0')?.read(NOW).requests).toBe(1);
    expect(read).toBe(2);
  });

  test('nothing is read where no rule has a window', async () => {
    await served('1', MINUTE);
    expect(await counted(undefined, rule({ subject: '/', periodSeconds: 0 }))).toEqual([[0, 0]]);
  });

  test('the position of a time is found', async () => {
    expect(await positionAtTime(opened.log, NOW)).toBe(START);
    for (let id = 1; id <= 20; id++) await served(String(id), (21 - id) * MINUTE);
    for (const minutes of [30, 20, 7, 1, 0]) {
      const after = await positionAtTime(opened.log, NOW - minutes * MINUTE);
      const times: number[] = [];
      for await (const { at } of opened.log.readAll({ after })) times.push(at);
      expect(times.every((at) => at >= NOW - minutes * MINUTE)).toBe(true);
      expect(times).toHaveLength(4 * Math.min(20, minutes));
    }
  });
});
