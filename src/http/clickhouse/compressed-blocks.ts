/**
 * ClickHouse's own compression (`compress=1` for the answer, `decompress=1` for the body): blocks, each with a
 * checksum, its method, its size including the 9 bytes of method and sizes, and its uncompressed size. Numbers are
 * little-endian.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { zstdDecompressSync } from 'node:zlib';
import { lz4Compress, lz4Decompress } from './content-encoding.ts';
import { ClickHouseException, clickHouseError } from './embedded-clickhouse.ts';

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
      throw clickHouseError(223, 'QUERY_IS_TOO_LARGE', `the body has more than ${maxBytes} bytes`);
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
    throw clickHouseError(40, 'CHECKSUM_DOESNT_MATCH', "Checksum doesn't match: corrupted data");
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
  throw clickHouseError(89, 'UNKNOWN_COMPRESSION_METHOD', `Unknown compression method: ${method}`);
}

function whole(bytes: Buffer, length: number): Buffer {
  if (bytes.length !== length) throw cannotDecompress(`a block holds ${bytes.length} bytes and says ${length}`);
  return bytes;
}

function cannotDecompress(why: string): ClickHouseException {
  return clickHouseError(271, 'CANNOT_DECOMPRESS', `Cannot decompress the body: ${why}`);
}

/**
 * CityHash128, version 1.0.2 (Google, 2011), with which ClickHouse's clients and servers check compressed blocks. Later
 * versions of CityHash give other values. 64-bit arithmetic modulo 2^64 with BigInt: about 20 MiB/s.
 */
type Pair = readonly [bigint, bigint];

const K0 = 0xc3a5c85c97cb3127n;
const K1 = 0xb492b66fbe98f273n;
const K2 = 0x9ae16a3b2f90404fn;
const K3 = 0xc949d7c7509e6557n;
const MIXING = 0x9ddfea08eb382d69n;

const wrap = (value: bigint): bigint => BigInt.asUintN(64, value);
const times = (one: bigint, other: bigint): bigint => wrap(one * other);
const rotated = (value: bigint, by: bigint): bigint => wrap((value >> by) | (value << (64n - by)));
const shifted = (value: bigint): bigint => value ^ (value >> 47n);

/** 128 bits as two words, the lower first. */
function cityHash128(bytes: Buffer): Pair {
  const { length } = bytes;
  if (length >= 16) return seeded(bytes.subarray(16), [word(bytes, 0) ^ K3, word(bytes, 8)]);
  if (length < 8) return seeded(bytes, [K0, K1]);
  return seeded(bytes.subarray(length), [word(bytes, 0) ^ times(BigInt(length), K0), word(bytes, length - 8) ^ K1]);
}

function word(bytes: Buffer, at: number): bigint {
  return bytes.readBigUInt64LE(at);
}

/** 128 bits to 64. */
function mixed(one: bigint, other: bigint): bigint {
  const first = shifted(times(one ^ other, MIXING));
  return times(shifted(times(other ^ first, MIXING)), MIXING);
}

function seeded(bytes: Buffer, seed: Pair): Pair {
  return bytes.length < 128 ? ofShort(bytes, seed) : ofLong(bytes, seed);
}

function ofShort(bytes: Buffer, [seedA, seedB]: Pair): Pair {
  const { length } = bytes;
  let a = seedA;
  let b = seedB;
  let c: bigint;
  let d: bigint;
  if (length <= 16) {
    a = times(shifted(times(a, K1)), K1);
    c = wrap(b * K1 + ofAtMost16(bytes));
    d = shifted(wrap(a + (length >= 8 ? word(bytes, 0) : c)));
  } else {
    c = mixed(wrap(word(bytes, length - 8) + K1), a);
    d = mixed(wrap(b + BigInt(length)), wrap(c + word(bytes, length - 16)));
    a = wrap(a + d);
    for (let at = 0; at < length - 16; at += 16) {
      a = times(a ^ times(shifted(times(word(bytes, at), K1)), K1), K1);
      b ^= a;
      c = times(c ^ times(shifted(times(word(bytes, at + 8), K1)), K1), K1);
      d ^= c;
    }
  }
  const one = mixed(a, c);
  const other = mixed(d, b);
  return [one ^ other, mixed(other, one)];
}

function ofAtMost16(bytes: Buffer): bigint {
  const { length } = bytes;
  const count = BigInt(length);
  if (length > 8) {
    const last = word(bytes, length - 8);
    return mixed(word(bytes, 0), rotated(wrap(last + count), count)) ^ last;
  }
  if (length >= 4) {
    const first = BigInt(bytes.readUInt32LE(0));
    return mixed(count + (first << 3n), BigInt(bytes.readUInt32LE(length - 4)));
  }
  if (length === 0) return K2;
  const middle = bytes.readUInt8(0) + (bytes.readUInt8(length >> 1) << 8);
  const end = length + (bytes.readUInt8(length - 1) << 2);
  return times(shifted(times(BigInt(middle), K2) ^ times(BigInt(end), K3)), K2);
}

/** The weak hash of 32 bytes and two seeds, as two words. */
function weakly(bytes: Buffer, at: number, seedA: bigint, seedB: bigint): Pair {
  const last = word(bytes, at + 24);
  const begun = wrap(seedA + word(bytes, at));
  const turned = rotated(wrap(seedB + begun + last), 21n);
  const sum = wrap(begun + word(bytes, at + 8) + word(bytes, at + 16));
  return [wrap(sum + last), wrap(turned + rotated(sum, 44n) + begun)];
}

interface State {
  x: bigint;
  y: bigint;
  z: bigint;
  v: Pair;
  w: Pair;
}

function ofLong(bytes: Buffer, [seedA, seedB]: Pair): Pair {
  const { length } = bytes;
  const z = times(K1, BigInt(length));
  const v0 = wrap(rotated(seedB ^ K1, 49n) * K1 + word(bytes, 0));
  const v1 = wrap(rotated(v0, 42n) * K1 + word(bytes, 8));
  const w0 = wrap(rotated(wrap(seedB + z), 35n) * K1 + seedA);
  const w1 = times(rotated(wrap(seedA + word(bytes, 88)), 53n), K1);
  const state: State = { x: seedA, y: seedB, z, v: [v0, v1], w: [w0, w1] };
  let at = 0;
  // Two rounds per step: the rest is less than 128 bytes.
  for (; length - at >= 128; at += 128) {
    round(bytes, at, state);
    round(bytes, at + 64, state);
  }
  return finished(bytes, length - at, state);
}

function round(bytes: Buffer, at: number, state: State): void {
  const { v, w } = state;
  const x = times(rotated(wrap(state.x + state.y + v[0] + word(bytes, at + 16)), 37n), K1) ^ w[1];
  const y = times(rotated(wrap(state.y + v[1] + word(bytes, at + 48)), 42n), K1) ^ v[0];
  const z = rotated(state.z ^ w[0], 33n);
  state.v = weakly(bytes, at, times(v[1], K1), wrap(x + w[0]));
  state.w = weakly(bytes, at + 32, wrap(z + w[1]), y);
  state.x = z;
  state.y = y;
  state.z = x;
}

/** @param left number of bytes at the end that no round has read */
function finished(bytes: Buffer, left: number, state: State): Pair {
  let { x, y, v } = state;
  let [w0] = state.w;
  const [, w1] = state.w;
  y = wrap(y + rotated(w0, 37n) * K0 + state.z);
  x = wrap(x + rotated(wrap(v[0] + state.z), 49n) * K0);
  // Backwards from the end, in pieces of 32 bytes that may overlap bytes of a round.
  for (let done = 32; done < left + 32; done += 32) {
    const at = bytes.length - done;
    y = wrap(rotated(wrap(y - x), 42n) * K0 + v[1]);
    w0 = wrap(w0 + word(bytes, at + 16));
    x = wrap(rotated(x, 49n) * K0 + w0);
    w0 = wrap(w0 + v[0]);
    v = weakly(bytes, at, v[0], v[1]);
  }
  x = mixed(x, v[0]);
  y = mixed(y, w0);
  return [wrap(mixed(wrap(x + v[1]), w1) + y), mixed(wrap(x + w1), wrap(y + v[1]))];
}
