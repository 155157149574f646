/** Several gateways on one log. The engine is the stand-in for EventStoreDB, or the server that `EVENTSTORE_URL` names. */
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createSimulatedProvider, type SimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { attemptStarted, costReserved, exchangeEnds, requestReceived } from '../../src/events/catalogue/exchange.ts';
import { reservedFor, sharedSpendView } from '../../src/projections/budget-reservations.ts';
import type { Answered } from '../support/answered.ts';
import { someOf } from '../support/seed.ts';
import { type RunningEventStore, startEventStore } from '../support/start-eventstore.ts';
import { ask, killAll, type ServedGateway, serve, stopGateway, temporaryFolder } from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';

const folder = temporaryFolder();
const chat = '/v1/chat/completions';
/** Where a gateway takes over from another one. Elsewhere a busy machine must not end a lease. */
const leaseMs = 1500;
const short = { LOG_LEASE: `${leaseMs}ms` };
let store: RunningEventStore;
let provider: SimulatedProvider;
let env: Record<string, string>;
let logs = 0;

beforeAll(async () => {
  store = await startEventStore();
  provider = createSimulatedProvider({ models: ['m'], responses: 'absent' });
  env = {
    LLAMACPP_BASE_URL: await provider.listen(),
    ANALYTICS_ENABLED: 'false',
    DRAIN_TIMEOUT: '0s',
    RETRY_MAX_RETRIES: '0',
  };
});
beforeEach(() => {
  logs += 1;
  provider.control.clear();
});
afterAll(async () => {
  killAll();
  await provider?.close();
  await store?.stop();
  folder.remove();
});

function start(name: string, more: Record<string, string> = {}): Promise<ServedGateway> {
  const LOG_URL = store.url(`several-${process.pid}-${logs}`);
  return serve({ dataDir: join(folder.path, `${logs}-${name}`), env: { ...env, LOG_URL, ...more } });
}

const question = (content: string) => ({ model: 'llamacpp/m', messages: [{ role: 'user', content }] });

async function newKey(gateway: ServedGateway, name: string): Promise<Answered> {
  const answer = await ask(gateway.url, '/admin/auth-keys', { json: { name } });
  expect(answer.status).toBe(201);
  return (await answer.json()) as Answered;
}

const calls = () => provider.requests.filter(({ path }) => path === chat).length;

/** For each exchange in the log, as the stopped gateway has read it, the types of its ends. */
async function endsIn(name: string): Promise<string[][]> {
  const exchanges = new Map<string, string[]>();
  for (const { stream, type } of await eventsIn(join(folder.path, `${logs}-${name}`))) {
    if (type === requestReceived.type) exchanges.set(stream, []);
    if (exchangeEnds.has(type)) exchanges.get(stream)?.push(type);
  }
  return [...exchanges.values()];
}

async function responseOf({ url }: ServedGateway, id: string): Promise<Answered> {
  return (await (await ask(url, `/v1/responses/${id}`)).json()) as Answered;
}

describe('two gateways on one log', () => {
  it('apply a change of a key before the other one confirms it, and have the same objects of clients', async () => {
    const [a, b] = [await start('a'), await start('b')];
    for (let n = 0; n < 10; n++) {
      const [one, other] = n % 2 === 0 ? [a, b] : [b, a];
      const { id, value } = await newKey(one, `key ${n}`);
      expect((await ask(other.url, chat, { json: question('hello'), key: value })).status).toBe(200);
      const deactivated = await ask(one.url, `/admin/auth-keys/${id}/deactivate`, { method: 'POST' });
      expect(deactivated.ok).toBe(true);
      expect((await ask(other.url, chat, { json: question('hello'), key: value })).status).toBe(401);
    }
    await haveTheSameObjects(a, b);
    await stopGateway(a);
    await stopGateway(b);
  }, 60_000);

  it('do not start with different secrets', async () => {
    const a = await start('a');
    await expect(start('b', { CREDENTIALS_KEY: 'another key of at least thirty-two characters' })).rejects.toThrow(
      /could not start: CREDENTIALS_KEY is not the one of gateway \S+, which uses the same log/,
    );
    await expect(start('b', { GATEWAY_MASTER_KEY: '' })).rejects.toThrow(
      /could not start: the master key is not the one/,
    );
    await expect(start('b', { CREDENTIALS_KEY: '' })).rejects.toThrow(/could not start: CREDENTIALS_KEY: all gateways/);
    await stopGateway(a);
  }, 60_000);

  it('leave each other’s exchanges alone, also when one starts, stops and starts again', async () => {
    const a = await start('a', short);
    provider.control.next({ holdAfterChunks: 1 }, { path: chat });
    const running = await ask(a.url, chat, { json: { ...question('slow'), stream: true } });
    let b = await start('b', short);
    await stopGateway(b);
    b = await start('b', short);
    provider.control.release();
    expect(running.status).toBe(200);
    expect(await running.text()).toMatch(/"finish_reason":"stop".*data: \[DONE\]/s);
    await stopGateway(b);
    await stopGateway(a);
  }, 60_000);

  it('one resumes a background response of the other, which was killed, and ends its other exchanges', async () => {
    const [a, b] = [await start('a', short), await start('b', short)];
    const before = calls();
    provider.control.next({ hang: true }, { path: chat });
    const queued = await ask(b.url, '/v1/responses', { json: { model: 'llamacpp/m', background: true, input: 'x' } });
    const { id }: Answered = await queued.json();
    await expect.poll(calls).toBe(before + 1);
    provider.control.next({ hang: true }, { path: chat });
    const headers = { 'idempotency-key': 'once' };
    const cut = ask(b.url, chat, { json: question('cut'), headers }).catch(() => undefined);
    await expect.poll(calls).toBe(before + 2);
    // They wait for what the other one does.
    const sameKey = ask(a.url, chat, { json: question('cut'), headers });
    const follower = ask(a.url, `/v1/responses/${id}?stream=true`).then((answer) => answer.text());
    b.process.kill('SIGKILL');
    await cut;
    const from = performance.now();
    await expect
      .poll(async () => (await responseOf(a, id)).status, { timeout: 20_000, interval: 50 })
      .toBe('completed');
    expect((await sameKey).status).toBe(200);
    expect(await follower).toMatch(/response\.(completed|failed)/);
    expect(performance.now() - from).toBeLessThan(leaseMs * 4);
    expect(calls()).toBe(before + 4);
    await stopGateway(a);
    const ends = (await endsIn('a')).toSorted();
    expect(ends).toEqual([['exchange.completed'], ['exchange.completed'], ['exchange.failed']]);
  }, 60_000);

  it('leave alone what the heir of a stopped gateway has resumed already', async () => {
    let a = await start('a', short);
    const before = calls();
    provider.control.next({ hang: true }, { path: chat });
    const json = { model: 'llamacpp/m', background: true, input: 'x' };
    const { id }: Answered = await (await ask(a.url, '/v1/responses', { json })).json();
    await expect.poll(calls).toBe(before + 1);
    a.process.kill('SIGKILL');
    await a.process.exited;
    provider.control.next({ firstByteDelayMs: 8000 }, { path: chat });
    a = await start('a', short);
    await expect.poll(calls, { timeout: 10_000 }).toBe(before + 2);
    const b = await start('b', short);
    await stopGateway(b);
    await expect.poll(async () => (await responseOf(a, id)).status, { timeout: 20_000 }).toBe('completed');
    expect(calls()).toBe(before + 2);
    await stopGateway(a);
    expect(await endsIn('a')).toEqual([['exchange.completed']]);
  }, 60_000);

  /** Responses and conversations, at any time. */
  async function haveTheSameObjects(a: ServedGateway, b: ServedGateway): Promise<void> {
    const model = 'llamacpp/m';
    let previous: string | undefined;
    const conversation: Answered = await (await ask(a.url, '/v1/conversations', { json: {} })).json();
    for (let n = 0; n < 10; n++) {
      const [one, other] = n % 2 === 0 ? [a, b] : [b, a];
      const json = { model, input: `turn ${n}`, previous_response_id: previous };
      const created: Answered = await (await ask(one.url, '/v1/responses', { json })).json();
      expect(created.status, JSON.stringify(created)).toBe('completed');
      expect(await responseOf(other, created.id)).toEqual(created);
      previous = created.id;
      const turn = await ask(one.url, '/v1/responses', { json: { model, input: 'x', conversation: conversation.id } });
      expect(turn.status).toBe(200);
      const items: Answered = await (await ask(other.url, `/v1/conversations/${conversation.id}/items`)).json();
      expect(items.data).toHaveLength(2 * (n + 1));
    }
  }

  it('cancel, delete and follow a background response of each other', async () => {
    const [a, b] = [await start('a'), await start('b')];
    const generate = async () => {
      const before = calls();
      provider.control.next({ firstByteDelayMs: 30_000 }, { path: chat });
      const json = { model: 'llamacpp/m', background: true, input: 'x' };
      const queued: Answered = await (await ask(b.url, '/v1/responses', { json })).json();
      await expect.poll(calls).toBe(before + 1);
      return queued.id;
    };
    const cancelled = await generate();
    const following = ask(a.url, `/v1/responses/${cancelled}?stream=true`).then((answer) => answer.text());
    const answer = await ask(a.url, `/v1/responses/${cancelled}/cancel`, { method: 'POST' });
    expect(await answer.json()).toMatchObject({ status: 'cancelled' });
    expect((await responseOf(b, cancelled)).status).toBe('cancelled');
    expect(await following).toContain('cancelled');

    const deleted = await generate();
    expect((await ask(a.url, `/v1/responses/${deleted}`, { method: 'DELETE' })).status).toBe(200);
    expect((await ask(b.url, `/v1/responses/${deleted}`)).status).toBe(404);
    await stopGateway(b);
    await stopGateway(a);
    // The last one is the request for the deleted response.
    expect(await endsIn('a')).toEqual([['exchange.failed'], ['exchange.failed'], ['request.refused']]);
  }, 60_000);

  it('one that was stopped by the system longer than its lease starts anew, and changes nothing before', async () => {
    const [a, b] = [await start('a', short), await start('b', short)];
    const { id, value } = await newKey(a, 'leaked');
    expect((await ask(b.url, chat, { json: question('before'), key: value })).status).toBe(200);
    b.process.kill('SIGSTOP');
    const deactivated = await ask(a.url, `/admin/auth-keys/${id}/deactivate`, { method: 'POST' });
    expect(deactivated.ok).toBe(true);
    b.process.kill('SIGCONT');
    const ready = await fetch(new URL('/health/ready', b.url)).catch(() => undefined);
    expect(ready?.status).not.toBe(200);
    for (let n = 0; n < 20; n++) {
      const answer = await ask(b.url, chat, { json: question('after'), key: value }).catch(() => undefined);
      expect(answer?.status).not.toBe(200);
      await answer?.text();
    }
    await expect
      .poll(async () => (await ask(b.url, chat, { json: question('again') }).catch(() => undefined))?.status, {
        timeout: 20_000,
      })
      .toBe(200);
    expect((await ask(b.url, chat, { json: question('after'), key: value })).status).toBe(401);
    await stopGateway(b);
    await stopGateway(a);
  }, 60_000);
});

describe('200 requests at the same time, under a budget for ten', () => {
  const dollars = 10;

  async function serveBudget(gateways: readonly ServedGateway[], dataDir: string): Promise<void> {
    const [a] = gateways;
    if (a === undefined) throw new Error('there are three gateways');
    const put = (path: string, json: unknown) => ask(a.url, path, { json, method: 'PUT' });
    const pricing = { per_request: 1 };
    expect((await put('/admin/model-pricing-overrides', { selector: 'llamacpp/m', pricing })).ok).toBe(true);
    expect((await put('/admin/budgets/%2F/daily', { amount: dollars })).ok).toBe(true);
    const before = calls();
    const answers = await Promise.all(
      Array.from({ length: 200 }, async (_, n) => {
        const { url } = gateways[n % gateways.length] ?? a;
        const answer = await ask(url, chat, { json: question(`request ${n}`) });
        await answer.text();
        return answer.status;
      }),
    );
    const counts: Record<number, number> = {};
    for (const status of answers) counts[status] = (counts[status] ?? 0) + 1;
    expect(counts).toEqual({ 200: dollars, 429: 200 - dollars });
    expect(calls()).toBe(before + dollars);
    for (const { url } of gateways) {
      const spent = async () => ((await (await ask(url, '/v1/usage')).json()) as Answered).budgets?.[0]?.spent;
      await expect.poll(spent).toBe(dollars);
    }
    for (const gateway of gateways) await stopGateway(gateway);
    await neverExceeded(dataDir);
  }

  /** At no position of the log, more is reserved and spent than the budget has. */
  async function neverExceeded(dataDir: string): Promise<void> {
    const events = await eventsIn(dataDir);
    let state = sharedSpendView.initial();
    for (const event of events) {
      state = sharedSpendView.apply(state, event);
      for (const { spent } of state.spend.counters.values()) {
        expect(spent + reservedFor(state, 'user_path', '/')).toBeLessThanOrEqual(dollars * 1e9);
      }
    }
    expect(state.reserved.size).toBe(0);
    // Requests that were refused before anything was recorded have no reservation.
    const reserved = events.filter(({ type }) => type === costReserved.type).length;
    expect(reserved).toBe(events.filter(({ type }) => type === attemptStarted.type).length);
    expect(reserved).toBeGreaterThanOrEqual(dollars);
  }

  const services: Readonly<Record<string, () => Promise<void>>> = {
    async 'three gateways'() {
      const gateways = [await start('a'), await start('b'), await start('c')];
      await serveBudget(gateways, join(folder.path, `${logs}-a`));
    },
    async 'three workers'() {
      const dataDir = join(folder.path, `${logs}-workers`);
      await serveBudget([await serve({ dataDir, env: { ...env, GATEWAY_WORKERS: '3' } })], dataDir);
    },
  };

  it.each(someOf(Object.entries(services)))(
    'are served by %s as far as it goes, and never beyond',
    (_services, test) => test(),
    60_000,
  );
});
