/** The log in memory, for tests: it has all guarantees of the port except durability. */
import { upcast } from '../catalogue/catalogue.ts';
import {
  formatPosition,
  type NewEvent,
  type Position,
  parsePosition,
  type RecordedEvent,
  type StreamName,
  separateEvents,
} from '../event.ts';
import { mintEventId, wallClock } from '../event-id.ts';
import {
  type Appended,
  type CaughtUp,
  CompiledFilter,
  checkExpectedRevision,
  type EventLog,
  EventTooLarge,
  type LogCapabilities,
  type LogStatus,
  LogUnavailable,
  type ReadAllOptions,
  type ReadStreamOptions,
  revisionRange,
  type StreamWrite,
  type SubscribeOptions,
} from '../log.ts';
import { haveIds, RecentAppends } from '../recent-appends.ts';
import { type EventReader, type LiveBatch, ReaderIteration, SubscriptionHub } from '../subscription.ts';

export class MemoryLog implements EventLog {
  readonly capabilities: LogCapabilities;
  readonly #all: RecordedEvent[] = [];
  readonly #streams = new Map<StreamName, RecordedEvent[]>();
  readonly #hub = new SubscriptionHub({
    visible: () => this.#all.length,
    reader: (after, filter) => this.#reader(after, filter),
  });
  readonly #recent = new RecentAppends<Appended>(Number.POSITIVE_INFINITY);
  #closed = false;

  constructor(maxEventBytes = 64 * 1024 * 1024) {
    this.capabilities = {
      expectedRevision: 'native',
      globalOrder: 'total',
      durability: 'memory',
      maxEventBytes,
      atomicMultiStream: true,
    };
  }

  async append(writes: readonly StreamWrite[]): Promise<Appended> {
    if (this.#closed) throw new LogUnavailable('it has been closed', 'none');
    const earlier = this.#recent.find(writes);
    if (earlier !== undefined) return earlier.outcome;
    const appended = this.#append(writes);
    if (haveIds(writes)) this.#recent.add(writes, appended);
    return appended;
  }

  #append(writes: readonly StreamWrite[]): Appended {
    const first = this.#all.length + 1;
    const { events, revisions } = this.#plan(writes);
    for (const event of events) {
      this.#all.push(event);
      const stream = this.#streams.get(event.stream);
      if (stream === undefined) this.#streams.set(event.stream, [event]);
      else stream.push(event);
    }
    if (events.length > 0) this.#hub.publish(liveBatch(first, events));
    return { position: formatPosition(this.#all.length), revisions };
  }

  /** Builds every event before the first is kept, so that a refusal changes nothing. */
  #plan(writes: readonly StreamWrite[]): { events: RecordedEvent[]; revisions: bigint[] } {
    const events: RecordedEvent[] = [];
    const revisions: bigint[] = [];
    const planned = new Map<StreamName, number>();
    const at = wallClock();
    for (const write of writes) {
      let last = planned.get(write.stream) ?? (this.#streams.get(write.stream)?.length ?? 0) - 1;
      checkExpectedRevision(write, last);
      for (const event of separateEvents(write.events)) {
        last++;
        const position = this.#all.length + events.length + 1;
        events.push(record(event, write.stream, last, position, at, this.capabilities.maxEventBytes));
      }
      planned.set(write.stream, last);
      revisions.push(BigInt(last));
    }
    return { events, revisions };
  }

  async *readStream(stream: StreamName, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
    const events = this.#streams.get(stream) ?? [];
    for (const revision of revisionRange(events.length - 1, options)) {
      const event = events[revision];
      if (event !== undefined) yield upcast(event);
    }
  }

  readAll(options: ReadAllOptions = {}): AsyncIterable<RecordedEvent> {
    const after = options.after === undefined ? 0 : parsePosition(options.after);
    const filter = new CompiledFilter(options.filter);
    return new ReaderIteration(() => this.#reader(after, filter, this.#all.length), options.maxCount, options.signal);
  }

  subscribe(options: SubscribeOptions = {}): AsyncIterable<RecordedEvent | CaughtUp> {
    return this.#hub.subscribe(options);
  }

  async head(): Promise<Position> {
    return formatPosition(this.#all.length);
  }

  status(): LogStatus {
    const head = formatPosition(this.#all.length);
    const { open: subscriptions } = this.#hub.counts;
    return {
      state: 'ok',
      head,
      durableHead: head,
      unsyncedBytes: 0,
      queuedBytes: 0,
      segments: 0,
      unindexedSegments: 0,
      subscriptions,
    };
  }

  /** Never calls the listener: memory does not become unavailable. */
  onStatusChange(): () => void {
    return () => {};
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#hub.close();
  }

  #reader(after: number, filter: CompiledFilter, until = Number.POSITIVE_INFINITY): EventReader {
    const all = this.#all;
    let position = after;
    let loadedTo = after;
    return {
      take() {
        while (position < loadedTo) {
          const event = all[position++];
          if (event !== undefined && filter.accepts(event.type, event.stream)) return upcast(event);
        }
        return undefined;
      },
      load: async () => {
        loadedTo = Math.min(until, all.length);
        return position < loadedTo;
      },
      get position() {
        return position;
      },
      close: () => {
        loadedTo = 0;
      },
    };
  }
}

/** A copy of the event, as from an engine with a disk: nothing is shared with the caller. */
function record(
  event: NewEvent,
  stream: StreamName,
  revision: number,
  position: number,
  at: number,
  maxEventBytes: number,
): RecordedEvent {
  const data = JSON.stringify(event.data);
  const bytes = data.length + (event.body?.length ?? 0);
  if (bytes > maxEventBytes) throw new EventTooLarge(event.type, bytes, maxEventBytes);
  return {
    id: event.id ?? mintEventId(),
    type: event.type,
    schema: event.schema,
    stream,
    revision: BigInt(revision),
    position: formatPosition(position),
    at: event.at ?? at,
    context: JSON.parse(JSON.stringify(event.context)),
    data: JSON.parse(data),
    body: event.body === undefined ? undefined : Buffer.from(event.body),
  };
}

function liveBatch(first: number, events: readonly RecordedEvent[]): LiveBatch {
  const at = (index: number): RecordedEvent => {
    const event = events[index];
    if (event === undefined) throw new RangeError(`no event ${index} in this batch`);
    return event;
  };
  return {
    first,
    count: events.length,
    type: (index) => at(index).type,
    stream: (index) => at(index).stream,
    bytes: (index) => at(index).body?.length ?? 0,
    event: (index) => upcast(at(index)),
  };
}
