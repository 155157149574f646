import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BodyCheck, type Expected } from '../../bench/load/expected.ts';

/** The problem of a body that comes in pieces of these lengths, through a reused buffer. */
function faultOf(body: string, expected: Expected, cuts: readonly number[] = []): string | undefined {
  const check = new BodyCheck(expected);
  const bytes = Buffer.from(body);
  const borders = [0, ...cuts.map((cut) => cut % Math.max(1, bytes.length)).toSorted((a, b) => a - b), bytes.length];
  // An earlier body must leave no trace.
  check.take(Buffer.from('something else'), 0, 14);
  check.reset();
  for (let at = 1; at < borders.length; at++) {
    const piece = Buffer.concat([Buffer.from('<<'), bytes.subarray(borders[at - 1], borders[at]), Buffer.from('>>')]);
    check.take(piece, 2, piece.length - 2);
    piece.fill(0);
  }
  return check.fault();
}

describe('the check of a body', () => {
  it('accepts the expected bytes in any pieces and nothing else', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), fc.string({ minLength: 1 }), fc.array(fc.nat()), (body, other, cuts) => {
        expect(faultOf(body, { body }, cuts)).toBeUndefined();
        expect(faultOf(other, { body }, cuts) === undefined).toBe(other === body);
      }),
    );
  });

  it('finds the end and a text in a long body in any pieces', () => {
    const body = `${'x'.repeat(20_000)} here ${'y'.repeat(1000)} end\n\n`;
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 200 }), (cuts) => {
        expect(faultOf(body, { end: 'end', has: 'here' }, cuts)).toBeUndefined();
        expect(faultOf(body, { end: 'nd of' }, cuts)).toBe('a body that does not end in nd of');
        expect(faultOf(body, { has: 'there' }, cuts)).toBe('a body without there');
      }),
    );
  });

  it.each([
    ['', { body: '' }, 'an empty answer'],
    ['abc', { body: 'abcd' }, 'a body of 3 bytes for 4'],
    ['abcde', { body: 'abcd' }, 'a body that differs from the expected one'],
    ['abc', { length: 4 }, 'a body of 3 bytes for 4'],
    ['abcd', { length: 4 }, undefined],
  ] as const)('judges %j by %j', (body, expected, fault) => {
    expect(faultOf(body, expected)).toBe(fault);
  });
});
