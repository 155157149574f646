import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  namesOf,
  RecordReader,
  recordBound,
  recordEnd,
  recordIsOf,
  recordIsSound,
  recordStream,
  writeRecord,
} from '../../src/events/embedded/event-record.ts';
import { decodeFramePlaces, encodeFramePlaces } from '../../src/events/embedded/frame.ts';
import type { EventContext, NewEvent, StreamName } from '../../src/events/event.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import { CompiledFilter } from '../../src/events/log.ts';
import { countOf } from '../support/seed.ts';

const text = fc.oneof(fc.string(), fc.string({ unit: 'grapheme' }), fc.string({ unit: 'binary' }));
const wellFormed = fc.oneof(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme-ascii' }));
const context = fc.record(
  {
    actor: fc.constantFrom('master' as const, 'system' as const, 'key:ä' as const),
    requestId: text,
    correlationId: text,
    traceparent: fc.constant('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'),
  },
  { requiredKeys: ['actor'] },
);
const record = fc.record({
  type: wellFormed.filter((type) => Buffer.byteLength(type) < 256),
  schema: fc.integer({ min: 1, max: 65_535 }),
  stream: wellFormed.map((name) => name as StreamName),
  revision: fc.maxSafeNat(),
  at: fc.double({ noNaN: true }),
  data: fc.dictionary(text, fc.jsonValue()),
  context,
  body: fc.option(fc.uint8Array({ maxLength: 500 }), { nil: undefined }),
  before: fc.nat(20),
});

interface Written {
  readonly buffer: Buffer;
  readonly start: number;
  readonly end: number;
}

function written(event: NewEvent, stream: StreamName, revision: number, at: number, before = 0): Written {
  const data = JSON.stringify(event.data);
  const names = namesOf(stream, event.context);
  const length = (event.id?.length ?? 36) + event.type.length + names.length + data.length;
  const buffer = Buffer.alloc(before + recordBound(length, event.body?.length ?? 0), 0xee);
  return {
    buffer,
    start: before,
    end: writeRecord(buffer, before, { event, body: event.body, names, revision, at, data }),
  };
}

describe('the record of an event', () => {
  it('encodes and decodes every event, and ends where its length says', () => {
    const records = new RecordReader();
    fc.assert(
      fc.property(record, ({ type, schema, stream, revision, at, data, context, body, before }) => {
        const id = mintEventId();
        const { buffer, start, end } = written({ type, schema, data, context, body, id }, stream, revision, at, before);
        expect(recordEnd(buffer, start)).toBe(end);
        expect(recordIsSound(buffer, start, end)).toBe(true);
        expect(recordIsSound(buffer, start, end - 1)).toBe(false);
        expect(recordStream(buffer, start)).toBe(stream);
        expect(recordIsOf(buffer, start, Buffer.from(stream))).toBe(true);
        expect(recordIsOf(buffer, start, Buffer.from(`${stream}x`))).toBe(false);
        const event = records.read(buffer, start, 7);
        // what JSON keeps: -0 becomes 0
        const kept = { data: JSON.parse(JSON.stringify(data)), context: JSON.parse(JSON.stringify(context)) };
        expect(event).toEqual({
          id,
          type,
          schema,
          stream,
          revision: BigInt(revision),
          position: '0000000000000007',
          at,
          ...kept,
          body: body === undefined ? undefined : Buffer.from(body),
        });
      }),
      { numRuns: countOf(125, 500) },
    );
  });

  it('is refused for names that could not be read back unchanged', () => {
    const event = { type: 'thing.noted', schema: 1, data: {}, context: { actor: 'system' as const } };
    expect(() => written(event, 'thing-\ud800' as StreamName, 0, 0)).toThrow(RangeError);
    expect(() => written({ ...event, id: '\udc00' }, 'thing-a' as StreamName, 0, 0)).toThrow(RangeError);
    expect(() => written({ ...event, type: 't'.repeat(256) }, 'thing-a' as StreamName, 0, 0)).toThrow(RangeError);
    expect(() => written(event, `thing-${'s'.repeat(65_536)}` as StreamName, 0, 0)).toThrow(RangeError);
  });

  it('gives events of one exchange the same frozen context', () => {
    const records = new RecordReader();
    const event = {
      type: 'a.b',
      schema: 1,
      data: {},
      context: { actor: 'key:1', requestId: 'r' } satisfies EventContext,
    };
    const first = written(event, 's-1' as StreamName, 0, 0);
    const second = written(event, 's-2' as StreamName, 0, 0);
    const context = records.read(first.buffer, 0, 1)?.context;
    expect(records.read(second.buffer, 0, 2)?.context).toBe(context);
    expect(Object.isFrozen(context)).toBe(true);
  });

  it('keeps types apart, however many there are', () => {
    const records = new RecordReader();
    const types = Array.from({ length: 3_000 }, (_, n) => `family.happened_${n}`);
    const all = types.map((type) =>
      written({ type, schema: 1, data: {}, context: { actor: 'system' } }, 's-1' as StreamName, 0, 0),
    );
    for (let round = 0; round < 2; round++) {
      for (const [n, { buffer }] of all.entries()) expect(records.typeOf(buffer, 0)).toBe(types[n]);
    }
  });

  it('is skipped when the filter does not match', () => {
    const records = new RecordReader();
    const { buffer } = written(
      { type: 'a.b', schema: 1, data: {}, context: { actor: 'system' } },
      's-1' as StreamName,
      0,
      0,
    );
    const read = (filter: ConstructorParameters<typeof CompiledFilter>[0]) =>
      records.read(buffer, 0, 1, new CompiledFilter(filter))?.type;
    expect(read({})).toBe('a.b');
    expect(read({ types: ['a.'] })).toBe('a.b');
    expect(read({ types: ['a.'], streams: ['s-'] })).toBe('a.b');
    expect(read({ types: ['b.'] })).toBeUndefined();
    expect(read({ streams: ['t-'] })).toBeUndefined();
  });
});

describe('the places of frames', () => {
  it('are decoded unchanged, also past 2^32', () => {
    const pairs = fc.array(fc.tuple(fc.nat({ max: 2 ** 26 }), fc.maxSafeNat()), { maxLength: 50 });
    fc.assert(
      fc.property(pairs, (list) => {
        let offset = 0;
        let revision = 0;
        const frames = list.flatMap(([offsets, revisions]) => {
          offset += offsets;
          revision += Math.floor(revisions / 64);
          return [offset, revision];
        });
        expect(decodeFramePlaces(encodeFramePlaces(frames))).toEqual(frames);
      }),
    );
  });
});
