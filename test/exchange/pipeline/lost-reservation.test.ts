/** A request whose reservation fits when it is admitted, and no longer at its place in the log of several gateways. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../../infra/simulated-provider/server.ts';
import { budgetSet } from '../../../src/events/catalogue/budget.ts';
import { costReserved } from '../../../src/events/catalogue/exchange.ts';
import { type EventContext, type RecordedEvent, streamName } from '../../../src/events/event.ts';
import type { EventLog } from '../../../src/events/log.ts';
import { MemoryLog } from '../../../src/events/memory/memory-log.ts';
import { createProjectionRunner, type ProjectionRunner } from '../../../src/projections/runner.ts';
import { openViewStore, type ViewStore } from '../../../src/projections/view-store.ts';
import { createProvider } from '../../../src/providers/create-provider.ts';
import type { Provider } from '../../../src/providers/provider.ts';
import { withoutProxy } from '../../../src/providers/proxies.ts';
import { createLimits, type Limits } from '../../../src/wiring/limits.ts';
import { chatRequest, startExchange } from '../start-exchange.ts';

const context: EventContext = { actor: 'master' };
const simulated = createSimulatedProvider({ words: 4 });
let provider: Provider;
let log: MemoryLog;
let views: ViewStore;
let projections: ProjectionRunner;
let limits: Limits;

beforeAll(async () => {
  provider = createProvider({
    proxyOf: withoutProxy,
    ...{ name: 'sim', type: 'simulated', baseUrl: await simulated.listen(), apiKeys: [], models: [] },
    ...{ modelsMode: 'fallback' as const, options: {}, source: 'environment' as const },
  });
});
afterAll(async () => {
  await provider.close();
  await simulated.close();
});

beforeEach(async () => {
  log = new MemoryLog();
  views = openViewStore(':memory:');
  projections = createProjectionRunner(log);
  limits = createLimits({
    config: { budgets: { enabled: true, declared: [] }, rateLimits: { enabled: false, declared: [] } },
    log,
    isShared: true,
    gateway: () => 'a',
    views,
    projections,
    pricing: { costOf: () => ({ inputCost: '60', outputCost: '0', totalCost: '60' }) },
    deferred: { open: () => new Map(), caughtUp: Promise.resolve() },
    onError(error) {
      throw error;
    },
  });
  const rule = { scope: 'user_path' as const, subject: '/', periodSeconds: 86_400, source: 'manual' as const };
  await append('budget-root', budgetSet.create({ ...rule, amount: '100' }, context));
  await limits.begin();
});
afterEach(async () => {
  await projections.close();
  views.close();
  await log.close();
});

function append(stream: `${string}-${string}`, event: Parameters<MemoryLog['append']>[0][number]['events'][number]) {
  const [category = '', id = ''] = stream.split('-');
  return log.append([{ stream: streamName(category, id), events: [event], expectedRevision: 'any' }]);
}

/** The log, in which this reservation of another gateway precedes the next append. */
function preceded(amount: number): Pick<EventLog, 'append' | 'readStream' | 'capabilities'> {
  let isFirst = true;
  return {
    capabilities: log.capabilities,
    readStream: (stream, options) => log.readStream(stream, options),
    async append(writes) {
      if (isFirst)
        await append('exchange-other', costReserved.create({ amount: String(amount), bounded: true }, context));
      isFirst = false;
      return await log.append(writes);
    },
  };
}

async function ownEvents(): Promise<RecordedEvent[]> {
  const found: RecordedEvent[] = [];
  for await (const event of log.readAll({ filter: { streams: ['exchange-'] } })) {
    if (event.stream !== 'exchange-other') found.push(event);
  }
  return found;
}

const calls = () => simulated.requests.filter(({ method }) => method === 'POST').length;

it('calls no provider, and ends as refused; its record is whole', async () => {
  const before = calls();
  const request = chatRequest({});
  const { client, done } = startExchange({ log: preceded(41), provider, request, admission: limits.admission });
  await done;
  expect(client.refusal).toMatchObject({ status: 429, code: 'budget_exceeded' });
  expect(calls()).toBe(before);
  const events = await ownEvents();
  const types = ['request.received', 'model.resolved', 'cost.reserved', 'attempt.started', 'request.refused'];
  expect(events.map(({ type }) => type)).toEqual(types);
  expect(Buffer.from(events[0]?.body ?? []).equals(request.body)).toBe(true);
  expect(limits.refused.get('budget_exceeded')).toBe(1);
});

it('is served when the other reservation leaves room', async () => {
  const before = calls();
  const { client, done } = startExchange({
    ...{ log: preceded(40), provider, request: chatRequest({}), admission: limits.admission },
  });
  await done;
  expect(client.refusal).toBeUndefined();
  expect(calls()).toBe(before + 1);
});
