import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { frameAppend, unframeAppend } from '../../../src/events/replicated/append-frame.ts';
import { EngineDamaged } from '../../../src/events/replicated/engine.ts';
import { append } from '../eventstore/appends.ts';

const two = append({ number: 7, bodies: [10, 20], expectedRevision: 4n });
const headBytes = frameAppend(two).readUInt32LE(12);
const streamBytes = headBytes - 56 - 15;

/** The frame of the append with a change, and a checksum of what it has now. */
function changed(change: (frame: Buffer) => Buffer | void): Buffer {
  const frame = frameAppend(two);
  const result = change(frame) ?? frame;
  result.writeUInt32LE(crc32(result.subarray(8)), 4);
  return result;
}

describe('the frame of an append', () => {
  it('has the append', () => {
    expect(unframeAppend(changed(() => undefined))).toEqual(two);
  });

  it.each<[string, (frame: Buffer) => Buffer | void, string]>([
    ['more writes than it has', (frame) => void frame.writeUInt16LE(2, 10), 'more writes than its head has room for'],
    ['no writes', (frame) => void frame.writeUInt16LE(0, 10), 'bytes between its head and its records'],
    ['a longer stream name', (frame) => void frame.writeUInt16LE(60_000, 69), 'more writes than its head'],
    ['a shorter stream name', (frame) => void frame.writeUInt16LE(streamBytes - 1, 69), 'has 1 bytes between'],
    ['more events than it has', (frame) => void frame.writeUInt32LE(3, 65), 'has 2 events instead of 3'],
    ['fewer events than it has', (frame) => void frame.writeUInt32LE(1, 65), 'has 2 events instead of 1'],
    ['4,294,967,295 events', (frame) => void frame.writeUInt32LE(0xffffffff, 65), 'has 2 events instead of 4294967295'],
    ['an event of no bytes', (frame) => void frame.writeUInt32LE(0, headBytes), 'event 0 of an append is not whole'],
    [
      'an event that is too long',
      (frame) => void frame.writeUInt32LE(1e9, headBytes),
      'event 0 of an append is not whole',
    ],
    ['an unknown expectation', (frame) => void frame.writeUInt8(9, 56), 'expects kind 9'],
    ['a fraction as expected revision', (frame) => void frame.writeDoubleLE(1.5, 57), 'expects revision 1.5'],
    ['the number Infinity', (frame) => void frame.writeDoubleLE(Infinity, 36), 'has the number Infinity'],
    ['the number NaN', (frame) => void frame.writeDoubleLE(Number.NaN, 36), 'has the number NaN'],
    ['a negative number', (frame) => void frame.writeDoubleLE(-1, 36), 'has the number -1'],
    ['a seen position that is none', (frame) => void frame.writeDoubleLE(0.5, 44), 'has seen position 0.5'],
    ['another version', (frame) => void frame.writeUInt8(9, 8), 'has format 9'],
  ])('is refused as damaged with %s', (_, change, message) => {
    const frame = changed(change);
    expect(() => unframeAppend(frame)).toThrow(EngineDamaged);
    expect(() => unframeAppend(frame)).toThrow(message);
  });

  it('is read or refused as damaged, never with another error, with any byte changed and a checksum that fits', () => {
    const whole = frameAppend(two);
    for (let at = 8; at < headBytes + 40; at++) {
      for (const value of [0, 1, 127, 128, 255]) {
        const frame = changed((bytes) => void bytes.writeUInt8(value, at));
        try {
          unframeAppend(frame);
        } catch (error) {
          expect(error, `byte ${at} of ${whole.length} is ${value}`).toBeInstanceOf(EngineDamaged);
        }
      }
    }
  });
});
