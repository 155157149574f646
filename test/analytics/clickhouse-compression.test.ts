/** LZ4, the checksum, and ClickHouse's compressed blocks, without a ClickHouse. */

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  compressedBlock,
  fromCompressedBlocks,
  inCompressedBlocks,
} from '../../src/http/clickhouse/compressed-blocks.ts';
import { lz4Compress, lz4Decompress } from '../../src/http/clickhouse/content-encoding.ts';
import { countOf } from '../support/seed.ts';

/** Bytes that repeat themselves, near and far, among bytes that do not. */
const bytes = fc
  .array(
    fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc
        .tuple(fc.uint8Array({ minLength: 1, maxLength: 8 }), fc.nat({ max: 300 }))
        .map(([piece, times]) =>
          Uint8Array.from({ length: piece.length * times }, (_, index) => piece[index % piece.length] ?? 0),
        ),
    ),
    { maxLength: 12 },
  )
  .map((pieces) => Buffer.concat(pieces));

describe('LZ4', () => {
  test('decompresses to the same bytes', () => {
    fc.assert(
      fc.property(bytes, (given) => {
        expect(lz4Decompress(lz4Compress(given), given.length).equals(given)).toBe(true);
      }),
    );
  });

  test('makes text with repetitions at least three times smaller', () => {
    const rows = Buffer.from(Array.from({ length: 5000 }, (_, n) => `2026-01-01\topenai\tgpt-5\t${n}\n`).join(''));
    expect(lz4Compress(rows).length).toBeLessThan(rows.length / 3);
  });

  test('decompresses a match that overlaps its own output', () => {
    // Four literals, a match of 60 at offset 4, five literals.
    const block = Buffer.from([0x4f, 0x61, 0x62, 0x63, 0x64, 0x04, 0x00, 0x29, 0x50, 0x64, 0x2e, 0x2e, 0x2e, 0x2e]);
    expect(lz4Decompress(block, 4 + 60 + 5).toString()).toBe(`${'abcd'.repeat(16)}d....`);
  });

  test('refuses a block whose length or offsets are wrong', () => {
    const block = lz4Compress(Buffer.from('something that is long enough, long enough, long enough'));
    for (const length of [0, 10, 54, 56, 1000]) expect(() => lz4Decompress(block, length)).toThrow(RangeError);
    expect(() => lz4Decompress(Buffer.from([0x10, 0x61, 0x09, 0x00, 0x00]), 5)).toThrow(RangeError);
  });
});

describe("ClickHouse's compressed blocks", () => {
  test('decode to their contents, in any pieces', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(bytes, { maxLength: 4 }), async (pieces) => {
        async function* all() {
          yield* pieces;
        }
        const blocks: Buffer[] = [];
        for await (const block of inCompressedBlocks(all())) blocks.push(block);
        expect(fromCompressedBlocks(Buffer.concat(blocks), 10_000_000).equals(Buffer.concat(pieces))).toBe(true);
      }),
      { numRuns: countOf(5, 20) },
    );
  });

  test.each([
    ['an end within a block', (block: Buffer) => block.subarray(0, -1), 271],
    ['a changed byte', (block: Buffer) => changed(block, 30), 40],
    ['another checksum', (block: Buffer) => changed(block, 3), 40],
    ['too much', (block: Buffer) => Buffer.concat([block, block]), 223],
  ])('are refused: %s', (_what, change, code) => {
    const block = compressedBlock(Buffer.from('SELECT 1, 2, 3, 4, 5, 6, 7, 8'));
    expect(() => fromCompressedBlocks(change(block), 50)).toThrow(expect.objectContaining({ code }));
  });
});

function changed(block: Buffer, at: number): Buffer {
  const copy = Buffer.from(block);
  copy.writeUInt8(copy.readUInt8(at) ^ 0x10, at);
  return copy;
}
