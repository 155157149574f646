/** Reads the vectors back that have not expired: the log is their store. */
import type { z } from 'zod';
import { vectorStored } from '../../events/catalogue/semantic-cache.ts';
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
  readonly signal: AbortSignal;
  now(): number;
}

/** Reads what is in the log now. @throws the errors of reading the log */
export async function readVectors({ log, store, ttlSeconds, isThere, signal, now }: ReadVectorsOptions): Promise<void> {
  const after = await positionAtTime(log, now() - ttlSeconds * 1000);
  for await (const event of log.readAll({ after, filter: { types: [vectorStored.type] } })) {
    if (signal.aborted) return;
    const { digest, partition, expiresAt, dimensions } = event.data as z.infer<typeof vectorStored.data>;
    if (expiresAt <= now() || !isThere(digest)) continue;
    const vector = vectorOfBytes(event.body ?? new Uint8Array(), dimensions);
    if (vector !== undefined) await store.add({ digest, partition, vector, expiresAt });
  }
}
