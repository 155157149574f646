import { createParser } from 'eventsource-parser';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ProviderFailure } from '../../src/providers/provider.ts';
import { createFrameSplitter, dataOf, type Frame } from '../../src/providers/stream-frames.ts';
import { countOf } from '../support/seed.ts';
import { recorded, recordedBody } from './upstream.ts';

const maxFrameBytes = 1024 * 1024;

function framesOf(pieces: readonly Buffer[]): Frame[] {
  const splitter = createFrameSplitter({ maxFrameBytes });
  const frames = pieces.flatMap((piece) => splitter.push(piece));
  const last = splitter.end();
  return last === undefined ? frames : [...frames, last];
}

function frames(text: string): Frame[] {
  return framesOf([Buffer.from(text)]);
}

const facts = ({ raw, data, event }: Frame) => ({ raw: raw.toString(), data, event });

/** Cuts the bytes at the given places, taken modulo its length. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [...at, bytes.length].map((end, index) => bytes.subarray(at[index - 1] ?? 0, end));
}

describe('an event', () => {
  test('is its bytes and its data', () => {
    expect(frames('data: {"a":1}\n\ndata: [DONE]\n\n').map(facts)).toEqual([
      { raw: 'data: {"a":1}\n\n', data: '{"a":1}', event: undefined },
      { raw: 'data: [DONE]\n\n', data: '[DONE]', event: undefined },
    ]);
  });

  test('shares the memory of the piece it came in whole with', () => {
    const piece = Buffer.from('data: 1\n\ndata: 2\n\n');
    expect(framesOf([piece]).every(({ raw }) => raw.buffer === piece.buffer)).toBe(true);
  });

  test('may have a name and several data lines', () => {
    expect(facts(frames('event: response.created\ndata: a\ndata:b\ndata\n\n')[0] as Frame)).toEqual({
      raw: 'event: response.created\ndata: a\ndata:b\ndata\n\n',
      data: 'a\nb\n',
      event: 'response.created',
    });
  });

  test('loses one space after the colon and no more', () => {
    expect(frames('data:  two\n\ndata:none\n\n').map(({ data }) => data)).toEqual([' two', 'none']);
  });

  test('without data lines, like a comment, has no data', () => {
    expect(frames(': keep-alive\n\nevent: ping\n\nretry: 10\n\n\n').map(facts)).toEqual([
      { raw: ': keep-alive\n\n', data: undefined, event: undefined },
      { raw: 'event: ping\n\n', data: undefined, event: 'ping' },
      { raw: 'retry: 10\n\n', data: undefined, event: undefined },
      { raw: '\n', data: undefined, event: undefined },
    ]);
  });

  test('with an empty data line has empty data', () => {
    expect(frames('data:\n\ndata: \n\n').map(({ data }) => data)).toEqual(['', '']);
  });

  test.each([
    ['line feeds', '\n'],
    ['carriage returns and line feeds', '\r\n'],
    ['carriage returns', '\r'],
  ])('may be written with %s', (_name, end) => {
    const seen = frames(`event: e${end}data: ä${end}${end}data: 2${end}${end}`);
    expect(seen.map(({ data, event }) => [data, event])).toEqual([
      ['ä', 'e'],
      ['2', undefined],
    ]);
  });

  test('is complete with the carriage return of its blank line, before the line feed has come', () => {
    const splitter = createFrameSplitter({ maxFrameBytes });
    expect(splitter.push(Buffer.from('data: 1\r\n\r')).map(({ data }) => data)).toEqual(['1']);
    expect(splitter.push(Buffer.from('\ndata: 2\r\n\r\n')).map(facts)).toEqual([
      { raw: '\ndata: 2\r\n\r\n', data: '2', event: undefined },
    ]);
  });

  test('of which the stream ends with that line feed gets nothing more', () => {
    const splitter = createFrameSplitter();
    expect(splitter.push(Buffer.from('data: 1\r\n\r')).map(({ raw }) => String(raw))).toEqual(['data: 1\r\n\r']);
    expect(splitter.push(Buffer.from('\n'))).toEqual([]);
    expect(String(splitter.end()?.raw)).toBe('\n');
  });

  test('at the start may follow a byte order mark', () => {
    expect(framesOf([Buffer.from([0xef]), Buffer.from([0xbb, 0xbf]), Buffer.from('data: 1\n\n')])).toMatchObject([
      { data: '1' },
    ]);
  });

  test('that the stream ends in is read all the same, and gets the blank line it lacks', () => {
    expect(frames('data: 1\n\ndata: [DONE]').map(facts)).toEqual([
      { raw: 'data: 1\n\n', data: '1', event: undefined },
      { raw: 'data: [DONE]\n\n', data: '[DONE]', event: undefined },
    ]);
  });

  test('that is too long is a failure, whole or in pieces', () => {
    const attempt = (pieces: Buffer[]) => () => {
      const splitter = createFrameSplitter({ maxFrameBytes: 100, provider: 'local' });
      for (const piece of pieces) splitter.push(piece);
    };
    const long = Buffer.from(`data: ${'x'.repeat(200)}\n\n`);
    const endless = Buffer.from('x'.repeat(101));
    for (const pieces of [[long], cut(long, [50, 90, 120]), [endless], cut(endless, [10, 20])]) {
      expect(attempt(pieces)).toThrow(ProviderFailure);
      expect(attempt(pieces)).toThrow('it sent a stream event of more than 100 bytes');
    }
    expect(attempt([Buffer.from('data: 1\n\n'.repeat(1000))])).not.toThrow();
  });

  test('in the recorded stream of llama.cpp is found by its bytes', () => {
    const seen = frames(recordedBody(recorded('chat.stream')));
    expect(seen.at(-1)?.data).toBe('[DONE]');
    const text = seen
      .slice(0, -1)
      .map(({ data }) => JSON.parse(data ?? '').choices[0]?.delta.content ?? '')
      .join('');
    expect(text).toBe('再 kernelakлович Lewis своей supporting Bret');
  });
});

describe('however a stream is cut into pieces', () => {
  const lineEnd = fc.constantFrom('\n', '\r\n', '\r');
  const text = fc.string({
    unit: fc.constantFrom('a', ' ', ':', 'ä', '😀', '{', '"', '\u2028', '\ufeff'),
    maxLength: 8,
  });
  const line = fc.oneof(
    fc
      .tuple(fc.constantFrom('data', 'event', 'id', 'retry', 'other', ''), text)
      .map(([name, value]) => `${name}:${value}`),
    fc.constantFrom('data', 'event', ':', ''),
    text,
  );
  const stream = fc
    .tuple(fc.constantFrom('', '\ufeff'), fc.array(fc.tuple(line, lineEnd), { maxLength: 30 }))
    .map(([mark, lines]) => Buffer.from(mark + lines.flat().join('')));
  const places = fc.array(fc.nat(), { maxLength: 20 });

  test('no byte is lost or moved', () => {
    fc.assert(
      fc.property(stream, places, (bytes, at) => {
        const all = Buffer.concat(framesOf(cut(bytes, at)).map(({ raw }) => raw));
        expect(all.subarray(0, bytes.length)).toEqual(bytes);
        expect(['', '\n', '\n\n']).toContain(all.subarray(bytes.length).toString());
      }),
    );
  });

  test('the events are those that a parser by the standard finds', () => {
    fc.assert(
      fc.property(stream, places, (bytes, at) => {
        const expected: [string, string | undefined][] = [];
        const parser = createParser({ onEvent: ({ data, event }) => expected.push([data, event]) });
        // A blank line at the end, so that both see the last event; and a line before it that both ignore.
        const whole = Buffer.concat([bytes, Buffer.from('\n\n:\n\n')]);
        parser.feed(whole.toString());
        const seen = framesOf(cut(whole, at)).filter(({ data }) => data !== undefined);
        expect(seen.map(({ data, event }) => [data, event])).toEqual(expected);
      }),
      { numRuns: countOf(125, 500) },
    );
  });
});

describe('runs of events that need not be read', () => {
  const isRead = /"usage"|"error"/g;
  const pattern = { start: 'data: {', isRead };
  const object = fc.constantFrom('{"a":1}', '{"b":"ä€😀"}', '{"usage":{}}', '{"c":"\\n"}', '{}', '{"error":1}');
  const event = fc.oneof(
    { weight: 6, arbitrary: object.map((data) => `data: ${data}\n\n`) },
    { weight: 4, arbitrary: object.map((data) => `event: e\ndata: ${data}\n\n`) },
    {
      weight: 3,
      arbitrary: fc
        .tuple(
          fc.constantFrom('data: ', 'data:', 'data: x', ': ', 'event: e\ndata: '),
          object,
          fc.constantFrom('\n', '\r', '\r\n', '\n\n\n'),
        )
        .map(([field, data, end]) => `${field}${data}${end}${end}`),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        'data: [DONE]\n\n',
        '\ufeffdata: {}\n\n',
        'data: {"a":1}\n',
        '\n',
        'data: {\r"a":1}\n\n',
      ),
    },
  );

  test.each([
    { start: 'data: {', event: undefined },
    { start: 'event: e\ndata: {', event: 'e' },
  ])('are the same events as those that are read one by one, wherever the pieces are cut: $start', (begins) => {
    const { start } = begins;
    fc.assert(
      fc.property(fc.array(event, { maxLength: 12 }), fc.array(fc.nat(), { maxLength: 5 }), (events, places) => {
        const pieces = cut(Buffer.from(events.join('')), places);
        const splitter = createFrameSplitter({ maxFrameBytes });
        const found = pieces.flatMap((piece) => splitter.pushRuns(piece, { start, isRead }));
        const last = splitter.end();
        const single = (last === undefined ? found : [...found, last]).flatMap((frame) => {
          if (!('ends' in frame)) return facts(frame);
          expect(frame.raw.toString()).not.toMatch(/"usage"|"error"/);
          const raws = frame.ends.map((end, index) => frame.raw.toString('utf8', frame.ends[index - 1] ?? 0, end));
          const datas = raws.map((raw) => raw.slice(start.length - 1, -2));
          expect([...dataOf(frame, { start, isRead })]).toEqual(datas);
          return raws.map((raw, index) => ({ raw, data: datas[index], event: begins.event }));
        });
        expect(single).toEqual(framesOf(pieces).map(facts));
      }),
      { numRuns: 1_000 },
    );
  });

  test('are one run in one piece', () => {
    const piece = Buffer.from('data: {"a":1}\n\ndata: {"a":2}\n\ndata: {"usage":1}\n\ndata: {"a":3}\n\n');
    const found = createFrameSplitter({ maxFrameBytes }).pushRuns(piece, pattern);
    expect(found.map((frame) => ('ends' in frame ? frame.ends : frame.data))).toEqual([[15, 30], '{"usage":1}', [15]]);
  });

  test('are looked for once in a piece, however often other events lie between them', () => {
    let searches = 0;
    class Counted extends RegExp {
      override exec(text: string) {
        searches += 1;
        return super.exec(text);
      }
    }
    const piece = Buffer.from('data: {}\n\n: still here\n\n'.repeat(1000));
    const found = createFrameSplitter({ maxFrameBytes }).pushRuns(piece, {
      ...pattern,
      isRead: new Counted(isRead.source, 'g'),
    });
    expect(found).toHaveLength(2000);
    expect(searches).toBe(1);
  });

  test('have no event that is too long', () => {
    const splitter = createFrameSplitter({ maxFrameBytes: 20 });
    expect(() => splitter.pushRuns(Buffer.from(`data: {"a":"${'x'.repeat(20)}"}\n\n`), pattern)).toThrow(
      ProviderFailure,
    );
  });
});
