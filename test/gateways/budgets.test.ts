/** Budgets of gateways on one log. Each gateway has a replica of a log in memory, and reads it at its own pace. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { BudgetReservation } from '../../src/commands/admission/budget-gate.ts';
import { unknownUsage } from '../../src/commands/model-request/usage.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { budgetSet } from '../../src/events/catalogue/budget.ts';
import { costReserved, exchangeFailed, usageRecorded } from '../../src/events/catalogue/exchange.ts';
import { type EventContext, type NewEvent, type StreamName, streamName } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { createProjectionRunner, type ProjectionRunner } from '../../src/projections/runner.ts';
import { type BudgetKeeping, sharedBudgetKeeping } from '../../src/wiring/budgets.ts';
import { requestFor } from '../admission/request.ts';
import { MemoryEngineStore } from '../support/memory-engine.ts';
import { Replica } from '../support/replicas.ts';

const context: EventContext = { actor: 'master' };
let store: MemoryEngineStore;
let gateways: TestGateway[];
let exchanges = 0;
const spentOn = { provider: 'local', providerType: 'llamacpp', model: 'tiny', endpoint: '/v1/chat/completions' };
const cost = (nano: number) => ({ inputCost: null, outputCost: null, totalCost: String(nano) });

interface TestGateway {
  readonly log: EventLog;
  readonly projections: ProjectionRunner;
  readonly budgets: BudgetKeeping;
  dispose(): Promise<void>;
}

beforeEach(() => {
  store = new MemoryEngineStore();
  gateways = [];
});
afterEach(async () => {
  for (const gateway of gateways) await gateway.dispose();
});

async function join(): Promise<TestGateway> {
  const replica = await Replica.open(() => store.connect());
  const projections = createProjectionRunner(replica.log);
  const budgets = sharedBudgetKeeping({
    config: {
      budgets: { enabled: true, declared: [], reservations: { sendsLimits: false, usualOutput: 1, maxWaitMs: 60_000 } },
    },
    log: replica.log,
    projections,
    deferred: { open: () => new Map(), caughtUp: Promise.resolve() },
  });
  await budgets.begin();
  const gateway: TestGateway = {
    log: replica.log,
    projections,
    budgets,
    async dispose() {
      await projections.close();
      await replica.dispose();
    },
  };
  gateways.push(gateway);
  return gateway;
}

/** Resolves when every gateway has read everything. */
async function read(): Promise<void> {
  for (const { log, projections } of gateways) await projections.whenAllProcessed(await log.head());
}

async function append({ log }: TestGateway, stream: StreamName, event: NewEvent) {
  return await log.append([{ stream, events: [event], expectedRevision: 'any' }]);
}

async function setBudget(gateway: TestGateway, amount: number): Promise<void> {
  const rule = { scope: 'user_path' as const, subject: '/', periodSeconds: 86_400, source: 'manual' as const };
  await append(gateway, streamName('budget', 'root'), budgetSet.create({ ...rule, amount: String(amount) }, context));
  for (const one of gateways) await one.projections.whenAllProcessed(await gateway.log.head());
}

interface Requested {
  readonly gateway: TestGateway;
  readonly stream: StreamName;
  readonly reservation: BudgetReservation;
}

/** @returns undefined when the gateway refuses the request at once */
function request(gateway: TestGateway, bound: number): Requested | undefined {
  exchanges += 1;
  const exchangeId = `e${exchanges}`;
  const forecast = { least: 0, likely: bound, most: bound, bound, learned: true };
  try {
    const reservation = gateway.budgets.gate.admit(requestFor({ exchangeId }), () => forecast);
    if (reservation === undefined) throw new Error('the budget does not concern the request');
    return { gateway, stream: streamName('exchange', exchangeId), reservation };
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

/** Records the reservation. @returns whether the log has room for it */
async function reserve({ gateway, stream, reservation }: Requested): Promise<boolean> {
  const next = reservation.onLog?.next();
  if (next === undefined) throw new Error('there is nothing to record');
  const { position } = await append(gateway, stream, costReserved.create(next, context));
  return (await reservation.onLog?.decided(position)) === undefined;
}

async function end({ gateway, stream, reservation }: Requested): Promise<void> {
  const facts = { status: 0, type: 'internal_error', code: null, message: '', chunks: 0, durationMs: 0 };
  await append(gateway, stream, exchangeFailed.create({ ...facts, reason: 'gateway_stopped' }, context));
  reservation.settle(true);
}

describe('two gateways with room for one more request', () => {
  it('admit one of two at the same time, whichever comes first in the log', async () => {
    const [a, b] = [await join(), await join()];
    await setBudget(a, 100);
    for (let round = 0; round < 20; round++) {
      const requests = [request(a, 60), request(b, 60)].filter((one) => one !== undefined);
      // Neither has read of the other.
      expect(requests).toHaveLength(2);
      const fits = await Promise.all((round % 2 === 0 ? requests : requests.toReversed()).map(reserve));
      expect(fits.filter((fit) => fit)).toHaveLength(1);
      for (const one of requests) await end(one);
      await read();
    }
  });

  it('refuse before anything is recorded once they have read the reservation of the other one', async () => {
    const [a, b] = [await join(), await join()];
    await setBudget(a, 100);
    const first = request(a, 60);
    if (first === undefined) throw new Error('it was refused');
    expect(await reserve(first)).toBe(true);
    await read();
    expect(request(b, 41)).toBeUndefined();
    expect(request(b, 40)).toBeDefined();
    await end(first);
    await read();
    expect(request(b, 60)).toBeDefined();
  });

  it('count what they have not read back themselves', async () => {
    const a = await join();
    await setBudget(a, 100);
    const first = request(a, 60);
    expect(first).toBeDefined();
    expect(request(a, 41)).toBeUndefined();
    first?.reservation.settle(false);
    expect(request(a, 41)).toBeDefined();
  });
});

it('an attempt after one that has cost something reserves the whole again, if there is room', async () => {
  const [a, b] = [await join(), await join()];
  await setBudget(a, 100);
  const first = request(a, 60);
  if (first === undefined) throw new Error('it was refused');
  expect(await reserve(first)).toBe(true);
  first.reservation.charge({ totalCost: '30', isFailed: true });
  await append(a, first.stream, usageRecorded.create({ ...spentOn, ...unknownUsage, ...cost(30) }, context));
  expect(await reserve(first)).toBe(true);
  first.reservation.charge({ totalCost: '5', isFailed: true });
  await append(a, first.stream, usageRecorded.create({ ...spentOn, ...unknownUsage, ...cost(5) }, context));
  await read();
  // 35 are spent and 55 reserved.
  const other = request(b, 10);
  if (other === undefined) throw new Error('it was refused');
  expect(await reserve(other)).toBe(true);
  expect(await reserve(first)).toBe(false);
});

it('a reservation that is corrected under way leaves room on every gateway, also for requests that wait', async () => {
  const [a, b] = [await join(), await join()];
  await setBudget(a, 100);
  const first = request(a, 60);
  if (first === undefined) throw new Error('it was refused');
  expect(await reserve(first)).toBe(true);
  await read();
  const forecast = { least: 0, likely: 5, most: 5, bound: 70, learned: true };
  const { signal } = new AbortController();
  const waiting = b.budgets.gate.admitWhenRoom(requestFor({ exchangeId: 'waits' }), () => forecast, signal);
  expect(waiting).toBeInstanceOf(Promise);
  expect(first.reservation.correct(31)).toBeUndefined();
  const corrected = first.reservation.correct(30);
  expect(corrected).toEqual({ amount: '30', bounded: true });
  if (corrected !== undefined) await append(a, first.stream, costReserved.create(corrected, context));
  await read();
  expect(await waiting).toMatchObject({ reservation: {} });
  // One that does not fit any more leaves the one before in place.
  const higher = first.reservation.correct(101);
  if (higher !== undefined) await append(a, first.stream, costReserved.create(higher, context));
  await read();
  expect(request(a, 71)).toBeUndefined();
  expect(request(a, 70)).toBeDefined();
});

it('a gateway that joins later counts what the others have reserved', async () => {
  const a = await join();
  await setBudget(a, 100);
  const first = request(a, 60);
  if (first === undefined) throw new Error('it was refused');
  expect(await reserve(first)).toBe(true);
  const b = await join();
  expect(request(b, 41)).toBeUndefined();
  expect(request(b, 40)).toBeDefined();
});
