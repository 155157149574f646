/** Vectors on a server, whose failures are misses: no request fails or waits for long because of it. */

import type { z } from 'zod';
import { vectorStored } from '../../events/catalogue/cache.ts';
import type { Position } from '../../events/event.ts';
import { type EventLog, positionAtTime } from '../../events/log.ts';
import { CircuitBreaker } from '../exchange/attempts/circuit-breaker.ts';
import {
  type MaybeLater,
  type Neighbour,
  type StoredVector,
  type VectorQuery,
  type VectorStore,
  vectorOfBytes,
} from './vector-store.ts';

interface RemoteVectorsOptions {
  readonly store: VectorStore;
  /** Longest time that a search delays its request. */
  readonly timeoutMs: number;
  /** Vectors that may wait to be stored; more are dropped and counted. */
  readonly maxPending: number;
  /** Called with each failure, for metrics and the operator's own log. */
  failed(operation: 'search' | 'store', error: unknown): void;
  now(): number;
}

/** After so many failures in a row the server is left alone, for so long. */
const FAILURES = 5;
const OPEN_MS = 10_000;

export class RemoteVectors implements VectorStore {
  readonly #options: RemoteVectorsOptions;
  readonly #breaker: CircuitBreaker;
  #pending = 0;

  constructor(options: RemoteVectorsOptions) {
    this.#options = options;
    const policy = { enabled: true, failureThreshold: FAILURES, successThreshold: 1, openMs: OPEN_MS };
    this.#breaker = new CircuitBreaker({ ...policy, isFailure: () => true }, options.now, () => {});
  }

  /** Never rejects. */
  async add(entry: StoredVector): Promise<void> {
    const { store, maxPending, failed } = this.#options;
    if (this.#pending >= maxPending) {
      failed('store', new Error(`${maxPending} vectors wait to be stored already`));
      return;
    }
    this.#pending += 1;
    await this.#attempt('store', () => store.add(entry), undefined);
    this.#pending -= 1;
  }

  /** Never rejects. */
  nearest(query: VectorQuery): Promise<Neighbour | undefined> {
    return this.#attempt('search', () => this.#options.store.nearest(query), undefined);
  }

  /** Never rejects. */
  remove(digests: readonly string[]): Promise<void> {
    return this.#attempt('store', () => this.#options.store.remove(digests), undefined);
  }

  /** @throws when the server did not remove them: a purge must not be reported as done */
  async purge(): Promise<void> {
    await this.#options.store.purge();
  }

  close(): MaybeLater<void> {
    return this.#options.store.close();
  }

  async #attempt<Value>(
    operation: 'search' | 'store',
    call: () => MaybeLater<Value>,
    otherwise: Value,
  ): Promise<Value> {
    const { timeoutMs, failed } = this.#options;
    const { permit } = this.#breaker.enter();
    if (permit === undefined) return otherwise;
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    try {
      const value = await Promise.race([call(), late.promise]);
      permit.end('succeeded');
      return value;
    } catch (error) {
      permit.end('failed');
      failed(operation, error);
      return otherwise;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Reads the vectors back that have not expired, and those that other gateways add: the log is their store. */
export interface ReadVectorsOptions {
  readonly log: EventLog;
  readonly store: VectorStore;
  /** The longest life of a vector: older events are not read. */
  readonly ttlSeconds: number;
  /** Whether the response cache has an answer with this digest. */
  isThere(digest: string): boolean;
  /**
   * Given where other gateways add vectors, which are then followed until the signal is aborted. Resolves when the response
   * cache knows the answers up to this position.
   */
  readonly whenIndexed?: ((position: Position) => Promise<void>) | undefined;
  readonly signal: AbortSignal;
  now(): number;
}

/** @throws the errors of reading the log */
export async function readVectors(options: ReadVectorsOptions): Promise<void> {
  const { log, store, ttlSeconds, isThere, whenIndexed, signal, now } = options;
  const after = await positionAtTime(log, now() - ttlSeconds * 1000);
  const filter = { types: [vectorStored.type] };
  const events = whenIndexed === undefined ? log.readAll({ after, filter }) : log.subscribe({ after, filter, signal });
  for await (const event of events) {
    if (signal.aborted) return;
    if (!('stream' in event)) continue;
    const { digest, partition, expiresAt, dimensions } = event.data as z.infer<typeof vectorStored.data>;
    if (expiresAt <= now()) continue;
    await whenIndexed?.(event.position);
    if (!isThere(digest)) continue;
    const vector = vectorOfBytes(event.body ?? new Uint8Array(), dimensions);
    if (vector !== undefined) await store.add({ digest, partition, vector, expiresAt });
  }
}
