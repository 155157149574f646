/** Where vectors are kept and searched: in this process, in PostgreSQL with pgvector, or in Qdrant. */
import type { EpochMs } from '../../events/event.ts';

export interface StoredVector {
  /** Of the request that was answered, 64 hexadecimal digits: the key of its answer in the index of the response cache. */
  readonly digest: string;
  /** Digest of everything but the text that must be equal. Vectors of different partitions are never compared. */
  readonly partition: string;
  /** Of length 1. */
  readonly vector: Float32Array;
  readonly expiresAt: EpochMs;
}

export interface Neighbour {
  readonly digest: string;
  /** Cosine similarity. */
  readonly similarity: number;
}

export interface VectorQuery {
  readonly partition: string;
  /** Of length 1. */
  readonly vector: Float32Array;
  /** The least similarity that is returned. */
  readonly threshold: number;
  readonly now: EpochMs;
}

export type MaybeLater<Value> = Value | Promise<Value>;

/** Stores on servers may reject; `RemoteVectors` turns their failures into misses. */
export interface VectorStore {
  /** Replaces the vector with the same digest. */
  add(entry: StoredVector): MaybeLater<void>;
  /** The nearest vector of the partition that has not expired. */
  nearest(query: VectorQuery): MaybeLater<Neighbour | undefined>;
  remove(digests: readonly string[]): MaybeLater<void>;
  /** Removes all vectors. */
  purge(): MaybeLater<void>;
  close(): MaybeLater<void>;
}

/** @returns a copy of length 1; undefined for a vector without a direction */
export function normalised(vector: ArrayLike<number>): Float32Array | undefined {
  let largest = 0;
  for (let at = 0; at < vector.length; at++) largest = Math.max(largest, Math.abs(vector[at] ?? 0));
  if (!(largest > 0 && largest < Number.POSITIVE_INFINITY)) return undefined;
  // Squares of very small or large numbers have no digits left.
  let squares = 0;
  for (let at = 0; at < vector.length; at++) squares += ((vector[at] ?? 0) / largest) ** 2;
  const length = Math.sqrt(squares);
  return Float32Array.from(vector, (value) => value / largest / length);
}

/** The bytes of a vector in the log: little-endian numbers of four bytes, on every machine. */
export function bytesOfVector(vector: Float32Array): Buffer {
  const bytes = Buffer.alloc(vector.length * 4);
  for (const [at, value] of vector.entries()) bytes.writeFloatLE(value, at * 4);
  return bytes;
}

/** A copy. @returns undefined for bytes that are no vector of this many dimensions */
export function vectorOfBytes(bytes: Uint8Array, dimensions: number): Float32Array | undefined {
  if (bytes.length !== dimensions * 4) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Float32Array.from({ length: dimensions }, (_, at) => view.getFloat32(at * 4, true));
}
