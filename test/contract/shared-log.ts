/** The contract of engines on which several gateways share one log, as a suite beside `eventLogContract`. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type RecordedEvent, START, type StreamName, streamName } from '../../src/events/event.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import {
  EventIdReused,
  type EventLog,
  LogUnavailable,
  type StreamWrite,
  WrongExpectedRevision,
} from '../../src/events/log.ts';
import { someOf } from '../support/seed.ts';
import { collect, isEvent, itemsUntil, noted, write } from './event-log.ts';
import { appendUntilAccepted, hasPosition, whenState } from './recovery.ts';

/** One log and the handles on it; each handle is what one gateway has. */
export interface SharedLog {
  /** Opens another handle with an empty folder of its own. */
  open(): Promise<SharedHandle>;
  /** Stops the engine itself and starts it again, with everything that it has acknowledged. */
  readonly engine: { stop(): Promise<void>; start(): Promise<void> };
  /** Closes all handles and removes all traces. */
  dispose(): Promise<void>;
}

export interface SharedHandle {
  readonly log: EventLog;
  /** Makes the outcome of the next append unknown to this handle; it is recorded only if `recorded`. */
  loseAnswer(recorded: boolean): void;
  /** Closes the log and opens it again. */
  reopen(options?: ReopenOptions): Promise<void>;
}

export interface ReopenOptions {
  /** What is removed in between. */
  readonly without?: 'its checkpoint' | 'its folder' | undefined;
  /** Awaited in between. */
  readonly meanwhile?: () => Promise<unknown>;
}

export interface SharedLogOptions {
  /** Body sizes to test: around the largest record of the engine, and the largest event. */
  readonly bodySizes: readonly number[];
  /** Whether `SharedLog.engine` can be stopped. Default true. */
  readonly restarts?: boolean;
  readonly timeoutMs?: number;
}

function contentsOf(events: readonly RecordedEvent[]): unknown[] {
  return events.map(({ position, revision, id, stream, data }) => ({ position, revision, id, stream, data }));
}

function numbersIn(events: readonly RecordedEvent[]): number[] {
  return events.map(({ data }) => (data as { n: number }).n);
}

export function sharedLogContract(
  name: string,
  create: () => Promise<SharedLog>,
  { bodySizes, restarts = true, timeoutMs }: SharedLogOptions,
): void {
  describe(`the contract of a shared log: ${name}`, { timeout: timeoutMs ?? 20_000 }, () => {
    let shared: SharedLog;
    let one: SharedHandle;
    let other: SharedHandle;
    const a = streamName('thing', 'a');
    const b = streamName('thing', 'b');
    const withIds = (...numbers: number[]) => numbers.map((n) => noted({ n }, { id: mintEventId() }));

    beforeEach(async () => {
      shared = await create();
      [one, other] = await Promise.all([shared.open(), shared.open()]);
    });
    afterEach(() => shared.dispose());

    /** What both handles have, after checking that it is the same. */
    const everything = async (): Promise<RecordedEvent[]> => {
      const last = [await one.log.head(), await other.log.head()].toSorted().at(-1) ?? START;
      for (const { log } of [one, other]) await hasPosition(log, last);
      const first = await collect(one.log.readAll());
      expect(contentsOf(await collect(other.log.readAll()))).toEqual(contentsOf(first));
      return first;
    };

    describe('two handles', () => {
      it('have the same events at the same positions and revisions, in the order of the log', async () => {
        const appends = Array.from({ length: 60 }, (_, n) => {
          const stream = streamName('thing', String(n % 7));
          return (n % 2 ? one : other).log.append([write(stream, 'any', ...withIds(n, n + 1_000))]);
        });
        const appended = await Promise.all(appends);
        for (const { log } of [one, other]) for (const { position } of appended) await hasPosition(log, position);
        const all = await everything();
        expect(all.map(({ position }) => BigInt(position))).toEqual(all.map((_, index) => BigInt(index) + 1n));
        expect(all).toHaveLength(120);
        for (const [n, { position, revisions }] of appended.entries()) {
          const last = all.find((event) => event.position === position);
          expect(last).toMatchObject({ data: { n: n + 1_000 }, revision: revisions[0] });
        }
      });

      it('show the appends of the other to subscribers and in streams', async () => {
        const subscription = other.log.subscribe()[Symbol.asyncIterator]();
        await subscription.next();
        const { position } = await one.log.append([write(a, 'noStream', ...withIds(0, 1)), write(b, 'any', noted())]);
        await hasPosition(other.log, position);
        expect(numbersIn(await collect(other.log.readStream(a, { direction: 'backwards' })))).toEqual([1, 0]);
        expect(await other.log.head()).toBe(position);
        const live = (await itemsUntil(subscription, position)).filter(isEvent);
        expect(contentsOf(live)).toEqual(contentsOf(await everything()));
        await subscription.return?.();
      });

      it('let exactly one of two appends with the same expectation win', async () => {
        const rounds = Array.from({ length: 25 }, async (_, n) => {
          const stream = streamName('thing', String(n));
          const attempts = [one, other].map(({ log }) => log.append([write(stream, 'noStream', noted({ n }))]));
          const results = await Promise.allSettled(attempts);
          const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
          expect(refused).toHaveLength(1);
          expect(refused[0]).toBeInstanceOf(WrongExpectedRevision);
          expect(refused[0]).toMatchObject({ stream, expected: 'noStream', actual: 0n });
        });
        await Promise.all(rounds);
        expect(numbersIn(await everything()).toSorted((x, y) => x - y)).toEqual(rounds.map((_, n) => n));
      });

      it('evaluate an exact revision in the order of the log, also when they have not read it yet', async () => {
        await one.log.append([write(a, 'noStream', noted({ n: 0 }))]);
        const { revisions } = await other.log.append([write(a, 0n, noted({ n: 1 }))]);
        expect(revisions).toEqual([1n]);
        const late = one.log.append([write(a, 0n, noted({ n: 2 })), write(b, 'any', noted({ n: 3 }))]);
        await expect(late).rejects.toMatchObject({ stream: a, expected: 0n, actual: 1n });
        await one.log.append([write(b, 'noStream', noted({ n: 4 }))]);
        expect(numbersIn(await everything())).toEqual([0, 1, 4]);
      });

      it('count together without losing a number, with the actual revision of a refusal', async () => {
        const counter = async ({ log }: SharedHandle, times: number): Promise<void> => {
          let revision: bigint | undefined;
          for (let done = 0; done < times; ) {
            try {
              const expected = revision ?? 'noStream';
              revision = (await log.append([write(a, expected, noted({ n: Number((revision ?? -1n) + 1n) }))]))
                .revisions[0];
              done++;
            } catch (error) {
              if (!(error instanceof WrongExpectedRevision)) throw error;
              revision = error.actual;
            }
          }
        };
        await Promise.all([counter(one, 20), counter(other, 20)]);
        await hasPosition(one.log, '0000000000000040');
        expect(numbersIn(await everything())).toEqual(Array.from({ length: 40 }, (_, n) => n));
      });
    });

    describe('the same append twice', () => {
      it('is recorded once and resolves alike, through one handle and through both', async () => {
        const writes = [write(a, 'any', ...withIds(0, 1)), write(b, 'any', ...withIds(2))];
        const appended = await Promise.all([one, other, one, other].map(({ log }) => log.append(writes)));
        expect(new Set(appended.map(({ position }) => position)).size).toBe(1);
        for (const { revisions } of appended) expect(revisions).toEqual([1n, 0n]);
        await one.log.append([write(a, 'any', noted({ n: 3 }))]);
        expect(await other.log.append(writes)).toEqual(appended[0]);
        expect(numbersIn(await everything())).toEqual([0, 1, 2, 3]);
      });

      it.each([undefined, 'its checkpoint', 'its folder'] as const)(
        'is recorded once by a handle that was reopened without %s',
        async (without) => {
          const expectations = ['any', 'noStream', 'any'] as const;
          const appends = expectations.map((expected, n) => [
            write(streamName('thing', String(n)), expected, ...withIds(2 * n, 2 * n + 1)),
          ]);
          const appended = [];
          for (const writes of appends) appended.push(await one.log.append(writes));
          await one.reopen({ without });
          for (const [n, writes] of appends.entries()) expect(await one.log.append(writes)).toEqual(appended[n]);
          expect(await everything()).toHaveLength(6);
        },
      );

      it('is refused in part, or with others, also by the handle that did not append it', async () => {
        const [zero, first, second] = withIds(0, 1, 2);
        if (zero === undefined || first === undefined || second === undefined) throw new Error('there are three');
        await one.log.append([write(a, 'any', zero, first)]);
        for (const { log } of [one, other]) {
          for (const events of [[zero], [first, second], [zero, first, second]]) {
            await expect(log.append([write(a, 'any', ...events)])).rejects.toBeInstanceOf(EventIdReused);
          }
        }
        await other.log.append([write(a, 'any', second)]);
        expect(numbersIn(await everything())).toEqual([0, 1, 2]);
      });

      it('may be made again, through any handle, when it was refused', async () => {
        const events = withIds(0, 1);
        await expect(one.log.append([write(a, 'exists', ...events)])).rejects.toBeInstanceOf(WrongExpectedRevision);
        await other.log.append([write(a, 'noStream', ...events)]);
        expect(numbersIn(await everything())).toEqual([0, 1]);
      });
    });

    describe('an unknown outcome', () => {
      it.each([true, false])(
        'is resolved by the handle; the append is recorded once (recorded: %s)',
        async (recorded) => {
          one.loseAnswer(recorded);
          const appended = await one.log.append([
            write(a, 'noStream', noted({ n: 0 })),
            write(b, 'any', noted({ n: 1 })),
          ]);
          expect(appended.revisions).toEqual([0n, 0n]);
          const more = withIds(2, 3).map((event) => [write(a, 'exists', event)]);
          await Promise.all([one, other].map(({ log }, n) => appendUntilAccepted(log, more[n] ?? [])));
          const all = await everything();
          expect(numbersIn(all).toSorted((x, y) => x - y)).toEqual([0, 1, 2, 3]);
          expect(all[1]?.position).toBe(appended.position);
        },
      );

      it('keeps the order of appends that were not awaited', async () => {
        one.loseAnswer(false);
        const appends = Array.from({ length: 40 }, (_, n) => {
          if (n === 20) one.loseAnswer(true);
          return one.log.append([write(a, n === 0 ? 'noStream' : BigInt(n - 1), noted({ n }))]);
        });
        await Promise.all(appends);
        expect(numbersIn(await everything())).toEqual(appends.map((_, n) => n));
      });
    });

    describe.skipIf(!restarts)('when the engine is stopped', () => {
      it('says so with the reason, refuses appends at once, and goes on when it is back', async () => {
        const { position } = await one.log.append([write(a, 'noStream', noted({ n: 0 }))]);
        await hasPosition(other.log, position);
        await shared.engine.stop();
        for (const { log } of [one, other]) await whenState(log, 'unavailable');
        for (const { log } of [one, other]) {
          expect(log.status().reason).toMatch(/\w/);
          const error = await log.append([write(a, 'any', noted({ n: 9 }))]).catch((reason: unknown) => reason);
          expect(error).toBeInstanceOf(LogUnavailable);
          expect(error).toMatchObject({ outcome: 'none' });
          expect(numbersIn(await collect(log.readAll()))).toEqual([0]);
        }
        await shared.engine.start();
        for (const { log } of [one, other]) await whenState(log, 'ok');
        for (const [n, { log }] of [one, other].entries()) await log.append([write(a, 'any', noted({ n: n + 1 }))]);
        await hasPosition(one.log, await other.log.head());
        expect(numbersIn(await everything())).toEqual([0, 1, 2]);
      });

      it('in the middle of appends: nothing acknowledged is lost, nothing is recorded twice', async () => {
        const total = 120;
        let acknowledged = 0;
        const halfway = Promise.withResolvers<void>();
        const client = async ({ log }: SharedHandle, own: StreamName, from: number): Promise<void> => {
          for (let n = 0; n < total; n++) {
            const writes: StreamWrite[] = [write(own, n === 0 ? 'noStream' : BigInt(n - 1), ...withIds(from + n))];
            expect((await appendUntilAccepted(log, writes)).revisions).toEqual([BigInt(n)]);
            if (++acknowledged === total / 2) halfway.resolve();
          }
        };
        const clients = Promise.all([client(one, a, 0), client(other, b, 1_000)]);
        await Promise.race([halfway.promise, clients]);
        await shared.engine.stop();
        for (const { log } of [one, other]) await whenState(log, 'unavailable');
        await shared.engine.start();
        await clients;
        for (const { log } of [one, other]) await hasPosition(log, '0000000000000240');
        const all = await everything();
        expect(all).toHaveLength(2 * total);
        const expected = Array.from({ length: total }, (_, n) => n);
        expect(numbersIn(all.filter(({ stream }) => stream === a))).toEqual(expected);
        expect(numbersIn(all.filter(({ stream }) => stream === b))).toEqual(expected.map((n) => n + 1_000));
      });
    });

    describe('an append', () => {
      it('that waits for another has the content of the moment of its call', async () => {
        const data = { n: 1 };
        const body = Buffer.from('before');
        const appends = [
          one.log.append([write(a, 'any', noted({ n: 0 }))]),
          one.log.append([write(a, 'any', noted(data, { body }))]),
        ];
        data.n = 2;
        body.write('after!');
        appends.push(one.log.append([write(a, 'any', noted(data, { body }))]));
        await Promise.all(appends);
        const all = await everything();
        expect(all.map((event) => [event.data, String(event.body ?? '')])).toEqual([
          [{ n: 0 }, ''],
          [{ n: 1 }, 'before'],
          [{ n: 2 }, 'after!'],
        ]);
      });

      it('is visible to readers of its handle when it resolves', async () => {
        for (let n = 0; n < 20; n++) {
          const { position } = await one.log.append([write(a, 'any', noted({ n }))]);
          expect(await one.log.head()).toBe(position);
          const [last] = await collect(one.log.readStream(a, { direction: 'backwards', maxCount: 1 }));
          expect(last).toMatchObject({ position, data: { n } });
        }
      });

      it.each(someOf(bodySizes, undefined, 2))('keeps a body of %i bytes unchanged, between others', async (size) => {
        const body = Buffer.alloc(size);
        for (let index = 0; index < size; index += 61) body[index] = (index * 131 + (index >> 8)) & 255;
        const appends = [
          other.log.append([write(b, 'any', noted({ n: 0 }))]),
          one.log.append([write(a, 'any', noted({ n: 1 }), noted({ n: 2 }, { body }))]),
          other.log.append([write(b, 'any', noted({ n: 3 }))]),
        ];
        const appended = await Promise.all(appends);
        for (const { log } of [one, other]) {
          for (const { position } of appended) await hasPosition(log, position);
          const [, event] = await collect(log.readStream(a));
          expect(Buffer.compare(Buffer.from(event?.body ?? 'none'), body)).toBe(0);
        }
        expect(await everything()).toHaveLength(4);
      });
    });

    describe('a handle that is opened again', () => {
      it.each([undefined, 'its checkpoint', 'its folder'] as const)('has the same log without %s', async (without) => {
        const streams = ['0', '1', '2'].map((id) => streamName('thing', id));
        const appendSome = async (from: number): Promise<void> => {
          const appends = Array.from({ length: 40 }, (_, n) => {
            const stream = streams[n % streams.length] ?? a;
            const { log } = n % 2 ? one : other;
            return log.append([write(stream, n % 5 ? 'any' : 'noStream', noted({ n: from + n }))]);
          });
          await Promise.allSettled(appends);
        };
        await appendSome(0);
        await one.reopen({ without });
        await everything();
        await appendSome(100);
        await one.log.append([write(a, 'noStream', noted({ n: 200 }))]);
        await everything();
        await other.reopen({ without });
        expect(numbersIn(await collect(other.log.readStream(a)))).toEqual([200]);
        await everything();
      });

      it('has what was appended while it was closed, also to streams that it knew', async () => {
        await one.log.append([write(a, 'noStream', noted({ n: 0 }))]);
        const meanwhile = () =>
          Promise.all(Array.from({ length: 50 }, (_, n) => other.log.append([write(a, 'any', noted({ n: n + 1 }))])));
        await one.reopen({ meanwhile });
        const late = await shared.open();
        for (const { log } of [one, late]) {
          expect(numbersIn(await collect(log.readStream(a)))).toEqual(Array.from({ length: 51 }, (_, n) => n));
        }
        expect((await one.log.append([write(a, 50n, noted({ n: 51 }))])).revisions).toEqual([51n]);
      });

      it('shows every event once and in order to a subscriber while it catches up', async () => {
        const total = 1_000;
        const appends = Array.from({ length: total }, (_, n) => one.log.append([write(a, 'any', noted({ n }))]));
        await appends[total / 4];
        const { log } = await shared.open();
        const seen: number[] = [];
        for await (const item of log.subscribe()) {
          if (isEvent(item)) seen.push(...numbersIn([item]));
          if (seen.length === total) break;
        }
        await Promise.all(appends);
        expect(seen).toEqual(appends.map((_, n) => n));
      });
    });
  });
}
