/** One exchange with a real provider over a log whose appends a test holds back, and the client that gets its answer. */
import { CircuitBreaker, CircuitBreakers } from '../../src/commands/exchange/attempts/circuit-breaker.ts';
import type { LeftClient } from '../../src/commands/exchange/background/open-exchange-tracker.ts';
import { DetachedClients } from '../../src/commands/exchange/delivery/detached-client.ts';
import type { ExchangeDialect } from '../../src/commands/exchange/dialect.ts';
import { createChatDialect } from '../../src/commands/exchange/dialects/chat/chat-dialect.ts';
import type { ExchangeDependencies } from '../../src/commands/exchange/pipeline/dependencies.ts';
import { runExchange } from '../../src/commands/exchange/pipeline/run-exchange.ts';
import { policyWithout } from '../../src/commands/exchange/policy.ts';
import { type Admission, withoutLimits } from '../../src/commands/model-request/admission.ts';
import type { Client, EndReason, ModelRequest } from '../../src/commands/model-request/model-request.ts';
import type { Refusal } from '../../src/commands/refusal.ts';
import { oneTarget } from '../../src/commands/virtual-models/router.ts';
import { everything } from '../../src/commands/visibility.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import type { Provider } from '../../src/providers/provider.ts';
import { unpriced } from '../support/nothing-configured.ts';
import type { HeldLog } from './held-log.ts';

/** A client that keeps the bytes it gets. */
export class RecordingClient implements Client {
  readonly #controller = new AbortController();
  readonly ended = this.#controller.signal;
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
  isKeptOpen = false;
  keepOpen(): void {
    this.isKeptOpen = true;
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
  endEarly(reason: EndReason): void {
    this.#controller.abort(reason);
  }
}

export function chatRequest(body: object): ModelRequest {
  return {
    caller: { actor: 'master', authMethod: 'master_key', visibility: everything },
    requestId: 'test',
    method: 'POST',
    path: '/v1/chat/completions',
    headers: {},
    body: Buffer.from(
      JSON.stringify({ model: 'simulated-small', messages: [{ role: 'user', content: 'hi' }], ...body }),
    ),
  };
}

export interface ExchangeOptions {
  readonly log: Pick<HeldLog, 'append' | 'readStream' | 'capabilities'>;
  readonly provider: Provider;
  readonly request: ModelRequest;
  readonly recordBeforeCall?: 'written' | 'durable' | undefined;
  readonly dialect?: ExchangeDialect | undefined;
  /** Default: without limits. */
  readonly admission?: Admission;
}

export function startExchange(options: ExchangeOptions) {
  const { log, provider, request, recordBeforeCall = 'written' } = options;
  const { dialect = createChatDialect({ enforceUsage: true }), admission = withoutLimits } = options;
  const client = new RecordingClient();
  const open = new Set<string>();
  const leftOpen: (LeftClient | undefined)[] = [];
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
    admission,
    checkSent: () => undefined,
    pricing: unpriced,
    requestPlugins: [],
    archive: { find: async () => undefined, mayBeOnlyAtProvider: async () => false },
    dialects: new Map(),
    guardedEndpoints: new Map(),
    detached: new DetachedClients(),
    responseNotStored: () => {},
    resilience: new Map([[provider.name, { retry, breakers: new CircuitBreakers(() => breaker) }]]),
    recordBeforeCall,
    policyOf: () => policyWithout({ capture: 'full' }),
    policyAgain: () => Promise.resolve(undefined),
    maxAnswerBytes: 1e6,
    streamLimits: { ms: 60_000, bytes: 1e6 },
    newId: mintEventId,
    random: Math.random,
    wait: async () => {},
    ended: () => {},
    open: {
      begun: (stream) => open.add(stream),
      over: (stream) => open.delete(stream),
      leftOpen: (_stream, client) => leftOpen.push(client),
    },
    refused: { recordsAlone: () => true },
    failed: (error) => {
      throw error;
    },
  };
  const done = runExchange(dialect, request, client, deps);
  return { client, done, open, leftOpen };
}
