/** Exchanges that the gateway runs for itself, a limited number at the same time. */
import type { UserPath } from '../../events/event.ts';
import type { Client, EndReason } from '../model-request/client.ts';
import type { ModelRequest } from '../model-request/model-request.ts';
import { Refusal } from '../refusal.ts';
import { everything } from '../visibility.ts';

export interface AuxiliaryExchangesOptions {
  /**
   * Runs a request as the exchange with this id. Resolves when it has ended; never rejects. Bounds the size of the
   * answer.
   */
  run(exchangeId: string, request: ModelRequest, client: Client): Promise<void>;
  newId(): string;
  /** Exchanges at the same time; there are no further ones. */
  readonly limit: number;
}

/** `cancelled`: by the signal; the exchange then ends by itself. `beyond_limit`: there is no exchange. */
export type AuxiliaryEnd =
  | { readonly end: 'answered'; readonly exchangeId: string; readonly content: Uint8Array | Refusal }
  | { readonly end: 'cancelled'; readonly exchangeId: string | undefined }
  | { readonly end: 'beyond_limit' };

export class AuxiliaryExchanges {
  readonly #options: AuxiliaryExchangesOptions;
  readonly #running = new Set<CollectingClient>();

  constructor(options: AuxiliaryExchangesOptions) {
    this.#options = options;
  }

  get limit(): number {
    return this.#options.limit;
  }

  /** Resolves at once when the signal is aborted. Never rejects. */
  async run(request: ModelRequest, signal: AbortSignal): Promise<AuxiliaryEnd> {
    const { run, newId, limit } = this.#options;
    if (signal.aborted) return { end: 'cancelled', exchangeId: undefined };
    if (this.#running.size >= limit) return { end: 'beyond_limit' };
    const exchangeId = newId();
    const client = new CollectingClient();
    this.#running.add(client);
    const cancelled = Promise.withResolvers<AuxiliaryEnd>();
    const onAbort = () => {
      client.endEarly(endReasonOf(signal.reason));
      cancelled.resolve({ end: 'cancelled', exchangeId });
    };
    signal.addEventListener('abort', onAbort, { once: true });
    void run(exchangeId, request, client).finally(() => this.#running.delete(client));
    const answered = client.whenAnswered.then((content) => ({ end: 'answered', exchangeId, content }) as const);
    try {
      return await Promise.race([answered, cancelled.promise]);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** The gateway stops without waiting for them. */
  cut(): void {
    for (const client of this.#running) client.endEarly('gateway_stopping');
  }
}

export interface AuxiliaryRequest {
  readonly requestId: string;
  /** The exchange for which the gateway sends it. */
  readonly causationId?: string | undefined;
  readonly userPath: string;
  readonly path: '/v1/chat/completions' | '/v1/embeddings';
  readonly body: object;
}

/** A request of the gateway itself: without guardrails, and without what restricts clients to models. */
export function auxiliaryRequest({ requestId, causationId, userPath, path, body }: AuxiliaryRequest): ModelRequest {
  return {
    caller: {
      actor: 'system',
      userPath: userPath as UserPath,
      authMethod: 'no_key',
      sight: everything,
      origin: 'plugin',
    },
    requestId,
    causationId,
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify(body)),
  };
}

const endReasons: readonly unknown[] = ['client_gone', 'gateway_stopping', 'cancelled'] satisfies EndReason[];

function isEndReason(reason: unknown): reason is EndReason {
  return endReasons.includes(reason);
}

/** A signal is aborted by the client of the request, or by a time limit. */
function endReasonOf(reason: unknown): EndReason {
  return isEndReason(reason) ? reason : 'cancelled';
}

// The client of an exchange that the gateway itself runs: it keeps the answer in memory.

/** The size of the answer is bounded by the exchange. */
class CollectingClient implements Client {
  readonly #controller = new AbortController();
  readonly #answered = Promise.withResolvers<Uint8Array | Refusal>();

  get ended(): AbortSignal {
    return this.#controller.signal;
  }

  /** Resolves with the whole body, or with the refusal in its place. */
  get whenAnswered(): Promise<Uint8Array | Refusal> {
    return this.#answered.promise;
  }

  readonly begun = false;
  readonly isKeptOpen = false;

  endEarly(reason: EndReason): void {
    if (!this.#controller.signal.aborted) this.#controller.abort(reason);
  }

  answer(_status: number, _headers: Record<string, string>, body: Uint8Array): void {
    this.#answered.resolve(body);
  }

  refuse(refusal: Refusal): void {
    this.#answered.resolve(refusal);
  }

  keepOpen(): void {}

  /** A stream was not requested: the exchange ends. */
  begin(): void {
    const message = 'the answer is a stream, which was not requested';
    this.#answered.resolve(new Refusal({ status: 502, type: 'provider_error', code: null, message }));
    this.endEarly('cancelled');
  }

  write(): undefined {}

  end(): void {}
}
