/** The reader of server-sent events, beside another implementation. */
import { createParser } from 'eventsource-parser';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Comment, type ServerSentEvent, ServerSentEvents } from '../../dashboard/src/live/server-sent-events.ts';
import { countOf } from '../support/seed.ts';

function readAll(parts: readonly Uint8Array[]): (ServerSentEvent | Comment)[] {
  const reader = new ServerSentEvents();
  return parts.flatMap((part) => [...reader.read(part)]);
}

function divided(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((one, other) => one - other);
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
}

const lineEnd = fc.constantFrom('\n', '\r\n', '\r');
const line = fc.oneof(
  fc.constant(''),
  fc.constantFrom(
    'data',
    'data:',
    'data: ',
    'event: audit.started',
    'event:',
    'id: 12',
    'id',
    ':',
    ': comment',
    'retry: 5',
  ),
  fc.string({ unit: 'grapheme', maxLength: 8 }).map((text) => `data: ${text.replace(/[\r\n]/g, '')}`),
  fc.string({ maxLength: 6 }).map((text) => text.replace(/[\r\n]/g, '')),
);
const stream = fc.array(fc.tuple(line, lineEnd), { maxLength: 30 }).map((lines) => lines.flat().join(''));

describe('the reader of server-sent events', () => {
  it('returns the same events as another reader, however the bytes are divided', () => {
    fc.assert(
      fc.property(stream, fc.boolean(), fc.array(fc.nat(), { maxLength: 12 }), (text, hasMark, cuts) => {
        const bytes = new TextEncoder().encode(`${hasMark ? '\uFEFF' : ''}${text}`);
        const expected: [string | undefined, string, string][] = [];
        const parser = createParser({
          onEvent: ({ id, event, data }) => expected.push([id, event ?? 'message', data]),
        });
        parser.feed(text);
        const events = readAll(divided(bytes, cuts)).filter((item) => item.kind === 'event');
        expect(events.map(({ id, type, data }) => [id, type, data])).toEqual(expected);
      }),
      { numRuns: countOf(125, 500) },
    );
  });

  it('returns comments', () => {
    const bytes = new TextEncoder().encode(': the gateway is stopping\n\n');
    expect(readAll([bytes])).toEqual([{ kind: 'comment', text: 'the gateway is stopping' }]);
  });

  it('reads a line of 4 MB in 1 kB parts in time proportional to its length', () => {
    const bytes = new TextEncoder().encode(`data: ${'x'.repeat(4_000_000)}\n\n`);
    const parts = Array.from({ length: Math.ceil(bytes.length / 1024) }, (_, index) =>
      bytes.subarray(index * 1024, (index + 1) * 1024),
    );
    const startedAt = performance.now();
    expect(readAll(parts)).toHaveLength(1);
    expect(performance.now() - startedAt).toBeLessThan(3_000);
  });

  it('refuses a line without end', () => {
    const reader = new ServerSentEvents();
    const part = new Uint8Array(1024 * 1024).fill(120);
    expect(() => {
      for (let index = 0; index < 20; index += 1) [...reader.read(part)];
    }).toThrow('16 MiB');
  });
});
