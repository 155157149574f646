/** Appends as an outbox makes them, and what a reader returns, for the tests of the engine. */
import { PreparedAppend } from '../../../src/events/embedded/append-batch.ts';
import { type NewEvent, streamName } from '../../../src/events/event.ts';
import type { ExpectedRevision } from '../../../src/events/log.ts';
import type { EnginePlace, LogEngine, ReadBatch, SequencedAppend } from '../../../src/events/replicated/engine.ts';

export interface AppendForm {
  readonly writer?: string;
  readonly number: number;
  readonly stream?: string;
  readonly expectedRevision?: ExpectedRevision;
  /** Bytes of the body of each event. */
  readonly bodies?: readonly number[];
  /** Of the first event. */
  readonly id?: string;
}

export const writerA = 'aaaaaaaaaaaaaaaa';
export const writerB = 'bbbbbbbbbbbbbbbb';
const big = 256 * 1024 * 1024;

export function append(form: AppendForm): SequencedAppend {
  const { writer = writerA, number, stream = 'a', expectedRevision = 'any', bodies = [0], id } = form;
  const events = bodies.map((bytes, index): NewEvent => {
    return {
      type: 'thing.noted',
      schema: 1,
      data: { number, index },
      context: { actor: 'system' },
      ...(bytes === 0 ? {} : { body: Buffer.alloc(bytes, `${number}/${index} `) }),
      ...(id === undefined || index > 0 ? {} : { id }),
    };
  });
  const { writes, records } = new PreparedAppend(
    [{ stream: streamName('thing', stream), events, expectedRevision }],
    big,
  );
  return { log: '0123456789abcdef', writer, number, seen: { position: number - 1, check: 7 }, writes, records };
}

export function barrier(number: number, writer = writerA): SequencedAppend {
  return {
    log: '0123456789abcdef',
    writer,
    number,
    seen: { position: 0, check: 0 },
    writes: [],
    records: Buffer.alloc(0),
  };
}

export function appends(from: number, to: number, writer = writerA): SequencedAppend[] {
  return Array.from({ length: to - from + 1 }, (_, index) =>
    append({ writer, number: from + index, stream: `s${index % 7}` }),
  );
}

/** Each in a call of its own: on Kafka a record of its own. */
export async function appendEach(engine: LogEngine, all: readonly SequencedAppend[]): Promise<void> {
  for (const one of all) await engine.append([one]);
}

export interface Read {
  readonly appends: SequencedAppend[];
  readonly batches: ReadBatch[];
  readonly resume: EnginePlace | undefined;
}

/** Reads until the condition holds. */
export async function readUntil(
  engine: LogEngine,
  isDone: (appends: readonly SequencedAppend[]) => boolean,
  after?: EnginePlace,
): Promise<Read> {
  const end = new AbortController();
  const read: SequencedAppend[] = [];
  const batches: ReadBatch[] = [];
  for await (const batch of engine.read(after, end.signal)) {
    batches.push(batch);
    read.push(...batch.appends);
    if (isDone(read)) break;
  }
  end.abort();
  return { appends: read, batches, resume: batches.at(-1)?.resume };
}

export function readCount(engine: LogEngine, count: number, after?: EnginePlace): Promise<Read> {
  return readUntil(engine, (read) => read.length >= count, after);
}

/** Until the append with this number of the writer has been read. */
export function readTo(engine: LogEngine, number: number, after?: EnginePlace, writer = writerA): Promise<Read> {
  return readUntil(engine, (read) => read.some((one) => one.writer === writer && one.number === number), after);
}

export function numbersOf(read: readonly SequencedAppend[], writer = writerA): number[] {
  return read.filter((one) => one.writer === writer).map(({ number }) => number);
}

/** Without what was read before: a repetition has the number of the first. */
export function firstOnly(numbers: readonly number[]): number[] {
  return numbers.filter((number, index) => numbers.indexOf(number) === index);
}
