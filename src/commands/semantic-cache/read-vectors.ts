/** Reads the vectors back that have not expired, and those that other gateways add: the log is their store. */
import type { z } from 'zod';
import { vectorStored } from '../../events/catalogue/semantic-cache.ts';
import type { Position } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { positionAtTime } from '../../events/position-at-time.ts';
import { vectorOfBytes } from './vector-bytes.ts';
import type { VectorStore } from './vector-store.ts';

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
