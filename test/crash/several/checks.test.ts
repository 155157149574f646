/** The checks of rounds with several gateways find what is wrong. */
import { describe, expect, it } from 'vitest';
import { formatPosition, type RecordedEvent } from '../../../src/events/event.ts';
import type { ProviderCall, SentRequest } from '../evidence.ts';
import { RecordedLog } from '../recorded-log.ts';
import { BUDGET_USD, type Burst, checkBurst, emptyBurstSum, notRecordedUsd, servedUsd } from './budget-burst.ts';
import { checkKeys, type KeyHistory, type KeyProbe } from './check-keys.ts';
import { checkMadeOnce } from './check-made-once.ts';
import { checkOwners, takeoversIn } from './check-owners.ts';

const call = (facts: Partial<ProviderCall>): ProviderCall => ({
  ...{ provider: 'llamacpp', method: 'POST', path: '/v1/chat/completions', requestId: 'r' },
  ...{ port: 1, at: 0, isAnswered: true, framesSent: 0 },
  ...facts,
});

describe('requests with a key', () => {
  const probe = (facts: Partial<KeyProbe>): KeyProbe => ({
    ...{ requestId: 'r', what: '/v1/models', gateway: 1, status: 200, sentAt: 50, endedAt: 60 },
    ...facts,
  });
  const key = (probes: KeyProbe[]): KeyHistory => ({
    id: 'k',
    createdAt: 10,
    deactivatedAt: 80,
    confirmedAt: 100,
    probes,
  });

  it('may be served until the deactivation is confirmed, and refused from its request on', () => {
    const probes = [probe({}), probe({ sentAt: 99, endedAt: 200 }), probe({ status: 401, sentAt: 81, endedAt: 90 })];
    const refused = [401, 503, undefined].map((status) =>
      probe({ status, sentAt: 101, endedAt: 110, requestId: 'later' }),
    );
    expect(checkKeys([key([...probes, ...refused])], [call({})])).toEqual([]);
  });

  it('are reported when one is served, or reaches a provider, after that', () => {
    expect(checkKeys([key([probe({ sentAt: 100.5 })])], [])).toHaveLength(1);
    expect(checkKeys([key([probe({ sentAt: 101, status: undefined })])], [call({ requestId: 'r' })])).toHaveLength(1);
  });

  it('are reported when one is refused although the creation was confirmed', () => {
    expect(checkKeys([key([probe({ status: 401, sentAt: 11, endedAt: 20 })])], [])).toHaveLength(1);
  });
});

describe('the provider’s count of a budget', () => {
  const burst = (isQuiet: boolean): Burst => ({ path: '/budget/1', isQuiet, statuses: new Map([[200, 100]]) });
  const served = (count: number, facts: Partial<ProviderCall> = {}) =>
    Array.from({ length: count }, () => {
      const messages = [{ role: 'user', content: 'Write 120 words about /budget/1.' }];
      return call({ body: JSON.stringify({ max_tokens: 20, messages }), ...facts });
    });

  it('adds up the tokens that were sent, also those of answers that were broken off', () => {
    expect(servedUsd('/budget/1', served(3))).toBeCloseTo(0.3);
    expect(servedUsd('/budget/1', served(1, { isAnswered: false, framesSent: 0 }))).toBe(0);
    expect(servedUsd('/budget/1', served(1, { isAnswered: false, framesSent: 5 }))).toBeCloseTo(0.02);
    expect(servedUsd('/budget/2', served(3))).toBe(0);
  });

  it('is reported above the budget, and far below it when nothing was disturbed', () => {
    const found = (count: number, isQuiet: boolean) => checkBurst(burst(isQuiet), served(count), emptyBurstSum());
    expect(found(BUDGET_USD * 10, true)).toEqual([]);
    expect(found(BUDGET_USD * 10 + 1, false)).toHaveLength(1);
    expect(found(10, false)).toEqual([]);
    expect(found(10, true)).toHaveLength(1);
  });

  it('may exceed the budget by what no event shows of streams that another gateway closed', () => {
    const log = (actor: 'system' | 'master', estimated: boolean) => {
      const events = [
        { type: 'request.received', context: { userPath: '/budget/1' } },
        { type: 'cost.reserved', data: { amount: '150000000' } },
        { type: 'usage.recorded', data: { totalCost: '50000000', estimated }, context: { actor } },
      ] as unknown as RecordedEvent[];
      return { exchanges: new Map([['y', { id: 'y', events }]]) };
    };
    expect(notRecordedUsd('/budget/1', log('system', true))).toBeCloseTo(0.1);
    expect(notRecordedUsd('/budget/1', log('system', false))).toBe(0);
    expect(notRecordedUsd('/budget/1', log('master', true))).toBe(0);
    expect(notRecordedUsd('/budget/2', log('system', true))).toBe(0);
    const found = (count: number) => checkBurst(burst(false), served(count), emptyBurstSum(), 0.1);
    expect(found(BUDGET_USD * 10 + 1)).toEqual([]);
    expect(found(BUDGET_USD * 10 + 2)).toHaveLength(1);
  });
});

/** A log in which gateway `a` (process 1) receives an exchange, and `b` (process 2) ends it. */
function logOf(more: readonly (readonly [stream: string, type: string, data?: object])[] = []): RecordedLog {
  const log = new RecordedLog();
  const revisions = new Map<string, bigint>();
  const events = [
    ['gateway-a', 'gateway.started', { pid: 1 }],
    ['gateway-b', 'gateway.started', { pid: 2 }],
    ['exchange-x', 'request.received', { gateway: 'a' }],
    ['exchange-x', 'attempt.started'],
    ['lease-a', 'lease.ended', { reason: 'expired', heir: 'b' }],
    ['exchange-x', 'exchange.failed'],
    ...more,
  ] as const;
  events.forEach(([stream, type, data = {}], index) => {
    const revision = (revisions.get(stream) ?? -1n) + 1n;
    revisions.set(stream, revision);
    log.add({
      ...{ stream, type, revision, data, schema: 1, id: `e${index}`, position: formatPosition(index + 1) },
      ...{ at: performance.timeOrigin + index * 100, context: { actor: 'system', requestId: 'r' } },
    } as RecordedEvent);
  });
  return log;
}

const gateways = [
  { index: 0, ports: new Set([1]), pids: new Set([1]) },
  { index: 1, ports: new Set([2]), pids: new Set([2]) },
];

describe('calls of providers for an exchange that was taken over', () => {
  const checks = (log: RecordedLog, calls: ProviderCall[]) =>
    checkOwners(log, calls, gateways).violations.map(({ check }) => check);

  it('are those of the attempts that each gateway has recorded as its owner', () => {
    expect(checks(logOf(), [call({ at: 350 })])).toEqual([]);
    expect(checkOwners(logOf(), [call({ at: 350 })], gateways).takenOver).toBe(1);
    const resumed = logOf([['exchange-x', 'attempt.started']]);
    expect(checks(resumed, [call({ at: 350 }), call({ port: 2, at: 700 })])).toEqual([]);
  });

  it('are reported when a gateway calls without an attempt of its own', () => {
    expect(checks(logOf(), [call({ port: 2, at: 350 })])).toEqual(['owners']);
    expect(checks(logOf(), [call({}), call({})])).toEqual(['owners']);
  });

  it('are reported when one begins after the other gateway has recorded something', () => {
    expect(checks(logOf(), [call({ at: 501 })])).toEqual(['late calls']);
  });

  it('take as long as from the end of the gateway to the end of its exchanges', () => {
    expect(takeoversIn(logOf(), [{ pid: 1, at: 320 }])).toEqual([180]);
    expect(takeoversIn(logOf(), [{ pid: 2, at: 320 }])).toEqual([]);
  });
});

it('two exchanges under one idempotency key that are both answered by a provider are reported', () => {
  const log = (type: string) =>
    logOf([
      ['exchange-y', 'request.received', { gateway: 'b' }],
      ['exchange-y', 'exchange.completed'],
      ['exchange-z', 'request.received', { gateway: 'b' }],
      ['exchange-z', type],
      ['exchange-z', 'exchange.completed'],
    ]);
  const conversations = ['y', 'z'].map((id) => {
    const request = { idempotencyKey: 'k', requestId: undefined } as SentRequest;
    const answer = { status: 200, headers: { 'x-exchange-id': id }, body: Buffer.alloc(0) } as const;
    return { request, answer: { ...answer, end: 'whole' as const, sentAt: 0, endedAt: 1 } };
  });
  expect(checkMadeOnce(conversations, log('answer.replayed'))).toEqual([]);
  expect(checkMadeOnce(conversations, log('attempt.started'))).toHaveLength(1);
});
