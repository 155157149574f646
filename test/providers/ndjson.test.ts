import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createLineSplitter, recordedFormat, streamFormatOf } from '../../src/providers/stream-frames.ts';

const split = (...pieces: (string | Buffer)[]) => {
  const splitter = createLineSplitter({ maxFrameBytes: 100, provider: 'p' });
  const frames = pieces.flatMap((piece) => splitter.push(Buffer.from(piece)));
  const last = splitter.end();
  return last === undefined ? frames : [...frames, last];
};

describe('lines of JSON', () => {
  test('are split, also where the last has no end', () => {
    expect(split('{"a":1}\n{"b"', ':2}\r\n\n{"c":3}').map(({ data }) => data)).toEqual([
      '{"a":1}',
      '{"b":2}',
      undefined,
      '{"c":3}',
    ]);
  });

  test('lose no byte, wherever they are cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.json({ maxDepth: 1 }).filter((line) => line.length < 90)),
        fc.infiniteStream(fc.nat(9)),
        (lines, cuts) => {
          const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
          const pieces: Buffer[] = [];
          for (let at = 0; at < bytes.length; ) {
            const end = at + 1 + Number(cuts.next().value);
            pieces.push(bytes.subarray(at, end));
            at = end;
          }
          const frames = split(...pieces);
          expect(Buffer.concat(frames.map(({ raw }) => raw))).toEqual(bytes);
          expect(frames.map(({ data }) => JSON.parse(data ?? ''))).toEqual(lines.map((line) => JSON.parse(line)));
        },
      ),
    );
  });

  test('may not be longer than allowed', () => {
    const failure = expect.objectContaining({ kind: 'too_large', provider: 'p' });
    expect(() => split('x'.repeat(101))).toThrow(failure);
    expect(() => split(`${'x'.repeat(60)}`, `${'x'.repeat(60)}\n`)).toThrow(failure);
  });
});

describe('the format of a stream', () => {
  test.each([
    ['text/event-stream; charset=utf-8', 'events'],
    ['Text/Event-Stream', 'events'],
    ['application/x-ndjson', 'lines'],
    ['application/ndjson; charset=utf-8', 'lines'],
    ['application/json', undefined],
    [undefined, undefined],
  ])('of type %s is %s', (type, format) => {
    expect(streamFormatOf(type === undefined ? {} : { 'content-type': type })).toBe(format);
  });

  test('on record is known by the dialect', () => {
    expect(recordedFormat('ollama_chat', 3)).toBe('events');
    expect(['chat', 'messages', 'ollama_chat', undefined].map((dialect) => recordedFormat(dialect))).toEqual([
      'events',
      'events',
      'lines',
      'events',
    ]);
  });
});
