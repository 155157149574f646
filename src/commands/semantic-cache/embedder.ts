/** The vector of a text, from the configured model. Without one, the request is served as if there were no such cache. */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type EmbeddingCall, EmbeddingCallFailed } from '../auxiliary-calls/embedding-calls.ts';
import { CircuitBreaker } from '../exchange/attempts/circuit-breaker.ts';
import { normalised } from './vector-store.ts';

export interface EmbedderOptions {
  /** @throws EmbeddingCallFailed */
  embed(call: EmbeddingCall): Promise<Float32Array>;
  readonly model: string;
  readonly provider: string | undefined;
  /** Longest time that an embedding delays its request. */
  readonly timeoutMs: number;
  /** Called with each failure, for metrics and the operator's own log. */
  failed(error: unknown): void;
  now(): number;
}

export interface TextToEmbed {
  readonly text: string;
  readonly requestId: string;
  readonly exchangeId: string;
  /** The caller's. */
  readonly userPath: string | undefined;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
}

/** After so many failures in a row no embedding is computed, for so long. */
const FAILURES = 5;
const OPEN_MS = 30_000;
/** Of the vectors of recent texts. */
const RECENT_BYTES = 16 * 1024 * 1024;
const ENTRY_BYTES = 300;

export class Embedder {
  readonly #options: EmbedderOptions;
  readonly #breaker: CircuitBreaker;
  /** By digest of user path and text. */
  readonly #recent = new LRUCache<string, Float32Array>({
    maxSize: RECENT_BYTES,
    sizeCalculation: ({ byteLength }) => byteLength + ENTRY_BYTES,
  });

  constructor(options: EmbedderOptions) {
    this.#options = options;
    const policy = { enabled: true, failureThreshold: FAILURES, successThreshold: 1, openMs: OPEN_MS };
    this.#breaker = new CircuitBreaker({ ...policy, isFailure: () => true }, options.now, () => {});
  }

  /** Distinguishes the vectors of this model from those of others. */
  get space(): string {
    const { provider = '', model } = this.#options;
    return JSON.stringify([provider, model]);
  }

  /**
   * Resolves with a vector of length 1, or with undefined, within the time limit. Never rejects. A recent text of the
   * same user path is not embedded again.
   */
  async embed(given: TextToEmbed): Promise<Float32Array | undefined> {
    const key = hash('sha256', JSON.stringify([given.userPath, given.text]));
    const recent = this.#recent.get(key);
    if (recent !== undefined) return recent;
    const vector = await this.#embedded(given);
    if (vector !== undefined) this.#recent.set(key, vector);
    return vector;
  }

  async #embedded({ text, requestId, exchangeId, userPath, signal }: TextToEmbed): Promise<Float32Array | undefined> {
    const { embed, model, provider, timeoutMs, failed } = this.#options;
    const { permit } = this.#breaker.enter();
    if (permit === undefined) return undefined;
    const late = AbortSignal.timeout(timeoutMs);
    try {
      const vector = await embed({
        ...{ text, model, provider, requestId, exchangeId },
        userPath: `${(userPath ?? '').replace(/\/$/, '')}/cache/semantic`,
        signal: AbortSignal.any([signal, late]),
      });
      permit.end('succeeded');
      return normalised(vector);
    } catch (error) {
      const isCancelled = signal.aborted && !late.aborted;
      const isRefused = error instanceof EmbeddingCallFailed && error.failure === 'refused';
      permit.end(isCancelled || isRefused ? 'neutral' : 'failed');
      if (!isCancelled) failed(late.aborted ? new Error(`no embedding within ${timeoutMs} ms`) : error);
      return undefined;
    }
  }
}
