/**
 * One ordered log with a replica for each process, in virtual time. An append takes its place in the order after a
 * delay, and is answered when the process has read it back, as with `ReplicatedLog`. Faults: the answer is lost, and the
 * append is sent again identically; the outcome stays unknown, and the append is recorded later or never.
 */
import {
  formatPosition,
  type NewEvent,
  type Position,
  type RecordedEvent,
  START,
  type StreamName,
} from '../../../src/events/event.ts';
import {
  type Appended,
  checkExpectedRevision,
  type EventLog,
  type LogStatus,
  LogUnavailable,
  type ReadStreamOptions,
  type StreamWrite,
  type WrongExpectedRevision,
} from '../../../src/events/log.ts';
import type { Random } from '../../crash/random.ts';
import type { SimulatedProcess, VirtualTime } from './virtual-time.ts';

/** An append with its place in the order, and what every replica finds there. */
export interface OrderedAppend {
  readonly number: number;
  readonly events: readonly RecordedEvent[];
  readonly result: Appended | WrongExpectedRevision;
}

/** Milliseconds, from 1 on, and shares of all appends. */
export interface LogFaults {
  readonly appendMs: number;
  readonly readMs: number;
  /** The answer is lost: it is sent again, and takes three times as long. */
  readonly repeated: number;
  /** The outcome is not known in time: the append is recorded later. */
  readonly late: number;
  /** The outcome is not known, and the append is never recorded. */
  readonly lost: number;
}

/** After which an append without an answer has an unknown outcome. */
const OUTCOME_MS = 600;

/** Reads the order. */
export interface Replica {
  /** Something was recorded. */
  wake(): void;
}

export class SimulatedOrder {
  readonly appends: OrderedAppend[] = [];
  readonly streams = new Map<StreamName, RecordedEvent[]>();
  readonly time: VirtualTime;
  #events = 0;
  readonly #recorded: (append: OrderedAppend, writer: string) => void;
  readonly #replicas = new Set<Replica>();
  /** The latest number of each process. */
  readonly #numbers = new Map<Replica, number>();

  /** @param recorded called with each append in its place, before anybody reads it */
  constructor(time: VirtualTime, recorded: (append: OrderedAppend, writer: string) => void) {
    this.time = time;
    this.#recorded = recorded;
  }

  get head(): Position {
    return this.#events === 0 ? START : formatPosition(this.#events);
  }

  add(replica: Replica): void {
    this.#replicas.add(replica);
  }

  remove(replica: Replica): void {
    this.#replicas.delete(replica);
  }

  /** An append that arrives again, or after a later one of its process, is ignored: see `WriterNumbers`. */
  record(number: number, writes: readonly StreamWrite[], writer: string, from: Replica): void {
    if (number <= (this.#numbers.get(from) ?? -1)) return;
    this.#numbers.set(from, number);
    const append = this.#evaluate(number, writes);
    this.appends.push(append);
    for (const event of append.events) this.#keep(event);
    this.#recorded(append, writer);
    for (const replica of this.#replicas) replica.wake();
  }

  #keep(event: RecordedEvent): void {
    const stream = this.streams.get(event.stream);
    if (stream === undefined) this.streams.set(event.stream, [event]);
    else stream.push(event);
  }

  #evaluate(number: number, writes: readonly StreamWrite[]): OrderedAppend {
    const events: RecordedEvent[] = [];
    const revisions: bigint[] = [];
    const first = this.#events;
    try {
      for (const write of writes) {
        let last = (this.streams.get(write.stream)?.length ?? 0) - 1;
        checkExpectedRevision(write, last);
        for (const event of write.events) {
          last += 1;
          events.push(recordedAs(event, write.stream, last, first + events.length + 1, this.time.now));
        }
        revisions.push(BigInt(last));
      }
    } catch (refused) {
      return { number, events: [], result: refused as WrongExpectedRevision };
    }
    this.#events += events.length;
    return { number, events, result: { position: this.head, revisions } };
  }
}

function recordedAs(
  event: NewEvent,
  stream: StreamName,
  revision: number,
  position: number,
  at: number,
): RecordedEvent {
  const { type, schema, data, context } = event;
  return {
    ...{ id: `${position}`, type, schema, stream, data, context, at },
    ...{ revision: BigInt(revision), position: formatPosition(position) },
  };
}

interface Waiting {
  resolve(appended: Appended): void;
  reject(error: Error): void;
}

export interface SimulatedLogOptions {
  readonly order: SimulatedOrder;
  readonly process: SimulatedProcess;
  readonly random: Random;
  /** Asked at each append and read. */
  readonly faults: () => LogFaults;
  /** Called with each append in the order, once. */
  readonly read: (append: OrderedAppend) => void;
  /** Changes what is appended: for tests of the simulation. */
  readonly change?: ((writes: readonly StreamWrite[]) => readonly StreamWrite[]) | undefined;
}

type Port = Pick<EventLog, 'append' | 'readStream' | 'head' | 'onStatusChange'> & { status(): Pick<LogStatus, 'head'> };
let numbers = 0;

/** The log of one process. It has what the code of leases uses of the port. */
export class SimulatedLog implements Port {
  readonly #options: SimulatedLogOptions;
  readonly #waiting = new Map<number, Waiting>();
  #read = 0;
  #position: Position = START;
  #isReading = false;
  /** Appends of a process keep their order. */
  #lastArrival = 0;
  /** Who appends, for the checks. */
  writer = '';

  constructor(options: SimulatedLogOptions) {
    this.#options = options;
    options.order.add(this);
    this.wake();
  }

  /** For the code that wants the whole port and uses this part of it. */
  get port(): EventLog {
    return this as unknown as EventLog;
  }

  append(writes: readonly StreamWrite[]): Promise<Appended> {
    const { order, process, change } = this.#options;
    const number = numbers++;
    const { writer } = this;
    const changed = change === undefined ? writes : change(writes);
    const record = () => order.record(number, changed, writer, this);
    return new Promise((resolve, reject) => {
      if (process.isKilled) return;
      this.#waiting.set(number, { resolve, reject });
      const arrivals = this.#arrivals();
      for (const ms of arrivals) order.time.after(ms, record);
      const isInTime = (arrivals[0] ?? OUTCOME_MS) < OUTCOME_MS / 2;
      if (!isInTime) process.after(OUTCOME_MS, () => this.#forget(number));
    });
  }

  /** After how many milliseconds it arrives, each time. */
  #arrivals(): number[] {
    const { order, random, faults } = this.#options;
    const { appendMs, repeated, late, lost } = faults();
    const usual = random.between(1, appendMs);
    if (random.happens(lost)) return [];
    if (random.happens(late)) return [OUTCOME_MS + random.between(1, 3 * OUTCOME_MS)];
    const arrival = Math.max(this.#lastArrival - order.time.now, usual);
    if (random.happens(repeated)) {
      const again = arrival + 3 * usual;
      this.#lastArrival = order.time.now + again;
      return random.happens(0.5) ? [arrival, again] : [again];
    }
    this.#lastArrival = order.time.now + arrival;
    return [arrival];
  }

  #forget(number: number): void {
    const waiting = this.#waiting.get(number);
    this.#waiting.delete(number);
    waiting?.reject(new LogUnavailable('the outcome is not known', 'unknown'));
  }

  /** Something was recorded. */
  wake(): void {
    const { order, process, random, faults } = this.#options;
    if (this.#isReading || this.#read === order.appends.length) return;
    this.#isReading = true;
    process.after(random.between(1, faults().readMs), () => {
      this.#isReading = false;
      this.#readAll();
    });
  }

  #readAll(): void {
    const { order, read } = this.#options;
    while (this.#read < order.appends.length) {
      const append = order.appends[this.#read++] as OrderedAppend;
      this.#position = append.events.at(-1)?.position ?? this.#position;
      read(append);
      const waiting = this.#waiting.get(append.number);
      if (waiting === undefined) continue;
      this.#waiting.delete(append.number);
      if (append.result instanceof Error) waiting.reject(append.result);
      else waiting.resolve(append.result);
    }
  }

  async head(): Promise<Position> {
    return this.#position;
  }

  status(): Pick<LogStatus, 'head'> {
    return { head: this.#position };
  }

  /** It only loses appends: its state does not change. */
  onStatusChange(): () => void {
    return () => {};
  }

  /** What it has read of the stream. */
  known(stream: StreamName): readonly RecordedEvent[] {
    const all = this.#options.order.streams.get(stream) ?? [];
    const newest = all.at(-1);
    return newest === undefined || newest.position <= this.#position
      ? all
      : all.filter(({ position }) => position <= this.#position);
  }

  async *readStream(stream: StreamName, _options?: ReadStreamOptions): AsyncIterable<RecordedEvent> {
    yield* this.known(stream);
  }
}
