/**
 * Subscriptions of the engines in this process: each reads the log from disk until it has caught up, and then gets new
 * events as they become visible. A subscription that does not keep up reads from the disk again, so that none needs
 * more memory than its small queue.
 */
import { formatPosition, parsePosition, type RecordedEvent } from './event.ts';
import { type CaughtUp, CompiledFilter, type SubscribeOptions } from './log.ts';

/** Events that have just become visible; they are decoded only when needed. The methods are called with ascending indexes. */
export interface LiveBatch {
  /** Position of the first event. */
  readonly first: number;
  readonly count: number;
  type(index: number): string;
  stream(index: number): string;
  bytes(index: number): number;
  event(index: number): RecordedEvent;
}

export interface SubscriptionSource {
  /** Position of the last visible event. */
  visible(): number;
  reader(after: number, filter: CompiledFilter): EventReader;
}

export interface SubscriptionLimits {
  /** Largest queue of one subscriber before it has to read from the disk again. */
  readonly queueBytes: number;
  /** Delay before an idle subscription reports that its position moved past events that it filters out. */
  readonly progressMs: number;
}

const defaultLimits: SubscriptionLimits = { queueBytes: 1024 * 1024, progressMs: 20 };
/** Memory of an event beyond its bytes in the log. */
const eventOverheadBytes = 512;
type Result = IteratorResult<RecordedEvent | CaughtUp>;
const finished = Object.freeze({ value: undefined, done: true as const });

export class SubscriptionHub {
  readonly #source: SubscriptionSource;
  readonly #limits: SubscriptionLimits;
  readonly #all = new Set<Subscription>();
  readonly #live = new LiveSubscriptions();
  #progress: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(source: SubscriptionSource, limits: Partial<SubscriptionLimits> = {}) {
    this.#source = source;
    this.#limits = { ...defaultLimits, ...limits };
  }

  /** Subscriptions that are open, and how many of them have caught up. */
  get counts(): { open: number; live: number } {
    return { open: this.#all.size, live: this.#live.size };
  }

  subscribe(options: SubscribeOptions = {}): AsyncIterableIterator<RecordedEvent | CaughtUp> {
    const after = options.after === undefined ? 0 : parsePosition(options.after);
    const subscription = new Subscription({
      source: this.#source,
      after,
      filter: new CompiledFilter(options.filter),
      queueBytes: this.#limits.queueBytes,
      signal: options.signal,
      live: this.#live,
      all: this.#all,
    });
    if (this.#closed || options.signal?.aborted) subscription.end();
    return subscription;
  }

  /**
   * Hands a batch to all that have caught up. Called in the order of positions, once per event. The cost grows with the
   * number of events and of their takers: a subscription that takes none of them is not called.
   */
  publish(batch: LiveBatch): void {
    if (this.#live.size === 0) return;
    let latestType: string | undefined;
    let wanting: readonly Subscription[] = [];
    for (let index = 0; index < batch.count; index++) {
      const type = batch.type(index);
      // most events of a batch follow others of their type
      if (type !== latestType) {
        latestType = type;
        wanting = this.#live.wanting(type);
      }
      for (let taker = 0; taker < wanting.length; taker++) wanting[taker]?.offer(batch, index);
    }
    this.#live.offered = batch.first + batch.count - 1;
    // It keeps the process alive: a start may wait for nothing else.
    this.#progress ??= setTimeout(() => this.#reportProgress(), this.#limits.progressMs);
  }

  /** For a source that has not published what has become visible: all subscriptions read it from the log. */
  readFromLog(): void {
    for (const subscription of this.#live) subscription.switchToLog();
  }

  #reportProgress(): void {
    this.#progress = undefined;
    for (const subscription of this.#live) subscription.wake();
  }

  /** Ends every subscription. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#progress);
    for (const subscription of this.#all) subscription.end();
  }
}

/** The subscriptions that have caught up, and which of them want events of a type. */
class LiveSubscriptions {
  /** Position up to which everything was offered to all of them. */
  offered = 0;
  readonly #all = new Set<Subscription>();
  /** Cached by type: types are few, and the set of live subscriptions rarely changes. */
  readonly #wanting = new Map<string, readonly Subscription[]>();

  get size(): number {
    return this.#all.size;
  }

  add(subscription: Subscription): void {
    this.#all.add(subscription);
    this.#wanting.clear();
  }

  delete(subscription: Subscription): void {
    if (this.#all.delete(subscription)) this.#wanting.clear();
  }

  wanting(type: string): readonly Subscription[] {
    let wanting = this.#wanting.get(type);
    if (wanting === undefined) {
      wanting = [...this.#all].filter((subscription) => subscription.wantsType(type));
      this.#wanting.set(type, wanting);
    }
    return wanting;
  }

  [Symbol.iterator](): Iterator<Subscription> {
    return this.#all.values();
  }
}

interface SubscriptionParts {
  readonly source: SubscriptionSource;
  readonly after: number;
  readonly filter: CompiledFilter;
  readonly queueBytes: number;
  readonly signal: AbortSignal | undefined;
  readonly live: LiveSubscriptions;
  readonly all: Set<Subscription>;
}

class Subscription implements AsyncIterableIterator<RecordedEvent | CaughtUp> {
  readonly #parts: SubscriptionParts;
  /** Set while catching up. */
  #reader: EventReader | undefined;
  #queue: RecordedEvent[] = [];
  #queueHead = 0;
  #queuedBytes = 0;
  /** The queue overflowed: later events must be read from the log. */
  #behind = true;
  /** Everything up to here, and while it is live up to `LiveSubscriptions.offered`, is queued, yielded or filtered out. */
  #cursor: number;
  #announced = -1;
  #ended = false;
  /** Of the call of `next` that waits for an event. */
  #resolve: ((result: Result | Promise<Result>) => void) | undefined;
  readonly #onAbort = () => this.end();

  constructor(parts: SubscriptionParts) {
    this.#parts = parts;
    this.#cursor = parts.after;
    parts.all.add(this);
    parts.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Result> {
    const ready = this.#next();
    if (ready !== undefined) return Promise.resolve(ready);
    if (this.#behind) return this.#catchUp();
    return new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  /** What can be given now; undefined when it must wait, or load some more of the log. */
  #next(): Result | undefined {
    if (this.#ended) return finished;
    const event = this.#take();
    if (event !== undefined) return { value: event, done: false };
    if (this.#behind) return undefined;
    const reached = Math.max(this.#cursor, this.#parts.live.offered);
    if (reached <= this.#announced) return undefined;
    this.#announced = reached;
    return { value: { type: '$caughtUp', position: formatPosition(reached) }, done: false };
  }

  return(): Promise<Result> {
    this.end();
    return Promise.resolve(finished);
  }

  wantsType(type: string): boolean {
    return this.#parts.filter.acceptsType(type);
  }

  /** Queues an event of a matching type, unless it has it already or must read it from the log. */
  offer(batch: LiveBatch, index: number): void {
    const { filter, queueBytes } = this.#parts;
    if (this.#behind || batch.first + index <= this.#cursor) return;
    if (!filter.anyStream && !filter.acceptsStream(batch.stream(index))) return;
    if (this.#queuedBytes >= queueBytes) {
      this.#cursor = batch.first + index - 1;
      this.switchToLog();
      return;
    }
    this.#queue.push(batch.event(index));
    this.#queuedBytes += batch.bytes(index) + eventOverheadBytes;
    this.wake();
  }

  /** Something may have changed for a call of `next` that waits. */
  wake(): void {
    const resolve = this.#resolve;
    if (resolve === undefined) return;
    const result = this.#next() ?? (this.#behind ? this.#catchUp() : undefined);
    if (result === undefined) return;
    this.#resolve = undefined;
    resolve(result);
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#parts.signal?.removeEventListener('abort', this.#onAbort);
    this.#parts.all.delete(this);
    this.#parts.live.delete(this);
    this.#reader?.close();
    this.#reader = undefined;
    this.#queue = [];
    this.wake();
  }

  #take(): RecordedEvent | undefined {
    const event = this.#queue[this.#queueHead];
    if (event === undefined) return this.#reader?.take();
    this.#queueHead++;
    if (this.#queueHead === this.#queue.length) {
      this.#queue.length = 0;
      this.#queueHead = 0;
      this.#queuedBytes = 0;
    }
    return event;
  }

  /** Loads some more of the log, and joins the live ones when there is no more of it. */
  async #catchUp(): Promise<Result> {
    const { source, filter, live } = this.#parts;
    try {
      for (;;) {
        this.#reader ??= source.reader(this.#cursor, filter);
        const hasMore = await this.#reader.load();
        if (!hasMore && !this.#ended) {
          // nothing may be awaited from here on: what becomes visible next is offered
          this.#cursor = Math.max(this.#cursor, this.#reader.position);
          if (this.#cursor < source.visible()) continue;
          this.#reader.close();
          this.#reader = undefined;
          this.#behind = false;
          live.add(this);
        }
        const ready = this.#next();
        if (ready !== undefined) return ready;
        if (!this.#behind) return await this.next();
      }
    } catch (error) {
      this.end();
      throw error;
    }
  }

  switchToLog(): void {
    const { live } = this.#parts;
    this.#behind = true;
    this.#cursor = Math.max(this.#cursor, live.offered);
    live.delete(this);
    this.wake();
  }
}

/** The interface of an engine below `readAll` and `subscribe`: the log from a position on, read block by block. */
export interface EventReader {
  /** The next matching event among the loaded ones, or undefined when more must be loaded first. */
  take(): RecordedEvent | undefined;
  /** Loads more events. Resolves to false when there are no more for now. @throws LogCorrupted */
  load(): Promise<boolean>;
  /** Everything up to here has been taken or filtered out. */
  readonly position: number;
  /** Releases files and memory. A closed reader yields nothing. */
  close(): void;
}

/** Yields what the reader has, up to `maxCount` events, and ends when there is no more or when aborted. */
export class ReaderIteration implements AsyncIterableIterator<RecordedEvent> {
  readonly #open: () => EventReader;
  readonly #signal: AbortSignal | undefined;
  #reader: EventReader | undefined;
  #left: number;
  #ended = false;

  /** @param open called at the first `next`, so that a log is read as of then */
  constructor(open: () => EventReader, maxCount = Number.POSITIVE_INFINITY, signal?: AbortSignal) {
    this.#open = open;
    this.#left = maxCount;
    this.#signal = signal;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<RecordedEvent>> {
    const event = this.#ended || this.#left <= 0 ? undefined : this.#reader?.take();
    return event === undefined ? this.#loadNext() : Promise.resolve(this.#give(event));
  }

  #give(event: RecordedEvent): IteratorResult<RecordedEvent> {
    this.#left--;
    return this.#signal?.aborted ? this.#end() : { value: event, done: false };
  }

  async #loadNext(): Promise<IteratorResult<RecordedEvent>> {
    try {
      while (!this.#ended && this.#left > 0 && !this.#signal?.aborted) {
        this.#reader ??= this.#open();
        const event = this.#reader.take();
        if (event !== undefined) return this.#give(event);
        if (!(await this.#reader.load())) break;
      }
    } catch (error) {
      this.#end();
      throw error;
    }
    return this.#end();
  }

  #end(): IteratorResult<RecordedEvent> {
    this.#ended = true;
    this.#reader?.close();
    this.#reader = undefined;
    return finished;
  }

  return(): Promise<IteratorResult<RecordedEvent>> {
    return Promise.resolve(this.#end());
  }
}
