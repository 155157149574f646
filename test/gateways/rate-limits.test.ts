/** Rate limits over gateways on one log: each counts the requests of the others as it reads them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join as pathOf } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RequestReservation } from '../../src/commands/model-request/admission.ts';
import { unknownUsage } from '../../src/commands/model-request/usage.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { rateLimitSet } from '../../src/events/catalogue/budget.ts';
import * as events from '../../src/events/catalogue/exchange.ts';
import { leaseEnded } from '../../src/events/catalogue/gateway.ts';
import { type EventContext, type NewEvent, streamName, type UserPath } from '../../src/events/event.ts';
import { createProjectionRunner, type ProjectionRunner } from '../../src/projections/runner.ts';
import { openViewStore, type ViewStore } from '../../src/projections/view-store.ts';
import { createLimits, type Limits } from '../../src/wiring/limits.ts';
import { admittedNow, requestFor, targetOf } from '../admission/request.ts';
import { MemoryEngineStore } from '../support/memory-engine.ts';
import { Replica } from '../support/replicas.ts';

const context: EventContext = { actor: 'master', userPath: '/team' as UserPath };
const target = targetOf('local', 'tiny');
let store: MemoryEngineStore;
let folder: string;
let gateways: TestGateway[];
let exchanges = 0;

interface TestGateway {
  readonly name: string;
  readonly replica: Replica;
  readonly views: ViewStore;
  readonly projections: ProjectionRunner;
  readonly limits: Limits;
}

beforeEach(() => {
  store = new MemoryEngineStore();
  folder = mkdtempSync(pathOf(tmpdir(), 'rate-limits-'));
  gateways = [];
});
afterEach(async () => {
  for (const gateway of [...gateways]) await stop(gateway);
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

async function join(name: string): Promise<TestGateway> {
  const replica = await Replica.open(() => store.connect());
  const views = openViewStore(pathOf(folder, `${name}.db`));
  const projections = createProjectionRunner(replica.log, views);
  const limits = createLimits({
    config: { budgets: { enabled: false, declared: [] }, rateLimits: { enabled: true, declared: [] } },
    log: replica.log,
    isShared: true,
    gateway: () => name,
    views,
    projections,
    pricing: { costOf: () => ({ inputCost: null, outputCost: null, totalCost: null }) },
    deferred: { open: () => new Map(), caughtUp: Promise.resolve() },
    onError(error) {
      throw error;
    },
  });
  await limits.begin();
  const gateway = { name, replica, views, projections, limits };
  gateways.push(gateway);
  return gateway;
}

async function stop(gateway: TestGateway): Promise<void> {
  gateways.splice(gateways.indexOf(gateway), 1);
  await gateway.limits.stop();
  await gateway.projections.close();
  gateway.views.close();
  await gateway.replica.dispose();
}

/** Appends, and resolves when every gateway has read it. */
async function record({ replica }: TestGateway, stream: ReturnType<typeof streamName>, noted: readonly NewEvent[]) {
  const { position } = await replica.log.append([{ stream, events: noted, expectedRevision: 'any' }]);
  for (const { projections } of gateways) await projections.whenAllProcessed(position);
}

function limit(gateway: TestGateway, periodSeconds: number, amounts: { maxRequests?: number; maxTokens?: number }) {
  const { maxRequests = null, maxTokens = null } = amounts;
  const rule = { scope: 'user_path' as const, subject: '/team', periodSeconds, maxRequests, maxTokens };
  const event = rateLimitSet.create({ ...rule, source: 'manual' }, context);
  return record(gateway, streamName('rate_limit', 'team'), [event]);
}

interface Begun {
  readonly id: string;
  readonly reservation: RequestReservation;
}

/** As the pipeline does. @throws Refusal */
async function begin(gateway: TestGateway): Promise<Begun> {
  exchanges += 1;
  const id = `e${exchanges}`;
  const reservation = admittedNow(gateway.limits.admission, requestFor({ exchangeId: id, userPath: '/team' }));
  reservation.enter(target);
  const received = {
    ...{ dialect: 'chat' as const, method: 'POST', path: '/', headers: {}, stream: false, gateway: gateway.name },
    ...{ authMethod: 'master_key' as const, capture: 'full' as const },
  };
  const called = { kind: 'primary' as const, provider: 'local', providerType: 'llamacpp', model: 'tiny' };
  await record(gateway, streamName('exchange', id), [
    events.requestReceived.create(received, context),
    events.attemptStarted.create({ attempt: 1, ...called, dialect: 'chat' }, context),
  ]);
  return { id, reservation };
}

async function end(
  gateway: TestGateway,
  { id, reservation }: Pick<Begun, 'id'> & Partial<Begun>,
  tokens = 0,
): Promise<void> {
  const usage = { ...unknownUsage, source: 'provider' as const, totalTokens: tokens };
  reservation?.charge({ usage, totalCost: null, isFailed: false });
  reservation?.settle(true, true);
  const failed = { status: 0, type: 'internal_error', code: null, message: '', chunks: 0, durationMs: 0 };
  const spentOn = { provider: 'local', providerType: 'llamacpp', model: 'tiny', endpoint: '/v1/chat/completions' };
  await record(gateway, streamName('exchange', id), [
    events.exchangeFailed.create({ ...failed, reason: 'gateway_stopped' }, context),
    events.usageRecorded.create({ ...spentOn, ...usage, inputCost: null, outputCost: null, totalCost: null }, context),
  ]);
}

function hasRoom({ limits }: TestGateway): boolean {
  try {
    admittedNow(limits.admission, requestFor({ exchangeId: 'probe', userPath: '/team' })).settle(false, false);
    return true;
  } catch (error) {
    if (error instanceof Refusal) return false;
    throw error;
  }
}

describe('a gateway', () => {
  it('counts the requests of others once, and its own once', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await limit(a, 3600, { maxRequests: 4 });
    for (const gateway of [a, b, a]) await end(gateway, await begin(gateway));
    expect([a, b].map(hasRoom)).toEqual([true, true]);
    await end(b, await begin(b));
    expect([a, b].map(hasRoom)).toEqual([false, false]);
  });

  it('counts the tokens of others once, and its own once', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await limit(a, 3600, { maxTokens: 100 });
    await end(a, await begin(a), 50);
    await end(b, await begin(b), 49);
    expect([a, b].map(hasRoom)).toEqual([true, true]);
    await end(b, await begin(b), 1);
    expect([a, b].map(hasRoom)).toEqual([false, false]);
  });

  it('counts the concurrent requests of others until they end', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await limit(a, 0, { maxRequests: 2 });
    const [first, second] = [await begin(a), await begin(b)];
    expect([a, b].map(hasRoom)).toEqual([false, false]);
    await end(a, first);
    expect([a, b].map(hasRoom)).toEqual([true, true]);
    await end(b, second);
    const third = await begin(b);
    const fourth = await begin(b);
    expect([a, b].map(hasRoom)).toEqual([false, false]);
    await end(b, third);
    await end(b, fourth);
    expect([a, b].map(hasRoom)).toEqual([true, true]);
  });

  it('leaves the places of a gateway that has ended when their heir ends the exchanges', async () => {
    const [a, b, c] = [await join('a'), await join('b'), await join('c')];
    await limit(a, 0, { maxRequests: 1 });
    const left = await begin(b);
    expect([a, c].map(hasRoom)).toEqual([false, false]);
    await stop(b);
    await record(a, streamName('lease', 'b'), [leaseEnded.create({ reason: 'expired', heir: 'a' }, context)]);
    await end(a, { id: left.id });
    expect([a, c].map(hasRoom)).toEqual([true, true]);
  });

  it('has the same counts after a restart', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await limit(a, 3600, { maxRequests: 3 });
    await limit(a, 0, { maxRequests: 3 });
    await end(a, await begin(a));
    const running = await begin(a);
    await stop(b);
    const again = await join('b');
    expect(hasRoom(again)).toBe(true);
    await end(a, await begin(a));
    expect([a, again].map(hasRoom)).toEqual([false, false]);
    await end(a, running);
  });

  it('that joins later has the counts of the others', async () => {
    const a = await join('a');
    await limit(a, 3600, { maxRequests: 2 });
    await end(a, await begin(a));
    const b = await join('b');
    expect(hasRoom(b)).toBe(true);
    await end(a, await begin(a));
    expect(hasRoom(b)).toBe(false);
  });
});
