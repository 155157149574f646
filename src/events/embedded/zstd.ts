/** Compression of a segment's blocks, each by itself. */
import { promisify } from 'node:util';
import { zstdCompressSync, zstdDecompress, zstdDecompressSync } from 'node:zlib';

/** @throws Error when these are not the bytes of a block, or when it is larger than `rawLength` */
export type Unpack = (compressed: Buffer, rawLength: number) => Promise<Buffer>;

/** The smallest output buffer of zlib. */
const smallestChunkBytes = 64;

const decompress = promisify(zstdDecompress);

const wholeBlock = (rawLength: number) => ({ chunkSize: Math.max(rawLength, smallestChunkBytes) });

export function packNow(raw: Buffer): Buffer {
  // zlib takes this much memory at a time for its output, and events shrink to less than that
  return zstdCompressSync(raw, wholeBlock(raw.length >> 2));
}

export function unpackNow(compressed: Buffer, rawLength: number): Buffer {
  return zstdDecompressSync(compressed, { ...wholeBlock(rawLength), maxOutputLength: rawLength });
}

/** In the thread pool. */
export const unpackLater: Unpack = (compressed, rawLength) =>
  decompress(compressed, { ...wholeBlock(rawLength), maxOutputLength: rawLength });
