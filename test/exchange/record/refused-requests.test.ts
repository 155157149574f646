/** Refused requests beyond those that are recorded one by one: counted, and recorded together. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type RefusedRequest, RefusedRequests } from '../../../src/commands/exchange/record/refused-requests.ts';
import { type Refusal, refusals } from '../../../src/commands/refusal.ts';
import { requestsRefused } from '../../../src/events/catalogue/exchange.ts';
import type { Actor, UserPath } from '../../../src/events/event.ts';
import { type Appended, LogUnavailable, type StreamWrite } from '../../../src/events/log.ts';
import { MemoryLog } from '../../../src/events/memory/memory-log.ts';

const START = Date.parse('2026-03-01T12:00:00Z');
const limited = refusals.rateLimitExceeded('full', 1);
const denied = refusals.modelAccessDenied('m');

/** A log that fails so many appends, some of which it has recorded all the same. */
class FailingLog extends MemoryLog {
  failures = 0;
  recordsAllTheSame = false;

  override async append(writes: readonly StreamWrite[]): Promise<Appended> {
    if (this.failures-- > 0) {
      if (this.recordsAllTheSame) await super.append(writes);
      throw new LogUnavailable('no', 'unknown');
    }
    return super.append(writes);
  }
}

const log = { it: new FailingLog() };
let errors: unknown[] = [];
let refused = made(2);

function made(alone: number): RefusedRequests {
  return new RefusedRequests({ log: log.it, alone, onError: (error) => errors.push(error) });
}

beforeEach(() => {
  vi.useFakeTimers({ now: START });
  log.it = new FailingLog();
  errors = [];
  refused = made(2);
});
afterEach(() => vi.useRealTimers());

const request = (actor: Actor = 'key:a', userPath?: string, endpoint = '/v1/chat/completions'): RefusedRequest => ({
  caller: { actor, userPath: userPath as UserPath | undefined, authMethod: 'api_key' },
  endpoint,
  durationMs: 2,
});

/** @returns how many of them are to be recorded one by one */
function refuse(times: number, of: RefusedRequest = request(), why: Refusal = limited): number {
  let alone = 0;
  for (let time = 0; time < times; time++) if (refused.recordsAlone(of, why)) alone += 1;
  return alone;
}

async function recorded() {
  const events = [];
  for await (const { data, context, stream } of log.it.readAll({ filter: { types: [requestsRefused.type] } })) {
    const { code, count, firstAt, lastAt, endpoint } = requestsRefused.data.parse(data);
    events.push({ stream, ...context, code, count, firstAt, lastAt, endpoint });
  }
  return events;
}

describe('the refusals of one key in one minute', () => {
  it('are recorded one by one up to the bound, and then as one event for each reason when the minute ends', async () => {
    expect(refuse(5)).toBe(2);
    vi.setSystemTime(START + 10_000);
    expect(refuse(4, request(), denied)).toBe(0);
    expect(await recorded()).toEqual([]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await recorded()).toMatchObject([
      { stream: 'refusals-a', actor: 'key:a', code: 'rate_limit_exceeded', count: 3, firstAt: START, lastAt: START },
      { code: 'model_access_denied', count: 4, firstAt: START + 10_000, endpoint: '/v1/chat/completions' },
    ]);
  });

  it('are counted by user path, and leave out an endpoint that is not the same for all', async () => {
    refuse(2);
    refuse(1, request('key:a', '/x'));
    refuse(1, request('key:a', '/x', '/v1/responses'));
    refuse(1, request('key:a', '/y'));
    await refused.stop();
    const events = await recorded();
    expect(events).toMatchObject([
      { userPath: '/x', count: 2 },
      { userPath: '/y', count: 1, endpoint: '/v1/chat/completions' },
    ]);
    expect(events[0]?.endpoint).toBeUndefined();
  });

  it('do not count for another key, nor for the next minute', async () => {
    expect(refuse(3)).toBe(2);
    expect(refuse(3, request('key:b'))).toBe(2);
    vi.setSystemTime(START + 60_000);
    expect(refuse(3)).toBe(2);
    await refused.stop();
    expect((await recorded()).map(({ actor, count }) => [actor, count])).toEqual([
      ['key:a', 1],
      ['key:b', 1],
      ['key:a', 1],
    ]);
  });
});

describe('memory', () => {
  it('is bounded when a key names a user path of its own with each request, and every request is counted', async () => {
    refuse(2);
    for (let path = 0; path < 1000; path++) refuse(1, request('key:a', `/p${path}`));
    await refused.stop();
    const events = await recorded();
    expect(events).toHaveLength(65);
    expect(events.reduce((sum, { count }) => sum + count, 0)).toBe(1000);
  });

  it('is bounded when very many keys are refused, and every request is counted', async () => {
    refused = made(0);
    for (let key = 0; key < 12_000; key++) refuse(2, request(`key:${key}`));
    await refused.stop();
    const events = await recorded();
    expect(events).toHaveLength(10_001);
    expect(events.reduce((sum, { count }) => sum + count, 0)).toBe(24_000);
    expect(events.at(-1)).toMatchObject({ actor: 'system', count: 4000 });
  });
});

describe('a log that cannot be written', () => {
  it.each([false, true])('gets every count once, as soon as it can be (recorded all the same: %s)', async (also) => {
    refuse(5);
    log.it.failures = 3;
    log.it.recordsAllTheSame = also;
    await vi.advanceTimersByTimeAsync(60_000);
    refuse(5);
    await vi.advanceTimersByTimeAsync(120_000);
    expect(errors).toHaveLength(3);
    expect((await recorded()).map(({ count }) => count)).toEqual([3, 3]);
  });
});

describe('stop', () => {
  it('records what is counted, also what was counted while the log did not take an earlier minute', async () => {
    refuse(5);
    log.it.failures = 1;
    await vi.advanceTimersByTimeAsync(60_000);
    refuse(4);
    await refused.stop();
    expect((await recorded()).map(({ count }) => count)).toEqual([3, 2]);
    expect(vi.getTimerCount()).toBe(0);
  });
});
