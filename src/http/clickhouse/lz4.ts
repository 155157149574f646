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
