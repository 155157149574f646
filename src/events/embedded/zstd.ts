/** Compression of a segment's blocks, each by itself. */
import { promisify } from 'node:util';
import { constants, zstdCompressSync, zstdDecompress, zstdDecompressSync } from 'node:zlib';

/** @throws Error when these are not the bytes of a block, or when it is larger than `rawLength` */
export type Unpack = (compressed: Buffer, rawLength: number) => Promise<Buffer>;

/** The smallest output buffer of zlib. */
const smallestChunkBytes = 64;

const decompress = promisify(zstdDecompress);

const wholeBlock = (rawLength: number) => ({ chunkSize: Math.max(rawLength, smallestChunkBytes) });

/** Of a stream of 33 events level 1 needs half the time of level 3, for 1.23 times the bytes. */
const fastest = { [constants.ZSTD_c_compressionLevel]: 1 };

export function packNow(raw: Buffer): Buffer {
  // zlib takes this much memory at a time for its output, and events shrink to less than that
  return zstdCompressSync(raw, { ...wholeBlock(raw.length >> 2), params: fastest });
}

export function unpackNow(compressed: Buffer, rawLength: number): Buffer {
  return zstdDecompressSync(compressed, { ...wholeBlock(rawLength), maxOutputLength: rawLength });
}

/** In the thread pool. */
export const unpackLater: Unpack = (compressed, rawLength) =>
  decompress(compressed, { ...wholeBlock(rawLength), maxOutputLength: rawLength });

const magic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);
/** A block is that large only when it is one event of the largest size with its frame. */
const largestBlockBytes = 512 * 1024 * 1024;

/**
 * The blocks of a compressed segment without its table, in order. Of one that cannot be unpacked, `raw` is undefined;
 * the next one is found by the bytes with which each begins (RFC 8878 §3.1.1).
 */
export function* unpackedBlocks(packed: Buffer): Generator<{ readonly at: number; readonly raw: Buffer | undefined }> {
  for (let at = 0; at < packed.length; ) {
    const end = blockEnd(packed, at);
    const raw = end === undefined ? undefined : tryUnpack(packed.subarray(at, end));
    yield { at, raw };
    const next = packed.indexOf(magic, at + 1);
    at = raw === undefined || end === undefined ? (next === -1 ? packed.length : next) : end;
  }
}

function tryUnpack(block: Buffer): Buffer | undefined {
  try {
    return zstdDecompressSync(block, { maxOutputLength: largestBlockBytes });
  } catch {
    return undefined;
  }
}

/** Where the Zstandard frame ends that begins there; undefined when none does, or it is cut short. */
function blockEnd(packed: Buffer, start: number): number | undefined {
  if (start + 5 > packed.length || packed.compare(magic, 0, 4, start, start + 4) !== 0) return undefined;
  const descriptor = packed.readUInt8(start + 4);
  const isSingle = (descriptor & 0x20) !== 0;
  const sizeBytes = [isSingle ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0;
  let at = start + 5 + (isSingle ? 0 : 1) + dictionaryBytes + sizeBytes;
  for (let isLast = false; !isLast; ) {
    if (at + 3 > packed.length) return undefined;
    const header = packed.readUIntLE(at, 3);
    isLast = (header & 1) !== 0;
    const isRepeated = ((header >> 1) & 3) === 1;
    at += 3 + (isRepeated ? 1 : header >> 3);
  }
  if ((descriptor & 4) !== 0) at += 4;
  return at > packed.length ? undefined : at;
}
