import { expect, it } from 'vitest';
import { encodeFrame, FrameReader } from '../../src/plugins/protocol/frames.ts';

const bounds = { depth: 3, values: 5 };

/** The contents, or the message of the error, when the frames arrive in pieces of this size. */
function read(frames: Buffer, size: number): unknown {
  const reader = new FrameReader(1000, bounds);
  const contents: unknown[] = [];
  try {
    for (let at = 0; at < frames.length; at += size) {
      contents.push(...reader.push(frames.subarray(at, at + size)));
    }
    return contents;
  } catch (error) {
    return error instanceof Error ? error.message : error;
  }
}

const sizes = [1, 2, 3, 5, 7, 1000];

it.each([
  ['as deep as allowed', { a: [{}] }],
  ['with as many values as allowed', { a: [1, 2, 3] }],
  ['brackets, commas and quotes in texts', { a: '[[[[{,,,,,,,"\\', '"\\\\[': ',,,,,,\\"' }],
])('a frame is read in pieces of any size: %s', (_name, message) => {
  const frames = Buffer.concat([encodeFrame(message, 1000), encodeFrame({ b: 1 }, 1000), encodeFrame(message, 1000)]);
  for (const size of sizes) expect(read(frames, size)).toEqual([message, { b: 1 }, message]);
});

it.each([
  ['too deep', { a: [{ b: [] }] }, 'is nested more than 3 deep'],
  ['with too many members', { a: 1, b: 2, c: 3, d: 4, e: 5, f: 6 }, 'has more than 5 values'],
  ['with too many empty objects', [{}, {}, {}], 'has more than 5 values'],
])('a frame is refused before it is parsed: %s', (_name, message, problem) => {
  const frames = Buffer.concat([encodeFrame({ b: 1 }, 1000), encodeFrame(message, 1000)]);
  for (const size of sizes) expect(read(frames, size)).toBe(`a frame ${problem}`);
  expect(() => encodeFrame(message, 1000, bounds)).toThrow(`a message ${problem}`);
});

it('a frame is refused before all of it has arrived', () => {
  const frame = encodeFrame({ a: [[[[[]]]]], b: 'x'.repeat(500) }, 1000);
  expect(read(frame.subarray(0, 20), 1000)).toBe('a frame is nested more than 3 deep');
});
