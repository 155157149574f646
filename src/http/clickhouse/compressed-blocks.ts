/**
 * ClickHouse's own compression (`compress=1` for the answer, `decompress=1` for the body): blocks, each with a
 * checksum, its method, its size including the 9 bytes of method and sizes, and its uncompressed size. Numbers are
 * little-endian.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { zstdDecompressSync } from 'node:zlib';
import { cityHash128 } from './city-hash.ts';
import { ClickHouseException } from './embedded-clickhouse.ts';
import { lz4Compress, lz4Decompress } from './lz4.ts';

const CHECKSUM_BYTES = 16;
const HEADER_BYTES = 9;
/** Uncompressed size of a block. Compressing it takes about 2 ms, after which other work gets its turn. */
const BLOCK_BYTES = 64 * 1024;

const methods = { none: 0x02, lz4: 0x82, zstd: 0x90 } as const;

/** The same bytes in LZ4 blocks, which all clients read. */
export async function* inCompressedBlocks(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  for await (const piece of pieces) {
    for (let at = 0; at < piece.length; at += BLOCK_BYTES) {
      yield compressedBlock(Buffer.from(piece.subarray(at, at + BLOCK_BYTES)));
      await nextTurn();
    }
  }
}

export function compressedBlock(bytes: Buffer): Buffer<ArrayBuffer> {
  const compressed = lz4Compress(bytes);
  const block = Buffer.allocUnsafe(CHECKSUM_BYTES + HEADER_BYTES + compressed.length);
  block.writeUInt8(methods.lz4, CHECKSUM_BYTES);
  block.writeUInt32LE(HEADER_BYTES + compressed.length, CHECKSUM_BYTES + 1);
  block.writeUInt32LE(bytes.length, CHECKSUM_BYTES + 5);
  compressed.copy(block, CHECKSUM_BYTES + HEADER_BYTES);
  const [low, high] = cityHash128(block.subarray(CHECKSUM_BYTES));
  block.writeBigUInt64LE(low, 0);
  block.writeBigUInt64LE(high, 8);
  return block;
}

/** The content of the blocks. @throws ClickHouseException when they are damaged, or contain more than `maxBytes` */
export function fromCompressedBlocks(blocks: Buffer, maxBytes: number): Buffer {
  const pieces: Buffer[] = [];
  let held = 0;
  for (let at = 0; at < blocks.length; ) {
    const { method, compressed, length, end } = blockAt(blocks, at);
    held += length;
    if (held > maxBytes) {
      throw new ClickHouseException(
        223,
        `Code: 223. DB::Exception: the body has more than ${maxBytes} bytes. (QUERY_IS_TOO_LARGE)`,
      );
    }
    pieces.push(decompressed(method, compressed, length));
    at = end;
  }
  return Buffer.concat(pieces);
}

function blockAt(blocks: Buffer, at: number) {
  const header = at + CHECKSUM_BYTES;
  if (blocks.length < header + HEADER_BYTES) throw cannotDecompress('it ends within a block');
  const end = header + blocks.readUInt32LE(header + 1);
  if (end < header + HEADER_BYTES || end > blocks.length) throw cannotDecompress('it ends within a block');
  const [low, high] = cityHash128(blocks.subarray(header, end));
  if (low !== blocks.readBigUInt64LE(at) || high !== blocks.readBigUInt64LE(at + 8)) {
    throw new ClickHouseException(
      40,
      "Code: 40. DB::Exception: Checksum doesn't match: corrupted data. (CHECKSUM_DOESNT_MATCH)",
    );
  }
  const method = blocks.readUInt8(header);
  const length = blocks.readUInt32LE(header + 5);
  return { method, length, compressed: blocks.subarray(header + HEADER_BYTES, end), end };
}

function decompressed(method: number, compressed: Buffer, length: number): Buffer {
  try {
    if (method === methods.lz4) return lz4Decompress(compressed, length);
    if (method === methods.zstd) return whole(zstdDecompressSync(compressed, { maxOutputLength: length + 1 }), length);
    if (method === methods.none) return whole(compressed, length);
  } catch (error) {
    if (error instanceof ClickHouseException) throw error;
    throw cannotDecompress(error instanceof Error ? error.message : String(error));
  }
  throw new ClickHouseException(
    89,
    `Code: 89. DB::Exception: Unknown compression method: ${method}. (UNKNOWN_COMPRESSION_METHOD)`,
  );
}

function whole(bytes: Buffer, length: number): Buffer {
  if (bytes.length !== length) throw cannotDecompress(`a block holds ${bytes.length} bytes and says ${length}`);
  return bytes;
}

function cannotDecompress(why: string): ClickHouseException {
  return new ClickHouseException(
    271,
    `Code: 271. DB::Exception: Cannot decompress the body: ${why}. (CANNOT_DECOMPRESS)`,
  );
}
