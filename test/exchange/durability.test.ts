import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { createChatDialect } from '../../src/commands/exchange/chat-dialect.ts';
import { CircuitBreaker } from '../../src/commands/exchange/circuit-breaker.ts';
import type { Client, ModelRequest } from '../../src/commands/exchange/client.ts';
import { DetachedClients } from '../../src/commands/exchange/detached-client.ts';
import { type ExchangeDependencies, runExchange } from '../../src/commands/exchange/exchange.ts';
import type { Refusal } from '../../src/commands/refusal.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import { LogUnavailable } from '../../src/events/log.ts';
import { createProvider } from '../../src/providers/create-provider.ts';
import type { Provider } from '../../src/providers/provider.ts';
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

/** A client that remembers what it was given. */
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
    caller: { actor: 'master', authMethod: 'master_key' },
    requestId: 'test',
    method: 'POST',
    path: '/v1/chat/completions',
    headers: {},
    body: Buffer.from(
      JSON.stringify({ model: 'simulated-small', messages: [{ role: 'user', content: 'hi' }], ...body }),
    ),
  };
}

function start(log: HeldLog, request: ModelRequest, recordBeforeCall: 'written' | 'durable' = 'written') {
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
    models: { resolve: () => target, resolveOrRefresh: async () => target, knows: () => true },
    archive: { load: async () => undefined },
    dialects: new Map(),
    detached: new DetachedClients(),
    responseNotStored: () => {},
    resilienceOf: () => ({ retry, breaker }),
    recordBeforeCall,
    capture: 'full',
    maxAnswerBytes: 1e6,
    answerTimeoutMs: 10_000,
    newId: mintEventId,
    random: Math.random,
    wait: async () => {},
    ended: () => {},
    open: { begun: (stream) => open.add(stream), over: (stream) => open.delete(stream), leftOpen: () => {} },
    failed: (error) => {
      throw error;
    },
  };
  const done = runExchange(createChatDialect({ enforceUsage: true }), request, client, deps);
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
      // Time enough for everything that was released to get to the client, and for more if more were let through.
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
});
