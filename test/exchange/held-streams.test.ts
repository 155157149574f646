/** Streams whose pieces wait for their appends when an append fails, or when the gateway ends the answer. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { recoverExchanges } from '../../src/commands/exchange/background/recover-exchanges.ts';
import { createChatDialect } from '../../src/commands/exchange/dialects/chat/chat-dialect.ts';
import { type RecordedEvent, type StreamName, streamName } from '../../src/events/event.ts';
import { WrongExpectedRevision } from '../../src/events/log.ts';
import { createProvider } from '../../src/providers/create-provider.ts';
import type { Provider } from '../../src/providers/provider.ts';
import { withoutProxy } from '../../src/providers/proxies.ts';
import { noKeys, unpriced } from '../support/nothing-configured.ts';
import { HeldLog } from './held-log.ts';
import { chatRequest, startExchange } from './start-exchange.ts';

const simulated = createSimulatedProvider({ words: 4, paceMs: 1 });
let provider: Provider;

beforeAll(async () => {
  provider = createProvider({
    proxyOf: withoutProxy,
    name: 'sim',
    type: 'simulated',
    baseUrl: await simulated.listen(),
    apiKeys: [],
    models: [],
    modelsMode: 'fallback',
    options: {},
    source: 'environment',
  });
});

afterAll(async () => {
  await provider.close();
  await simulated.close();
});

type Held = Awaited<ReturnType<HeldLog['next']>>;
const chunksIn = ({ types }: Held) => types.filter((type) => type === 'chunk.received').length;

/** An exchange whose whole answer has arrived; the appends of its pieces are held. */
async function heldAnswer() {
  const log = new HeldLog();
  const request = chatRequest({ stream: true, stream_options: { include_usage: true } });
  const { client, done, leftOpen, open } = startExchange({ log, provider, request });
  const [stream = ''] = open;
  (await log.next()).release();
  const appends = [await log.next()];
  const isWhole = () => {
    const { outcome, framesSent } = simulated.requests.at(-1) ?? {};
    return outcome === 'answered' && appends.reduce((sum, append) => sum + chunksIn(append), 0) === framesSent;
  };
  while (!isWhole()) {
    appends.push(...log.held.splice(0));
    await new Promise(setImmediate);
  }
  return { log, client, done, leftOpen, appends, stream: stream as StreamName };
}

/** Releases the end of the exchange, as soon as it is appended. */
async function releaseEnd(log: HeldLog): Promise<void> {
  const end = await log.next();
  expect(end.until).toBe('durable');
  end.release();
}

async function eventsOf(log: HeldLog, stream: StreamName): Promise<RecordedEvent[]> {
  return Array.fromAsync(log.inner.readStream(stream));
}

const sentBytes = (events: readonly RecordedEvent[]) =>
  Buffer.concat(events.filter(({ type }) => type === 'chunk.received').map(({ body }) => Buffer.from(body ?? [])));

/** Closes the exchange as the gateway does when the log can be written again. @returns its end */
async function closed({ log, stream, leftOpen }: Awaited<ReturnType<typeof heldAnswer>>) {
  const dialects = new Map([['chat', createChatDialect({ enforceUsage: true })]]);
  const archive = { find: async () => undefined, mayBeOnlyAtProvider: async () => false };
  const deps = { log: log.inner, archive, dialects, pricing: unpriced, keys: noKeys, guardedEndpoints: new Map() };
  await recoverExchanges(
    [streamName('exchange', stream.slice('exchange-'.length))],
    deps,
    'log_unavailable',
    ...leftOpen,
  );
  return (await eventsOf(log, stream)).find(({ type }) => type.startsWith('exchange.'));
}

describe('a stream of which an append fails, and those after it do not', () => {
  it('is refused when nothing was sent, and fails also with the whole answer on record', async () => {
    const held = await heldAnswer();
    const { client, done, leftOpen, appends } = held;
    for (const [index, append] of appends.entries()) {
      if (index === 0) append.fail();
      else append.release();
    }
    await done;
    expect(client.received).toBe('');
    expect(client.refusal).toMatchObject({ status: 503, code: 'log_unavailable' });
    expect(leftOpen).toEqual([{ wasRefused: true }]);
    const end = await closed(held);
    expect(end).toMatchObject({ type: 'exchange.failed', data: { status: 503, code: 'log_unavailable' } });
  });

  it('is cut after the pieces before, and is complete when the whole answer is on record', async () => {
    const held = await heldAnswer();
    const { log, client, done, leftOpen, appends, stream } = held;
    expect(appends.length).toBeGreaterThan(3);
    for (const [index, append] of appends.entries()) {
      if (index === 2) append.fail();
      else append.release();
    }
    await done;
    const sent = sentBytes(await eventsOf(log, stream)).toString();
    expect(client.received).not.toBe('');
    expect(sent.startsWith(client.received)).toBe(true);
    expect(client.received.length).toBeLessThan(sent.length);
    expect(client.refusal).toMatchObject({ code: 'log_unavailable' });
    expect(leftOpen).toEqual([{ wasRefused: false }]);
    expect(await closed(held)).toMatchObject({ type: 'exchange.completed', data: { status: 200 } });
  });

  it('reports the failure of the log, also when later appends fail because of it', async () => {
    const { log, client, done, appends } = await heldAnswer();
    expect(log.held).toEqual([]);
    for (const [index, append] of appends.entries()) {
      if (index === 0) append.fail();
      else append.fail(new WrongExpectedRevision(streamName('exchange', 'any'), 1n, 0n));
    }
    await done;
    expect(client.refusal).toMatchObject({ status: 503, code: 'log_unavailable' });
  });
});

describe('a stream that the gateway ends while appends of it are held', () => {
  it('is delivered without a gap when the provider had sent all of it', async () => {
    const { log, client, done, appends, stream } = await heldAnswer();
    client.endEarly('gateway_stopping');
    for (const append of appends) append.release();
    await releaseEnd(log);
    await done;
    const events = await eventsOf(log, stream);
    expect(events.map(({ type }) => type)).toContain('exchange.completed');
    expect(client.received).toBe(sentBytes(events).toString());
  });

  it('is delivered up to the last recorded piece, then ends with the error', async () => {
    simulated.control.next({ holdAfterChunks: 3 }, { path: '/v1/chat/completions' });
    const log = new HeldLog();
    const request = chatRequest({ stream: true, stream_options: { include_usage: true } });
    const { client, done, open } = startExchange({ log, provider, request });
    const [stream = ''] = open;
    (await log.next()).release();
    const appends: Held[] = [];
    for (let chunks = 0; chunks < 3; chunks = appends.reduce((sum, append) => sum + chunksIn(append), 0)) {
      appends.push(await log.next());
    }
    client.endEarly('gateway_stopping');
    for (const append of appends) append.release();
    await releaseEnd(log);
    await done;
    simulated.control.release();
    const sent = sentBytes(await eventsOf(log, stream as StreamName)).toString();
    expect(client.received.startsWith(sent)).toBe(true);
    expect(client.received.slice(sent.length)).toMatch(/^data: \{"error":/);
  });

  it('sends nothing more to a client that has left', async () => {
    const { log, client, done, appends } = await heldAnswer();
    client.endEarly('client_gone');
    for (const append of appends) append.release();
    await releaseEnd(log);
    await done;
    expect(client.received).not.toContain('"delta"');
  });
});
