/** `Content-Encoding` of answers and bodies for ClickHouse's clients. */
import { Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import { clickHouseError } from './embedded-clickhouse.ts';

/** LZ4's block format (github.com/lz4/lz4, doc/lz4_Block_format.md), which Node does not include. */
const MIN_MATCH = 4;
/** No match may begin in the last 12 bytes of a block, or extend into the last 5. */
const NO_MATCH_BEGINS = 12;
const LAST_LITERALS = 5;
const MAX_OFFSET = 0xffff;
const TABLE_BITS = 13;
/** Knuth's multiplier: distributes four bytes over the table. */
const SPREAD = 2654435761;

/** One block, at most `bytes.length / 255 + 16` longer than its content. */
export function lz4Compress(bytes: Buffer): Buffer {
  const writer = new BlockWriter(bytes);
  const lastStart = bytes.length - NO_MATCH_BEGINS;
  /** Last place of four bytes, by their hash; increased by one, so that 0 means none. */
  const seen = new Int32Array(1 << TABLE_BITS);
  let literalsFrom = 0;
  let at = 0;
  while (at <= lastStart) {
    const word = bytes.readUInt32LE(at);
    const slot = Math.imul(word, SPREAD) >>> (32 - TABLE_BITS);
    const candidate = (seen[slot] ?? 0) - 1;
    seen[slot] = at + 1;
    if (candidate < 0 || at - candidate > MAX_OFFSET || bytes.readUInt32LE(candidate) !== word) {
      // The step grows while no match is found.
      at += 1 + ((at - literalsFrom) >> 6);
      continue;
    }
    const length = matchLength(bytes, candidate, at);
    writer.sequence(literalsFrom, at, { offset: at - candidate, length });
    at += length;
    literalsFrom = at;
  }
  writer.sequence(literalsFrom, bytes.length, undefined);
  return writer.written();
}

function matchLength(bytes: Buffer, candidate: number, at: number): number {
  const most = bytes.length - LAST_LITERALS - at;
  let length = MIN_MATCH;
  while (length < most && bytes[candidate + length] === bytes[at + length]) length += 1;
  return length;
}

class BlockWriter {
  readonly #from: Buffer;
  readonly #block: Buffer;
  #end = 0;

  constructor(from: Buffer) {
    this.#from = from;
    this.#block = Buffer.allocUnsafe(from.length + Math.ceil(from.length / 255) + 16);
  }

  /** Literal bytes, followed by a match with earlier ones; the last sequence has no match. */
  sequence(start: number, end: number, match: { readonly offset: number; readonly length: number } | undefined): void {
    const literals = end - start;
    const repeated = match === undefined ? 0 : match.length - MIN_MATCH;
    this.#byte((Math.min(literals, 15) << 4) | Math.min(repeated, 15));
    if (literals >= 15) this.#rest(literals - 15);
    this.#from.copy(this.#block, this.#end, start, end);
    this.#end += literals;
    if (match === undefined) return;
    this.#byte(match.offset & 0xff);
    this.#byte(match.offset >> 8);
    if (repeated >= 15) this.#rest(repeated - 15);
  }

  written(): Buffer {
    return this.#block.subarray(0, this.#end);
  }

  #rest(length: number): void {
    let left = length;
    for (; left >= 255; left -= 255) this.#byte(255);
    this.#byte(left);
  }

  #byte(value: number): void {
    this.#block[this.#end] = value;
    this.#end += 1;
  }
}

/** @param length of the content. @throws RangeError when the block has another length */
export function lz4Decompress(block: Buffer, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let end = 0;
  let at = 0;
  const more = (first: number): number => {
    if (first < 15) return first;
    let sum = first;
    for (;;) {
      const byte = block.readUInt8(at);
      at += 1;
      sum += byte;
      if (byte < 255) return sum;
    }
  };
  while (at < block.length) {
    const token = block.readUInt8(at);
    at += 1;
    const literals = more(token >> 4);
    if (at + literals > block.length || end + literals > length) throw damaged();
    block.copy(bytes, end, at, at + literals);
    at += literals;
    end += literals;
    if (at === block.length) break;
    const offset = block.readUInt16LE(at);
    at += 2;
    const repeated = more(token & 15) + MIN_MATCH;
    if (offset === 0 || offset > end || end + repeated > length) throw damaged();
    // Byte by byte: a match may overlap its own output.
    for (let index = 0; index < repeated; index += 1) bytes[end + index] = bytes[end + index - offset] ?? 0;
    end += repeated;
  }
  if (end !== length) throw damaged();
  return bytes;
}

function damaged(): RangeError {
  return new RangeError('the LZ4 block is damaged');
}

/** The cheapest for the processor first. LZ4 is last: it is not part of Node. */
const encoders: Readonly<Record<string, () => Transform>> = {
  zstd: () => zlib.createZstdCompress({ params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 } }),
  gzip: () => zlib.createGzip({ level: 1 }),
  deflate: () => zlib.createDeflate({ level: 1 }),
  br: () => zlib.createBrotliCompress({ params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }),
  lz4: () => new Lz4Frame(),
};

const decoders: Readonly<Record<string, () => Transform>> = {
  // At most 8 MiB of memory for a frame's window, whatever the frame demands (RFC 9659).
  zstd: () => zlib.createZstdDecompress({ params: { [zlib.constants.ZSTD_d_windowLogMax]: 23 } }),
  gzip: zlib.createGunzip,
  'x-gzip': zlib.createGunzip,
  deflate: zlib.createInflate,
  br: zlib.createBrotliDecompress,
};

interface Encoding {
  readonly name: string;
  readonly encoder: Transform;
}

/** The encoding of an answer; undefined when the client accepts none of the available ones. */
export function encodingFor(accepted: string | undefined): Encoding | undefined {
  const acceptable = new Set<string>();
  for (const one of (accepted ?? '').split(',')) {
    const [name = '', ...parameters] = one.split(';').map((part) => part.trim().toLowerCase());
    if (!parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))) acceptable.add(name);
  }
  for (const [name, encoder] of Object.entries(encoders)) if (acceptable.has(name)) return { name, encoder: encoder() };
  return undefined;
}

/** Undefined for a body that is not encoded. @throws ClickHouseException for an unsupported encoding */
export function decoderOf(encoding: string | undefined): Transform | undefined {
  const name = (encoding ?? '').trim().toLowerCase();
  if (name === '' || name === 'identity') return undefined;
  const decoder = decoders[name];
  if (decoder === undefined) {
    const offered = Object.keys(decoders).join(', ');
    throw clickHouseError(
      89,
      'UNKNOWN_COMPRESSION_METHOD',
      `Unknown HTTP content encoding: ${name}; there is ${offered}`,
    );
  }
  return decoder();
}

/** The LZ4 frame (github.com/lz4/lz4, doc/lz4_Frame_format.md): blocks of at most 64 KiB, without checksums. */
class Lz4Frame extends Transform {
  static readonly #head = Buffer.from([0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
  static readonly #blockBytes = 64 * 1024;
  #begun = false;

  override _transform(piece: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#begin();
    for (let at = 0; at < piece.length; at += Lz4Frame.#blockBytes) {
      const bytes = piece.subarray(at, at + Lz4Frame.#blockBytes);
      const compressed = lz4Compress(bytes);
      // The highest bit marks uncompressed bytes: a block must not be larger than its content.
      const isSmaller = compressed.length < bytes.length;
      const size = Buffer.alloc(4);
      size.writeUInt32LE(isSmaller ? compressed.length : bytes.length + 0x80000000);
      this.push(size);
      this.push(isSmaller ? compressed : bytes);
    }
    done();
  }

  override _flush(done: () => void): void {
    this.#begin();
    this.push(Buffer.alloc(4));
    done();
  }

  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.push(Lz4Frame.#head);
  }
}
