import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { HttpAnswers } from '../../bench/load/http-answers.ts';

function read(pieces: Buffer[]): { status: number; body: string }[] {
  const answers: { status: number; body: string }[] = [];
  let status = 0;
  let body: Buffer[] = [];
  const parser = new HttpAnswers({
    onHead: (code) => {
      status = code;
    },
    onBody: (buffer, from, to) => body.push(Buffer.from(buffer.subarray(from, to))),
    onEnd: () => {
      answers.push({ status, body: Buffer.concat(body).toString() });
      body = [];
    },
  });
  for (const piece of pieces) {
    // As a read buffer that is used again.
    const buffer = Buffer.from(piece);
    parser.take(buffer);
    buffer.fill(0);
  }
  return answers;
}

const sized = (status: number, body: string) =>
  `HTTP/1.1 ${status} X\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const chunked = (status: number, chunks: string[]) =>
  `HTTP/1.1 ${status} X\r\ntransfer-encoding: chunked\r\n\r\n` +
  chunks.map((chunk) => `${Buffer.byteLength(chunk).toString(16)}\r\n${chunk}\r\n`).join('') +
  '0\r\n\r\n';

const answer = fc.oneof(
  fc
    .record({ status: fc.constantFrom(200, 404, 500), body: fc.string({ unit: 'grapheme' }) })
    .map((each) => ({ ...each, wire: sized(each.status, each.body) })),
  fc
    .record({ status: fc.constantFrom(200, 503), chunks: fc.array(fc.string({ unit: 'grapheme', minLength: 1 })) })
    .map(({ status, chunks }) => ({ status, body: chunks.join(''), wire: chunked(status, chunks) })),
);

describe('reading HTTP answers', () => {
  it('finds the same answers however the bytes are torn', () => {
    fc.assert(
      fc.property(fc.array(answer, { minLength: 1, maxLength: 4 }), fc.array(fc.nat()), (answers, cuts) => {
        const wire = Buffer.from(answers.map((each) => each.wire).join(''));
        const borders = [0, ...cuts.map((cut) => cut % wire.length).toSorted((a, b) => a - b), wire.length];
        const pieces = borders.slice(1).map((end, i) => wire.subarray(borders[i], end));
        expect(read(pieces)).toEqual(answers.map(({ status, body }) => ({ status, body })));
      }),
    );
  });

  it.each([
    ['not HTTP at all', 'SSH-2.0-OpenSSH\r\n\r\n'],
    ['neither length nor chunks', 'HTTP/1.1 200 OK\r\n\r\nhello'],
    ['a chunk without a size', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n'],
  ])('refuses %s', (_, wire) => {
    expect(() => read([Buffer.from(wire)])).toThrow();
  });
});
