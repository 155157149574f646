import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import type { ExchangeDialect } from '../../src/commands/exchange/dialect.ts';
import { formEnd, partHead } from '../../src/commands/exchange/dialects/forward/form.ts';
import { createForwardDialect, formDialect } from '../../src/commands/exchange/dialects/forward/forward-dialect.ts';
import type { ModelRequest } from '../../src/commands/model-request/model-request.ts';
import { LogUnavailable } from '../../src/events/log.ts';
import { createProvider } from '../../src/providers/create-provider.ts';
import type { Provider } from '../../src/providers/provider.ts';
import { withoutProxy } from '../../src/providers/proxies.ts';
import { HeldLog } from './held-log.ts';
import { chatRequest, startExchange } from './start-exchange.ts';

const simulated = createSimulatedProvider({ words: 4 });
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

const start = (
  log: HeldLog,
  request: ModelRequest,
  recordBeforeCall?: 'written' | 'durable',
  dialect?: ExchangeDialect,
) => startExchange({ log, provider, request, recordBeforeCall, dialect });

const callsSeen = () => simulated.requests.filter(({ method }) => method === 'POST').length;

describe('an exchange', () => {
  it.each(['written', 'durable'] as const)('calls the provider only when its request is %s', async (stage) => {
    const log = new HeldLog();
    const before = callsSeen();
    const { done } = start(log, chatRequest({}), stage);
    const first = await log.next();
    expect(first.types).toEqual(['request.received', 'model.resolved', 'attempt.started']);
    expect(first.until).toBe(stage);
    // Time enough for a call that should not be made.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    expect(callsSeen()).toBe(before);
    first.release();
    (await log.next()).release();
    await done;
    expect(callsSeen()).toBe(before + 1);
  });

  it('answers in JSON only when the disk has everything', async () => {
    const log = new HeldLog();
    const { client, done, open } = start(log, chatRequest({}));
    (await log.next()).release();
    const last = await log.next();
    expect(last).toMatchObject({
      types: ['chunk.received', 'exchange.completed', 'usage.recorded'],
      until: 'durable',
    });
    expect(client.received).toBe('');
    expect(open.size).toBe(1);
    last.release();
    await done;
    expect(client.received).toContain('"object":"chat.completion"');
    expect(open.size).toBe(0);
  });

  it('passes a piece of a stream on when the operating system has it, and the last one when the disk has all', async () => {
    const log = new HeldLog();
    const { client, done } = start(log, chatRequest({ stream: true }));
    (await log.next()).release();
    let released = 0;
    for (;;) {
      const { types, until, release } = await log.next();
      // Time enough for every released append to reach the client, and for more if more were let through.
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
      expect(client.received.split('\n\n').length - 1).toBeLessThanOrEqual(released);
      expect(client.received).not.toContain('[DONE]');
      if (types.includes('exchange.completed')) {
        expect(until).toBe('durable');
        release();
        break;
      }
      expect(until).toBe('written');
      released += types.filter((type) => type === 'chunk.received').length;
      release();
    }
    await done;
    expect(client.received).toMatch(/"finish_reason":"stop"[\s\S]*data: \[DONE\]\n\n$/);
  });

  it('is answered 503 log_unavailable, and the provider not called, when it cannot be recorded', async () => {
    const log = new HeldLog();
    log.append = () => Promise.reject(new LogUnavailable('no space left on device', 'none'));
    const before = callsSeen();
    const { client, done } = start(log, chatRequest({}));
    await done;
    expect(client.refusal).toMatchObject({ status: 503, code: 'log_unavailable', retryAfterSeconds: 1 });
    expect(callsSeen()).toBe(before);
  });

  it('reports that the provider was called when its answer cannot be recorded', async () => {
    const log = new HeldLog();
    const { client, done } = start(log, chatRequest({}));
    (await log.next()).release();
    log.append = () => Promise.reject(new LogUnavailable('no space left on device', 'none'));
    await done;
    expect(client.refusal).toMatchObject({ status: 503, code: 'log_unavailable', retryHelps: false });
    expect(client.refusal?.message).toContain('The provider was called');
    expect(client.refusal?.retryAfterSeconds).toBe(1);
    expect(client.received).toBe('');
  });

  const keeps = { audio: false, image: false };

  it('sends its last bytes only when everything is on disk', async () => {
    const log = new HeldLog();
    const speech = {
      endpoint: '/v1/audio/speech',
      family: 'speech',
      title: 'Speech',
      body: 'json',
      answers: 'audio',
    } as const;
    const dialect = createForwardDialect(speech, { keeps });
    const { client, done } = start(log, chatRequest({ input: 'Hello there', voice: 'alloy' }), 'written', dialect);
    const first = await log.next();
    expect(first.types).toEqual(['request.received', 'model.resolved', 'attempt.started']);
    first.release();
    const said: string[] = [];
    for (let next = await log.next(); ; next = await log.next()) {
      said.push(...next.types);
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
      expect(client.isOver).toBe(false);
      if (next.types.includes('exchange.completed')) expect(next.until).toBe('durable');
      next.release();
      if (next.types.includes('exchange.completed')) break;
    }
    await done;
    expect(client.isOver).toBe(true);
    expect(client.received).not.toBe('');
    expect(said.slice(-3)).toEqual(['answer.received', 'exchange.completed', 'usage.recorded']);
  });

  it('sends a form on only when its request is recorded, and its end when all of its parts are', async () => {
    const log = new HeldLog();
    const boundary = 'b';
    async function* pieces(): AsyncGenerator<Buffer> {
      yield partHead(boundary, { name: 'model' });
      yield Buffer.from('simulated-small\r\n');
      yield partHead(boundary, { name: 'file', filename: 'a.wav', contentType: 'audio/wav' });
      yield Buffer.from('sound\r\n');
      yield formEnd(boundary);
    }
    const path = '/v1/audio/transcriptions';
    const hearing = {
      endpoint: path,
      family: 'transcriptions',
      title: 'Hearing',
      body: 'form',
      files: 'audio',
    } as const;
    const dialect = formDialect(hearing, { keeps, limitBytes: 1e6 });
    const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` };
    const request = { ...chatRequest({}), path, headers, body: Buffer.alloc(0), bodyPieces: pieces() };
    const before = callsSeen();
    const { client, done } = start(log, request, 'written', dialect);
    const first = await log.next();
    expect(first.types).toEqual(['request.received', 'model.resolved', 'attempt.started']);
    first.release();
    const events: string[] = [];
    while (callsSeen() === before) {
      const next = await log.next();
      events.push(...next.types);
      if (next.types.includes('chunk.received')) expect.unreachable('the provider answered unasked');
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
      expect(callsSeen()).toBe(before);
      next.release();
      if (events.filter((type) => type === 'request.part_received').length === 2) break;
    }
    const last = await log.next();
    expect(last).toMatchObject({ until: 'durable', types: ['chunk.received', 'exchange.completed', 'usage.recorded'] });
    expect(client.received).toBe('');
    last.release();
    await done;
    expect(client.received).toContain('"text"');
  });
});
