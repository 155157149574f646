/** The contract of every engine of the log, as a suite. An engine runs it with a function that makes an empty log. */
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type EventContext,
  formatPosition,
  type NewEvent,
  type Position,
  parsePosition,
  type RecordedEvent,
  START,
  type StreamName,
  streamName,
} from '../../src/events/event.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import { eventToJson } from '../../src/events/event-json.ts';
import {
  type CaughtUp,
  type EventFilter,
  EventIdReused,
  type EventLog,
  EventTooLarge,
  type ExpectedRevision,
  type LogCapabilities,
  LogUnavailable,
  type ReadStreamOptions,
  type StreamWrite,
  WrongExpectedRevision,
} from '../../src/events/log.ts';
import { countOf } from '../support/seed.ts';

export interface LogUnderTest {
  readonly log: EventLog;
  /** Closes the log, if it is still open, and removes all traces. */
  dispose(): Promise<void>;
}

const context: EventContext = { actor: 'master', userPath: undefined, requestId: 'r-1' };

export function noted(data: object = {}, more: Partial<NewEvent> = {}): NewEvent {
  return { type: 'thing.noted', schema: 1, data, context, ...more };
}

export function write(
  stream: StreamName,
  expectedRevision: ExpectedRevision,
  ...events: readonly NewEvent[]
): StreamWrite {
  return { stream, expectedRevision, events };
}

export async function collect<Item>(items: AsyncIterable<Item>, count = Number.POSITIVE_INFINITY): Promise<Item[]> {
  const collected: Item[] = [];
  if (count <= 0) return collected;
  for await (const item of items) {
    collected.push(item);
    if (collected.length >= count) break;
  }
  return collected;
}

export function isEvent(item: RecordedEvent | CaughtUp): item is RecordedEvent {
  return item.type !== '$caughtUp';
}

/** What a subscription yields up to its first CaughtUp with the position or a later one, which is included. */
export async function itemsUntil(
  items: AsyncIterator<RecordedEvent | CaughtUp>,
  position: string,
): Promise<(RecordedEvent | CaughtUp)[]> {
  const seen: (RecordedEvent | CaughtUp)[] = [];
  for (;;) {
    const { value, done } = await items.next();
    if (done) throw new Error('the subscription has ended');
    seen.push(value);
    if (!isEvent(value) && value.position >= position) return seen;
  }
}

function numbersOf(events: readonly RecordedEvent[]): unknown[] {
  return events.map((event) => (event.data as { n: number }).n);
}

function beyondHead(head: Position, events: number): Position {
  return formatPosition(parsePosition(head) + events);
}

/** @param capabilities those that the engine must have; cases for a capability that it lacks are skipped */
export function eventLogContract(
  name: string,
  capabilities: LogCapabilities,
  create: () => Promise<LogUnderTest>,
): void {
  describe(`the event log contract: ${name}`, () => {
    let log: EventLog;
    let dispose: () => Promise<void>;
    const a = streamName('thing', 'a');
    const b = streamName('thing', 'b');

    beforeEach(async () => {
      ({ log, dispose } = await create());
    });
    afterEach(() => dispose());

    const appendNumbers = async (stream: StreamName, from: number, count: number): Promise<void> => {
      for (let n = from; n < from + count; n++) await log.append([write(stream, 'any', noted({ n }))]);
    };

    it('has the capabilities it is tested for', () => {
      expect(log.capabilities).toEqual(capabilities);
    });

    describe('append', () => {
      it('numbers the events of a stream from 0 without gaps, and returns their positions', async () => {
        const first = await log.append([write(a, 'noStream', noted({ n: 0 }), noted({ n: 1 }))]);
        const second = await log.append([write(a, 1n, noted({ n: 2 }))]);
        const events = await collect(log.readStream(a));
        expect(events.map((event) => event.revision)).toEqual([0n, 1n, 2n]);
        expect(first.revisions).toEqual([1n]);
        expect(second.revisions).toEqual([2n]);
        expect(events[1]?.position).toBe(first.position);
        expect(events[2]?.position).toBe(second.position);
        expect(await log.head()).toBe(second.position);
      });

      it('numbers all events of the log from 1 without gaps; refused and repeated appends use no position', async () => {
        const repeated = [write(a, 'noStream', noted({ n: 0 }, { id: mintEventId() }))];
        await log.append(repeated);
        await log.append([write(b, 'any', noted({ n: 1 }), noted({ n: 2 })), write(a, 0n, noted({ n: 3 }))]);
        await log.append(repeated);
        await expect(log.append([write(a, 'noStream', noted())])).rejects.toBeInstanceOf(WrongExpectedRevision);
        const { position } = await log.append([write(b, 1n, noted({ n: 4 }), noted({ n: 5 }))]);
        const events = await collect(log.readAll());
        expect(events.map((event) => BigInt(event.position))).toEqual([1n, 2n, 3n, 4n, 5n, 6n]);
        expect(numbersOf(events)).toEqual([0, 1, 2, 3, 4, 5]);
        expect(position).toBe(events[5]?.position);
      });

      it('numbers the events of appends that were made at the same time, each append without gaps', async () => {
        const counts = Array.from({ length: 60 }, (_, n) => (n % 4) + 1);
        const appends = counts.map((count, n) =>
          log.append([
            write(streamName('thing', String(n % 5)), 'any', ...Array.from({ length: count }, () => noted({ n }))),
          ]),
        );
        const last = (await Promise.all(appends)).map(({ position }) => BigInt(position));
        const events = await collect(log.readAll());
        expect(events.map(({ position }) => BigInt(position))).toEqual(events.map((_, index) => BigInt(index) + 1n));
        for (const [n, count] of counts.entries()) {
          const own = events.filter((event) => (event.data as { n: number }).n === n);
          const first = (last[n] ?? 0n) - BigInt(count) + 1n;
          expect(own.map(({ position }) => BigInt(position))).toEqual(own.map((_, index) => first + BigInt(index)));
          expect(own).toHaveLength(count);
        }
      });

      it('has positions that are strings of digits in JSON, in events, answers and the status', async () => {
        const appended = await log.append([write(a, 'noStream', noted())]);
        const [event] = await collect(log.readAll());
        if (event === undefined) throw new Error('there is one event');
        const head = await log.head();
        const { durableHead } = log.status();
        const json = JSON.parse(
          JSON.stringify({ event: eventToJson(event), position: appended.position, head, durableHead }),
        );
        expect(json).toMatchObject({ event: { position: head }, position: head, head });
        for (const position of [json.event.position, json.durableHead]) expect(position).toMatch(/^\d{1,20}$/);
      });

      it('reads every event unchanged', async () => {
        const at = 1_700_000_000_123.25;
        const id = mintEventId();
        const full: EventContext = {
          actor: 'key:k1',
          userPath: '/acme/research' as EventContext['userPath'],
          requestId: 'client says ☂',
          correlationId: 'c',
          causationId: 'd',
          traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        };
        const data = {
          text: 'naïve ☂ 𝔘nicode \u0000 "quoted" \\ \ud83d\ude00',
          list: [1, null, { deep: true }],
          n: -0.5,
        };
        const body = Buffer.from([0, 255, 10, 13]);
        await log.append([write(a, 'noStream', { type: 'thing.noted', schema: 3, data, context: full, body, id, at })]);
        const [event] = await collect(log.readAll());
        expect(event).toMatchObject({ id, at, type: 'thing.noted', schema: 3, stream: a, context: full, data });
        expect(Buffer.from(event?.body ?? [])).toEqual(body);
      });

      it('mints a UUIDv7 and takes the time when they are not given', async () => {
        const before = Date.now();
        await log.append([write(a, 'any', noted(), noted())]);
        const [first, second] = await collect(log.readAll());
        expect(first?.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        expect(String(second?.id) > String(first?.id)).toBe(true);
        expect(first?.at).toBeGreaterThanOrEqual(before - 5);
        expect(first?.at).toBeLessThanOrEqual(Date.now() + 5);
      });

      const bodySizes = [0, 1, 300, 70_000, 5_000_000];
      it('keeps bodies of any size unchanged', async () => {
        for (const size of bodySizes.filter((size) => size < capabilities.maxEventBytes)) {
          const body = Buffer.alloc(size);
          for (let index = 0; index < size; index++) body[index] = (index * 131 + (index >> 8)) & 255;
          const stream = streamName('thing', String(size));
          await log.append([write(stream, 'any', noted({}, { body }))]);
          const [event] = await collect(log.readStream(stream));
          expect(Buffer.compare(Buffer.from(event?.body ?? 'none'), body), `${size} bytes`).toBe(0);
        }
      });

      it('distinguishes an empty body from none', async () => {
        await log.append([write(a, 'any', noted({}, { body: new Uint8Array(0) }), noted())]);
        const [empty, none] = await collect(log.readStream(a));
        expect(empty?.body?.length).toBe(0);
        expect(none?.body).toBeUndefined();
      });

      it('keeps all 256 byte values, from a view into a larger buffer', async () => {
        const bytes = Uint8Array.from({ length: 258 }, (_, index) => (index - 1) & 255);
        await log.append([write(a, 'any', noted({}, { body: bytes.subarray(1, 257) }))]);
        const [event] = await collect(log.readAll());
        expect([...(event?.body ?? [])]).toEqual(Array.from({ length: 256 }, (_, index) => index));
      });

      it('records one event for each part of a body, with consecutive numbers', async () => {
        const bytes = Buffer.from('.....first+second++third'.repeat(5));
        const ends = Array.from({ length: 12 }, (_, part) => 5 + part * 9);
        const parts: NewEvent = { ...noted({ n: 1, index: 7 }, { body: bytes }), bodyEnds: ends };
        const bodiless: NewEvent = { ...noted({ index: 98 }), bodyEnds: [1, 2, 3] };
        const appended = await log.append([write(a, 'noStream', noted({ n: 0 }), parts, bodiless, noted({ n: 2 }))]);
        const after = await log.append([write(a, 16n, noted({ n: 3 }))]);
        const events = await collect(log.readStream(a));
        expect(events.map(({ data }) => data)).toEqual([
          { n: 0 },
          ...ends.map((_, part) => ({ n: 1, index: 7 + part })),
          ...[98, 99, 100].map((index) => ({ index })),
          { n: 2 },
          { n: 3 },
        ]);
        const bodies = ends.map((end, part) => bytes.subarray(ends[part - 1] ?? 0, end));
        expect(events.map(({ body }) => body)).toEqual([undefined, ...bodies, ...Array(5).fill(undefined)]);
        expect(events.map(({ revision }) => Number(revision))).toEqual(events.map((_, revision) => revision));
        expect(appended.revisions).toEqual([16n]);
        expect(appended.position).toBe(events[16]?.position);
        expect(after.position).toBe(events[17]?.position);
        const ids = events.map(({ id }) => id);
        for (const id of ids)
          expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        expect([...ids].sort()).toEqual(ids);
        expect(new Set(ids).size).toBe(ids.length);
        for (const { context, at, type, schema } of events.slice(1, 16)) {
          expect(events[1]).toMatchObject({ context, at, type, schema });
        }
      });

      it('has the content of the moment of the call, also when the caller changes it afterwards', async () => {
        const data = { n: 1 };
        const body = Buffer.from('before');
        const appended = log.append([write(a, 'any', noted(data, { body }))]);
        data.n = 2;
        body.write('after!');
        await appended;
        const [event] = await collect(log.readAll());
        expect(event?.data).toEqual({ n: 1 });
        expect(String(event?.body)).toBe('before');
      });

      it('keeps stream names apart that share a prefix or are not ASCII', async () => {
        const names = ['thing-a', 'thing-ab', 'thing-ä', 'thing-☂', 'thing-', 'thing'].map(
          (text) => text as StreamName,
        );
        for (const [n, stream] of names.entries()) await log.append([write(stream, 'noStream', noted({ n }))]);
        for (const [n, stream] of names.entries()) {
          const events = await collect(log.readStream(stream));
          expect(events.map((event) => [event.stream, event.data])).toEqual([[stream, { n }]]);
        }
      });

      it("makes an append durable and visible that was awaited until 'written' only, without another append", async () => {
        const subscription = log.subscribe()[Symbol.asyncIterator]();
        const { position, revisions } = await log.append([write(a, 'any', noted({ n: 1 }))], { until: 'written' });
        const seen = await itemsUntil(subscription, position);
        expect(seen.filter(isEvent)).toMatchObject([{ position, revision: revisions[0], data: { n: 1 } }]);
        expect(await log.head()).toBe(position);
        await subscription.return?.();
      });

      it("orders appends awaited until 'written' before later appends", async () => {
        const { position } = await log.append([write(a, 'any', noted({ n: 1 }))], { until: 'written' });
        const later = await log.append([write(a, 'any', noted({ n: 2 }))]);
        const events = await collect(log.readAll());
        expect(numbersOf(events)).toEqual([1, 2]);
        expect(events.map((event) => event.position)).toEqual([position, later.position]);
      });

      it('refuses an event that is too large, whole, and accepts later ones', async () => {
        const { maxEventBytes } = log.capabilities;
        const body = new Uint8Array(maxEventBytes + 1);
        const tooLarge = log.append([write(a, 'any', noted({ n: 0 }), noted({ n: 1 }, { body }))]);
        await expect(tooLarge).rejects.toBeInstanceOf(EventTooLarge);
        await log.append([write(a, 'noStream', noted({ n: 2 }))]);
        expect(numbersOf(await collect(log.readAll()))).toEqual([2]);
      });

      it('refuses data that is not JSON, whole, and accepts later events', async () => {
        const circular: { n: number; self?: unknown } = { n: 0 };
        circular.self = circular;
        await expect(log.append([write(a, 'any', noted({ n: 1 }), noted(circular))])).rejects.toThrow();
        await log.append([write(a, 'noStream', noted({ n: 2 }))]);
        expect(numbersOf(await collect(log.readAll()))).toEqual([2]);
      });

      it('keeps the order of appends that were not awaited', async () => {
        const appends = Array.from({ length: 500 }, (_, n) => log.append([write(a, 'any', noted({ n }))]));
        const positions = (await Promise.all(appends)).map(({ position }) => position);
        expect(positions).toEqual(positions.toSorted());
        expect(numbersOf(await collect(log.readStream(a)))).toEqual(appends.map((_, n) => n));
      });
    });

    describe('expected revisions', () => {
      const outcomes: [ExpectedRevision, number, boolean][] = [
        ['any', 0, true],
        ['any', 2, true],
        ['noStream', 0, true],
        ['noStream', 2, false],
        ['exists', 0, false],
        ['exists', 2, true],
        [0n, 0, false],
        [0n, 2, false],
        [1n, 2, true],
        [2n, 2, false],
        [-1n, 0, false],
      ];
      it('are compared with the revision of the stream', async () => {
        for (const [at, [expected, count, accepted]] of outcomes.entries()) {
          const stream = streamName('thing', String(at));
          await appendNumbers(stream, 0, count);
          const append = log.append([write(stream, expected, noted({ n: count }))]);
          if (accepted) {
            expect((await append).revisions, String(expected)).toEqual([BigInt(count)]);
          } else {
            const error = await append.catch((reason: unknown) => reason);
            expect(error, String(expected)).toBeInstanceOf(WrongExpectedRevision);
            const actual = count === 0 ? undefined : BigInt(count - 1);
            expect(error).toMatchObject({ code: 'wrong_expected_revision', stream, expected, actual });
          }
          const filter = { streams: [stream] };
          expect(await collect(log.readAll({ filter }))).toHaveLength(accepted ? count + 1 : count);
        }
      });

      it('lets one of many concurrent appends with the same expectation win', async () => {
        const attempts = Array.from({ length: 20 }, (_, n) => log.append([write(a, 'noStream', noted({ n }))]));
        const results = await Promise.allSettled(attempts);
        expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
        expect(await collect(log.readStream(a))).toHaveLength(1);
      });
    });

    describe('an append of events with ids', () => {
      const withIds = (...numbers: number[]) => numbers.map((n) => noted({ n }, { id: mintEventId() }));

      it('records them once when it is repeated, and returns their positions', async () => {
        const writes = [write(a, 'any', ...withIds(0, 1)), write(b, 'any', ...withIds(2))];
        const first = await log.append(writes);
        await appendNumbers(a, 3, 1);
        expect(await log.append(writes)).toEqual(first);
        expect(numbersOf(await collect(log.readAll()))).toEqual([0, 1, 2, 3]);
      });

      it('records them once when it is made again before the first one is durable', async () => {
        const writes = [write(a, 'noStream', ...withIds(0, 1))];
        const stages = ['written', 'durable', 'written'] as const;
        const appended = await Promise.all(stages.map((until) => log.append(writes, { until })));
        expect(new Set(appended.map(({ position }) => position)).size).toBe(1);
        expect(numbersOf(await collect(log.readAll()))).toEqual([0, 1]);
      });

      it('is refused when only some of them were recorded before, or with others', async () => {
        const [zero, one, two] = withIds(0, 1, 2);
        if (zero === undefined || one === undefined || two === undefined) throw new Error('there are three');
        await log.append([write(a, 'any', zero, one)]);
        for (const events of [[zero], [one, two], [zero, one, two], [zero, one, noted({ n: 3 })]]) {
          await expect(log.append([write(a, 'any', ...events)])).rejects.toBeInstanceOf(EventIdReused);
        }
        await log.append([write(a, 'any', two)]);
        expect(numbersOf(await collect(log.readAll()))).toEqual([0, 1, 2]);
      });

      it('may be made again when it was refused', async () => {
        const events = withIds(0);
        await expect(log.append([write(a, 'exists', ...events)])).rejects.toBeInstanceOf(WrongExpectedRevision);
        await log.append([write(a, 'noStream', ...events)]);
        expect(numbersOf(await collect(log.readAll()))).toEqual([0]);
      });
    });

    describe('an append to several streams', () => {
      it('puts all its events next to each other, in the order given', async () => {
        const { revisions } = await log.append([
          write(a, 'noStream', noted({ n: 0 }), noted({ n: 1 })),
          write(b, 'noStream', noted({ n: 2 })),
        ]);
        expect(revisions).toEqual([1n, 0n]);
        expect(numbersOf(await collect(log.readAll()))).toEqual([0, 1, 2]);
      });

      it.skipIf(!capabilities.atomicMultiStream)('changes nothing when one of its writes is refused', async () => {
        await appendNumbers(b, 0, 1);
        const append = log.append([write(a, 'noStream', noted({ n: 1 })), write(b, 'noStream', noted({ n: 2 }))]);
        await expect(append).rejects.toBeInstanceOf(WrongExpectedRevision);
        expect(numbersOf(await collect(log.readAll()))).toEqual([0]);
        await log.append([write(a, 'noStream', noted({ n: 3 })), write(b, 0n, noted({ n: 4 }))]);
        expect(numbersOf(await collect(log.readAll()))).toEqual([0, 3, 4]);
      });

      it.skipIf(!capabilities.atomicMultiStream)(
        'checks a second write to the same stream after the first',
        async () => {
          const { revisions } = await log.append([
            write(a, 'noStream', noted({ n: 0 })),
            write(b, 'noStream', noted({ n: 1 })),
            write(a, 0n, noted({ n: 2 })),
          ]);
          expect(revisions).toEqual([0n, 0n, 1n]);
          expect(numbersOf(await collect(log.readStream(a)))).toEqual([0, 2]);
        },
      );
    });

    describe('readStream', () => {
      describe('of a stream that does not exist', () => {
        const everyOptions: readonly ReadStreamOptions[] = [
          {},
          { fromRevision: 0n },
          { fromRevision: 7n },
          { maxCount: 0 },
          { maxCount: 1 },
          { direction: 'backwards' },
          { direction: 'backwards', maxCount: 1 },
          { direction: 'backwards', fromRevision: 7n },
          { direction: 'backwards', fromRevision: 0n, maxCount: 3 },
        ];

        it('yields nothing with any options, in an empty log and beside other streams', async () => {
          for (const options of everyOptions) expect(await collect(log.readStream(a, options))).toEqual([]);
          await appendNumbers(b, 0, 3);
          for (const options of everyOptions) expect(await collect(log.readStream(a, options))).toEqual([]);
        });

        it('yields nothing after a refused append to it', async () => {
          await expect(log.append([write(a, 'exists', noted())])).rejects.toBeInstanceOf(WrongExpectedRevision);
          expect(await collect(log.readStream(a))).toEqual([]);
        });
      });

      const selections: readonly (readonly [ReadStreamOptions, readonly number[]])[] = [
        [{}, [0, 1, 2, 3, 4]],
        [{ fromRevision: 3n }, [3, 4]],
        [{ fromRevision: 5n }, []],
        [{ maxCount: 2 }, [0, 1]],
        [{ maxCount: 0 }, []],
        [{ fromRevision: 1n, maxCount: 2 }, [1, 2]],
        [{ direction: 'backwards' }, [4, 3, 2, 1, 0]],
        [{ direction: 'backwards', maxCount: 1 }, [4]],
        [{ direction: 'backwards', fromRevision: 2n }, [2, 1, 0]],
        [{ direction: 'backwards', fromRevision: 2n, maxCount: 2 }, [2, 1]],
        [{ direction: 'backwards', fromRevision: 99n, maxCount: 1 }, [4]],
      ];

      it('begins and ends where the options say, in either direction', async () => {
        for (let n = 0; n < 5; n++) {
          await log.append([write(a, 'any', noted({ n })), write(b, 'any', noted({ n: 100 + n }))]);
        }
        for (const [options, expected] of selections) {
          expect({ options, read: numbersOf(await collect(log.readStream(a, options))) }).toEqual({
            options,
            read: expected,
          });
        }
      });
    });

    describe('readAll', () => {
      it('yields nothing from an empty log', async () => {
        expect(await collect(log.readAll())).toEqual([]);
        expect(await log.head()).toBe(START);
      });

      it('continues after a position, up to a number of events', async () => {
        await appendNumbers(a, 0, 6);
        const all = await collect(log.readAll());
        const after = all[1]?.position;
        expect(numbersOf(await collect(log.readAll({ after })))).toEqual([2, 3, 4, 5]);
        expect(numbersOf(await collect(log.readAll({ after, maxCount: 2 })))).toEqual([2, 3]);
        expect(numbersOf(await collect(log.readAll({ after: START, maxCount: 1 })))).toEqual([0]);
        expect(await collect(log.readAll({ after: await log.head() }))).toEqual([]);
      });

      it('yields nothing after a position beyond the head, and goes on after that position once it exists', async () => {
        await appendNumbers(a, 0, 3);
        const after = beyondHead(await log.head(), 2);
        expect(await collect(log.readAll({ after }))).toEqual([]);
        await appendNumbers(a, 3, 4);
        expect(numbersOf(await collect(log.readAll({ after })))).toEqual([5, 6]);
      });

      it('has positions that sort as strings in the order of the log', async () => {
        await log.append([write(a, 'any', ...Array.from({ length: 120 }, (_, n) => noted({ n })))]);
        const positions = (await collect(log.readAll())).map(({ position }) => position as string);
        expect(positions).toEqual(positions.toSorted());
        expect(new Set([...positions, START]).size).toBe(121);
        expect(START < String(positions[0])).toBe(true);
      });

      const filters: readonly (readonly [EventFilter, readonly number[]])[] = [
        [{ types: ['thing.noted'] }, [0, 2]],
        [{ types: ['thing.'] }, [0, 1, 2]],
        [{ types: ['thing.', 'other.done'] }, [0, 1, 2, 3]],
        [{ types: ['thing'] }, []],
        [{ types: [] }, []],
        [{ streams: ['thing-a'] }, [0, 3]],
        [{ streams: ['thing-'] }, [0, 1, 2, 3]],
        [{ streams: ['other-', 'thing-b'] }, [1, 2]],
        [{ types: ['thing.noted'], streams: ['thing-a'] }, [0]],
      ];

      it('filters by types and streams', async () => {
        await log.append([
          write(a, 'any', noted({ n: 0 })),
          write(b, 'any', noted({ n: 1 }, { type: 'thing.lost' }), noted({ n: 2 })),
          write(a, 'any', noted({ n: 3 }, { type: 'other.done' })),
        ]);
        for (const [filter, expected] of filters) {
          expect({ filter, read: numbersOf(await collect(log.readAll({ filter }))) }).toEqual({
            filter,
            read: expected,
          });
        }
      });

      it('ends when it is aborted', async () => {
        await appendNumbers(a, 0, 5);
        const abort = new AbortController();
        const seen: unknown[] = [];
        for await (const event of log.readAll({ signal: abort.signal })) {
          seen.push((event.data as { n: number }).n);
          if (seen.length === 2) abort.abort();
        }
        expect(seen).toEqual([0, 1]);
      });

      it('refuses a malformed position', async () => {
        await expect(async () => collect(log.readAll({ after: 'nonsense' as typeof START }))).rejects.toThrow(
          /nonsense/,
        );
      });
    });

    describe('subscribe', () => {
      it('yields existing events, then $caughtUp, then new events', async () => {
        await appendNumbers(a, 0, 3);
        const subscription = log.subscribe()[Symbol.asyncIterator]();
        const next = async () => (await subscription.next()).value;
        for (let n = 0; n < 3; n++) expect(await next()).toMatchObject({ data: { n } });
        expect(await next()).toEqual({ type: '$caughtUp', position: await log.head() });
        const waiting = next();
        await log.append([write(a, 'any', noted({ n: 3 }))]);
        expect(await waiting).toMatchObject({ data: { n: 3 } });
        expect(await next()).toEqual({ type: '$caughtUp', position: await log.head() });
        await subscription.return?.();
        expect((await subscription.next()).done).toBe(true);
      });

      it('yields $caughtUp at once for an empty log', async () => {
        const [first] = await collect(log.subscribe(), 1);
        expect(first).toEqual({ type: '$caughtUp', position: START });
      });

      it('begins after a position, and filters while catching up and live', async () => {
        await appendNumbers(a, 0, 4);
        const [, second] = await collect(log.readAll());
        const subscription = log.subscribe({ after: second?.position, filter: { types: ['thing.noted'] } });
        const seen: unknown[] = [];
        let live = false;
        for await (const item of subscription) {
          if (isEvent(item)) {
            seen.push((item.data as { n: number }).n);
            if (seen.includes(5)) break;
          } else if (!live) {
            live = true;
            await log.append([write(a, 'any', noted({ n: 4 }, { type: 'thing.lost' }), noted({ n: 5 }))]);
          }
        }
        expect(seen).toEqual([2, 3, 5]);
      });

      it('begins after a position beyond the head once it exists', async () => {
        await appendNumbers(a, 0, 3);
        const after = beyondHead(await log.head(), 2);
        const subscription = log.subscribe({ after })[Symbol.asyncIterator]();
        expect(await subscription.next()).toEqual({ value: { type: '$caughtUp', position: after }, done: false });
        await appendNumbers(a, 3, 4);
        const seen = await itemsUntil(subscription, await log.head());
        expect(numbersOf(seen.filter(isEvent))).toEqual([5, 6]);
        await subscription.return?.();
      });

      it('yields $caughtUp with its position although its filter matched no event', async () => {
        const filter = { types: ['never.'] };
        const live = log.subscribe({ filter })[Symbol.asyncIterator]();
        expect(await live.next()).toEqual({ value: { type: '$caughtUp', position: START }, done: false });
        await appendNumbers(a, 0, 3);
        const head = await log.head();
        const seen = await itemsUntil(live, head);
        expect(seen.filter(isEvent)).toEqual([]);
        expect(seen.at(-1)).toEqual({ type: '$caughtUp', position: head });
        expect(await collect(log.subscribe({ filter }), 1)).toEqual([{ type: '$caughtUp', position: head }]);
        await live.return?.();
      });

      it('shows every event once and in order to subscribers that join in the middle of many appends', async () => {
        const total = 3_000;
        const subscribers: Promise<unknown[]>[] = [];
        const last = { n: total - 1 };
        const follow = async () => {
          const seen: unknown[] = [];
          for await (const item of log.subscribe()) {
            if (!isEvent(item)) continue;
            const { n } = item.data as { n: number };
            seen.push(n);
            if (n === last.n) break;
          }
          return seen;
        };
        const appends: Promise<unknown>[] = [];
        for (let n = 0; n < total; n++) {
          appends.push(log.append([write(streamName('thing', String(n % 7)), 'any', noted({ n }))]));
          if (n % 500 === 250) {
            subscribers.push(follow());
            await appends.at(-1);
          }
        }
        await Promise.all(appends);
        const expected = Array.from({ length: total }, (_, n) => n);
        for (const seen of await Promise.all(subscribers)) expect(seen).toEqual(expected);
      });

      it('loses nothing when a subscriber is much slower than the writers', async () => {
        const total = 4_000;
        const body = new Uint8Array(2_000);
        const seen: unknown[] = [];
        let caughtUp = 0;
        const appends: Promise<unknown>[] = [];
        for await (const item of log.subscribe()) {
          if (!isEvent(item)) {
            caughtUp++;
            if (seen.length >= total) break;
            // it is live now: 8 MB come while it does not read
            for (let n = appends.length; n < total; n++) {
              appends.push(log.append([write(a, 'any', noted({ n }, { body }))]));
              if (n % 100 === 0) await appends.at(-1);
            }
            await Promise.all(appends);
            continue;
          }
          seen.push((item.data as { n: number }).n);
        }
        expect(caughtUp).toBeGreaterThanOrEqual(2);
        expect(seen).toEqual(Array.from({ length: total }, (_, n) => n));
      });

      it('yields live the events that a later reader of the log gets', async () => {
        const live: RecordedEvent[] = [];
        const subscription = log.subscribe();
        const following = (async () => {
          for await (const item of subscription) {
            if (isEvent(item)) live.push(item);
            if (live.length === 3) break;
          }
        })();
        const data = { n: 1, absent: undefined, text: '☂', when: new Date(0) };
        await log.append([write(a, 'any', noted(data, { body: Buffer.from('x') }), noted({ n: 2 }))]);
        await log.append([write(b, 'any', noted({ n: 3 }, { context: { actor: 'key:z' } }))]);
        await following;
        expect(live).toStrictEqual(await collect(log.readAll()));
      });

      const ended = { value: undefined, done: true };

      /** A subscription that waits for its next item, and one that has yielded the first of two events. */
      const waitingAndReading = async (signal?: AbortSignal) => {
        await appendNumbers(a, 0, 2);
        const waiting = log.subscribe({ signal })[Symbol.asyncIterator]();
        const reading = log.subscribe({ signal })[Symbol.asyncIterator]();
        const seen = await itemsUntil(waiting, await log.head());
        expect(numbersOf(seen.filter(isEvent))).toEqual([0, 1]);
        expect((await reading.next()).value).toMatchObject({ data: { n: 0 } });
        expect(log.status().subscriptions).toBe(2);
        return { pending: waiting.next(), waiting, reading };
      };

      it('ends when it is aborted, while it waits, between two events, and before its first item', async () => {
        const abort = new AbortController();
        const { pending, waiting, reading } = await waitingAndReading(abort.signal);
        abort.abort();
        expect(await pending).toEqual(ended);
        expect(await reading.next()).toEqual(ended);
        expect(log.status().subscriptions).toBe(0);
        await appendNumbers(a, 2, 1);
        expect(await waiting.next()).toEqual(ended);
        expect(await collect(log.subscribe({ signal: abort.signal }))).toEqual([]);
        expect(log.status().subscriptions).toBe(0);
      });

      it('ends when the log is closed, while it waits, between two events, and before its first item', async () => {
        const { pending, reading } = await waitingAndReading();
        await log.close();
        expect(await pending).toEqual(ended);
        expect(await reading.next()).toEqual(ended);
        expect(await collect(log.subscribe())).toEqual([]);
        expect(log.status().subscriptions).toBe(0);
      });
    });

    describe('status', () => {
      it('describes an empty log', async () => {
        const nothing = { head: START, durableHead: START, unsyncedBytes: 0, queuedBytes: 0, subscriptions: 0 };
        expect(log.status()).toMatchObject({ state: 'ok', ...nothing });
      });

      it('has the head of the log', async () => {
        await log.append([write(a, 'noStream', noted()), write(b, 'noStream', noted())]);
        const { position } = await log.append([write(a, 'exists', noted())]);
        expect(await log.head()).toBe(position);
        const { state, head, durableHead, queuedBytes } = log.status();
        expect({ state, head, queuedBytes }).toEqual({ state: 'ok', head: position, queuedBytes: 0 });
        expect(durableHead <= head).toBe(true);
      });

      it('counts the open subscriptions', async () => {
        const subscription = log.subscribe()[Symbol.asyncIterator]();
        await subscription.next();
        expect(log.status().subscriptions).toBe(1);
        await subscription.return?.();
        expect(log.status().subscriptions).toBe(0);
      });

      it('does not change while appends are accepted or refused for their content', async () => {
        const states: string[] = [];
        const stop = log.onStatusChange(({ state }) => states.push(state));
        await appendNumbers(a, 0, 3);
        await expect(log.append([write(a, 'noStream', noted())])).rejects.toBeInstanceOf(WrongExpectedRevision);
        stop();
        stop();
        expect(states).toEqual([]);
        expect(log.status().state).toBe('ok');
      });
    });

    describe('close', () => {
      it('keeps earlier events and refuses later appends', async () => {
        const appends = Array.from({ length: 50 }, (_, n) => log.append([write(a, 'any', noted({ n }))]));
        const closing = log.close();
        await expect(Promise.all(appends)).resolves.toHaveLength(50);
        await closing;
        const error = await log.append([write(a, 'any', noted())]).catch((reason: unknown) => reason);
        expect(error).toBeInstanceOf(LogUnavailable);
        expect(error).toMatchObject({ outcome: 'none' });
        await log.close();
      });
    });

    it('behaves like a simple model, whatever is appended in whatever order', async () => {
      const expectation = fc.oneof(
        fc.constantFrom<ExpectedRevision>('any', 'noStream', 'exists'),
        fc.bigInt({ min: 0n, max: 4n }),
      );
      const oneWrite = fc.record({
        stream: fc.constantFrom('s-1', 's-2', 's-3', 't-1').map((text) => text as StreamName),
        expectedRevision: expectation,
        count: fc.integer({ min: 1, max: 3 }),
      });
      const maxWrites = capabilities.atomicMultiStream ? 3 : 1;
      const program = fc.array(
        fc.record({ writes: fc.array(oneWrite, { minLength: 1, maxLength: maxWrites }), wait: fc.boolean() }),
        { maxLength: 40 },
      );
      await fc.assert(
        fc.asyncProperty(program, async (steps) => {
          const subject = await create();
          try {
            const model: { stream: StreamName; n: number }[] = [];
            const outcomes: Promise<unknown>[] = [];
            let n = 0;
            for (const step of steps) {
              const writes: StreamWrite[] = [];
              const planned: typeof model = [];
              let accepted = true;
              for (const { stream, expectedRevision, count } of step.writes) {
                const last = [...model, ...planned].filter((event) => event.stream === stream).length - 1;
                accepted &&=
                  expectedRevision === 'any' ||
                  (expectedRevision === 'noStream' && last === -1) ||
                  (expectedRevision === 'exists' && last >= 0) ||
                  expectedRevision === BigInt(last);
                const events = Array.from({ length: count }, () => noted({ n: n++ }));
                for (const event of events) planned.push({ stream, n: (event.data as { n: number }).n });
                writes.push({ stream, expectedRevision, events });
              }
              if (accepted) model.push(...planned);
              const outcome = subject.log
                .append(writes)
                .then(
                  () => 'accepted',
                  (error: unknown) => (error instanceof WrongExpectedRevision ? 'refused' : error),
                )
                .then((found) => {
                  expect(found).toBe(accepted ? 'accepted' : 'refused');
                });
              outcomes.push(outcome);
              if (step.wait) await outcome;
            }
            await Promise.all(outcomes);
            const all = await collect(subject.log.readAll());
            expect(all.map(({ stream, data }) => ({ stream, ...(data as { n: number }) }))).toEqual(model);
            expect(all.map(({ position }) => BigInt(position))).toEqual(all.map((_, index) => BigInt(index) + 1n));
            for (const stream of new Set(model.map((event) => event.stream))) {
              const events = await collect(subject.log.readStream(stream));
              expect(events).toEqual(all.filter((event) => event.stream === stream));
              expect(events.map(({ revision }) => revision)).toEqual(events.map((_, index) => BigInt(index)));
              const backwards = await collect(subject.log.readStream(stream, { direction: 'backwards' }));
              expect(backwards).toEqual(events.toReversed());
            }
          } finally {
            await subject.dispose();
          }
        }),
        { numRuns: countOf(8, 25) },
      );
    });
  });
}
