import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forEachLine, type LineLimits } from '../../src/commands/provider-objects/ask-provider.ts';
import type { ReplyBody } from '../../src/providers/provider.ts';
import { membersIn } from '../../src/providers/translate/json.ts';

const plenty: LineLimits = { lineBytes: 1_000_000, totalBytes: 10_000_000, lines: 1_000 };

function inPieces(pieces: readonly Buffer[]): ReplyBody {
  return {
    bytes: async () => Buffer.concat(pieces),
    async pieces(onPiece) {
      for (const piece of pieces) await onPiece(piece);
    },
    arrived: 0,
    cancel: () => {},
  };
}

function cut(text: string, at: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text);
  const borders = [0, ...at.map((one) => one % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return borders.slice(1).map((end, index) => bytes.subarray(borders[index], end));
}

async function read(pieces: readonly Buffer[], limits = plenty): Promise<unknown[]> {
  const values: unknown[] = [];
  await forEachLine(inPieces(pieces), limits, (value) => values.push(value));
  return values;
}

describe('a file of JSON lines', () => {
  it('is the same however its bytes come, and whatever ends its lines', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ text: fc.string({ unit: 'binary' }), n: fc.integer() })),
        fc.constantFrom('\n', '\r\n', '\n\n'),
        fc.array(fc.nat()),
        async (values, end, at) => {
          const text = values.map((value) => JSON.stringify(value)).join(end);
          expect(await read(cut(text, at))).toEqual(JSON.parse(JSON.stringify(values)));
        },
      ),
    );
  });

  it('has undefined for a line that is not JSON', async () => {
    expect(await read([Buffer.from('{"a":1}\nnot json\n[2]')])).toEqual([{ a: 1 }, undefined, [2]]);
  });

  it.each([
    ['a line that is too long', { lineBytes: 10 }, /more than 10 bytes/],
    ['too many bytes', { totalBytes: 20 }, /more than 20 bytes/],
    ['too many lines', { lines: 2 }, /more than 2 lines/],
  ])('is refused for %s', async (_what, limit, message) => {
    const pieces = cut('{"a":"12345678901"}\n{"b":2}\n{"c":3}\n', [3, 9, 15]);
    await expect(read(pieces, { ...plenty, ...limit })).rejects.toMatchObject({
      code: 'batch_too_large',
      message: expect.stringMatching(message),
    });
  });
});

describe('the members of a JSON text', () => {
  it('are those of the object, in order', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()), fc.nat(3), (object, indent) => {
        const found = membersIn(Buffer.from(JSON.stringify(object, null, indent)));
        expect(found.map(({ name, value }) => [name, JSON.parse(value.toString())])).toEqual(
          Object.entries(JSON.parse(JSON.stringify(object))),
        );
      }),
    );
  });

  it('are listed as often as they occur', () => {
    const found = membersIn(Buffer.from('{"a":1, "\\u0061" : {"a":"}"} ,"b":[2]}'));
    expect(found.map(({ name, value }) => [name, value.toString()])).toEqual([
      ['a', '1'],
      ['a', '{"a":"}"}'],
      ['b', '[2]'],
    ]);
  });
});
