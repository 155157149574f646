import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { CircuitBreaker } from '../../src/commands/exchange/attempts/circuit-breaker.ts';
import { DetachedClients } from '../../src/commands/exchange/delivery/detached-client.ts';
import type { ExchangeDialect } from '../../src/commands/exchange/dialect.ts';
import { createChatDialect } from '../../src/commands/exchange/dialects/chat/chat-dialect.ts';
import { formDialect } from '../../src/commands/exchange/dialects/forward/form-dialect.ts';
import { createForwardDialect } from '../../src/commands/exchange/dialects/forward/forward-dialect.ts';
import type { ExchangeDependencies } from '../../src/commands/exchange/pipeline/dependencies.ts';
import { runExchange } from '../../src/commands/exchange/pipeline/run-exchange.ts';
import { policyWithout } from '../../src/commands/exchange/policy.ts';
import { formEnd, partHead } from '../../src/commands/exchange/uploads/form-encoding.ts';
import { withoutLimits } from '../../src/commands/model-request/admission.ts';
import type { Client } from '../../src/commands/model-request/client.ts';
import type { ModelRequest } from '../../src/commands/model-request/model-request.ts';
import { oneTarget } from '../../src/commands/model-request/routing-types.ts';
import type { Refusal } from '../../src/commands/refusal.ts';
import { everything } from '../../src/commands/visibility.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import { LogUnavailable } from '../../src/events/log.ts';
import { createProvider } from '../../src/providers/create-provider.ts';
import type { Provider } from '../../src/providers/provider.ts';
import { unpriced } from '../support/nothing-configured.ts';
import { HeldLog } from './held-log.ts';

const simulated = createSimulatedProvider({ words: 4 });
let provider: Provider;

beforeAll(async () => {
  provider = createProvider({
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

/** A client that keeps the bytes it gets. */
class RecordingClient implements Client {
  readonly ended = new AbortController().signal;
  begun = false;
  received = '';
  refusal: Refusal | undefined;
  isOver = false;
  answer(_status: number, _headers: Record<string, string>, body: Uint8Array): void {
    this.begun = true;
    this.write(body);
    this.isOver = true;
  }
  refuse(refusal: Refusal): void {
    this.refusal = refusal;
    this.isOver = true;
  }
  begin(): void {
    this.begun = true;
  }
  write(bytes: Uint8Array): undefined {
    this.received += Buffer.from(bytes).toString();
  }
  end(): void {
    this.isOver = true;
  }
}

function ask(body: object): ModelRequest {
  return {
    caller: { actor: 'master', authMethod: 'master_key', sight: everything },
    requestId: 'test',
    method: 'POST',
    path: '/v1/chat/completions',
    headers: {},
    body: Buffer.from(
      JSON.stringify({ model: 'simulated-small', messages: [{ role: 'user', content: 'hi' }], ...body }),
    ),
  };
}

function start(
  log: HeldLog,
  request: ModelRequest,
  recordBeforeCall: 'written' | 'durable' = 'written',
  dialect: ExchangeDialect = createChatDialect({ enforceUsage: true }),
) {
  const client = new RecordingClient();
  const open = new Set<string>();
  const breaker = new CircuitBreaker(
    { enabled: false, failureThreshold: 1, successThreshold: 1, openMs: 1, isFailure: () => false },
    () => 0,
    () => {},
  );
  const retry = { maxRetries: 0, initialBackoffMs: 0, maxBackoffMs: 0, factor: 1, jitter: 0, onStatuses: [] };
  const target = { provider, model: 'simulated-small' };
  const deps: ExchangeDependencies = {
    log: log as unknown as ExchangeDependencies['log'],
    router: { route: () => oneTarget(target) },
    admission: withoutLimits,
    pricing: unpriced,
    requestPlugins: [],
    archive: { find: async () => undefined, mayBeOnlyAtProvider: async () => false },
    dialects: new Map(),
    guardedEndpoints: new Map(),
    detached: new DetachedClients(),
    responseNotStored: () => {},
    resilienceOf: () => ({ retry, breaker }),
    recordBeforeCall,
    policyOf: () => policyWithout({ capture: 'full' }),
    policyAgain: () => Promise.resolve(undefined),
    maxAnswerBytes: 1e6,
    newId: mintEventId,
    random: Math.random,
    wait: async () => {},
    ended: () => {},
    open: { begun: (stream) => open.add(stream), over: (stream) => open.delete(stream), leftOpen: () => {} },
    refused: { recordsAlone: () => true },
    failed: (error) => {
      throw error;
    },
  };
  const done = runExchange(dialect, request, client, deps);
  return { client, done, open };
}

const callsSeen = () => simulated.requests.filter(({ method }) => method === 'POST').length;

describe('an exchange', () => {
  it.each(['written', 'durable'] as const)('calls the provider only when its request is %s', async (stage) => {
    const log = new HeldLog();
    const before = callsSeen();
    const { done } = start(log, ask({}), stage);
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
    const { client, done, open } = start(log, ask({}));
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
    const { client, done } = start(log, ask({ stream: true }));
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
    const { client, done } = start(log, ask({}));
    await done;
    expect(client.refusal).toMatchObject({ status: 503, code: 'log_unavailable', retryAfterSeconds: 1 });
    expect(callsSeen()).toBe(before);
  });

  it('reports that the provider was called when its answer cannot be recorded', async () => {
    const log = new HeldLog();
    const { client, done } = start(log, ask({}));
    (await log.next()).release();
    log.append = () => Promise.reject(new LogUnavailable('no space left on device', 'none'));
    await done;
    expect(client.refusal).toMatchObject({ status: 503, code: 'log_unavailable', retryHelps: false });
    expect(client.refusal?.message).toContain('The provider was called');
    expect(client.refusal?.retryAfterSeconds).toBeUndefined();
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
    const { client, done } = start(log, ask({ input: 'Hello there', voice: 'alloy' }), 'written', dialect);
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
    const dialect = formDialect(hearing, { keeps, limitBytes: 1e6, checkFields: () => undefined });
    const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` };
    const request = { ...ask({}), path, headers, body: Buffer.alloc(0), bodyPieces: pieces() };
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
