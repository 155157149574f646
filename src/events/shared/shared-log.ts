/**
 * The log of a worker process: appends go to the primary, which has the log open; reads come from the primary's segments.
 * What the primary makes visible becomes visible here before the appends that it answers together with it.
 */
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { type Disk, nodeDisk } from '../embedded/disk.ts';
import { recordId } from '../embedded/event-record.ts';
import { formatPosition, type Position, parsePosition, type RecordedEvent, type StreamName } from '../event.ts';
import {
  type Appended,
  type AppendOptions,
  type CaughtUp,
  type EventLog,
  type LogCapabilities,
  type LogStatus,
  LogUnavailable,
  type ReadAllOptions,
  type ReadStreamOptions,
  type StreamWrite,
  type SubscribeOptions,
} from '../log.ts';
import { haveIds, recordedBefore } from '../recent-appends.ts';
import { readAppend, SentAppends, type UnansweredAppend } from './append-message.ts';
import {
  emptyMessage,
  errorOfRefusal,
  jsonOf,
  messageHeaderBytes,
  messageKinds,
  type PrimaryStatus,
  ProtocolError,
  type RefusedAppend,
  readDone,
  readEnd,
  type Welcome,
} from './messages.ts';
import { PrimaryLink } from './primary-link.ts';
import { SharedReads } from './shared-reads.ts';

export interface SharedLogTiming {
  /** After so long without an answer the log is unavailable. */
  readonly stalledMs: number;
  /** How long an append that was sent waits for its outcome while the primary does not answer. */
  readonly outcomeTimeoutMs: number;
  readonly retryMs: number;
  readonly checkMs: number;
}

export interface SharedLogOptions {
  /** As in `serveSharedLog`. */
  readonly socketPath: string;
  /** The folder of the primary's log. */
  readonly dir: string;
  readonly warn?: (message: string, error: unknown) => void;
  /** Ends the opening, which waits for the primary without limit: it then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  readonly timing?: Partial<SharedLogTiming>;
  /** Bytes of appends that may wait for their outcome. Default 256 MiB. */
  readonly maxUnansweredBytes?: number;
  /** For tests. */
  readonly disk?: Disk;
}

const usualTiming: SharedLogTiming = { stalledMs: 3_000, outcomeTimeoutMs: 15_000, retryMs: 100, checkMs: 500 };
const maxUnansweredBytes = 256 * 1024 * 1024;

export class SharedLog implements EventLog {
  readonly capabilities: LogCapabilities;
  readonly #timing: SharedLogTiming;
  readonly #warn: (message: string, error: unknown) => void;
  readonly #link: PrimaryLink;
  readonly #reads: SharedReads;
  readonly #appends: SentAppends;
  readonly #listeners = new Set<(status: LogStatus) => void>();
  readonly #timer: NodeJS.Timeout;
  #primary: PrimaryStatus;
  /** Why the primary is not reached or does not answer. */
  #trouble: string | undefined;
  #isAttached = true;
  /** How often the connection was lost. */
  #losses = 0;
  /** Position of the last event of the own appends that have resolved. */
  #resolved = 0;
  #heardAt = performance.now();
  #checkedAt = performance.now();
  #state: LogStatus['state'] = 'ok';
  #closing: Promise<void> | undefined;

  private constructor(parts: {
    options: SharedLogOptions;
    link: PrimaryLink;
    reads: SharedReads;
    welcome: Welcome;
  }) {
    const { options, link, reads, welcome } = parts;
    this.#timing = { ...usualTiming, ...options.timing };
    this.#warn = options.warn ?? (() => {});
    this.#link = link;
    this.#reads = reads;
    this.capabilities = welcome.capabilities;
    this.#primary = welcome.status;
    this.#appends = new SentAppends({
      maxEventBytes: welcome.capabilities.maxEventBytes,
      maxBytes: options.maxUnansweredBytes ?? maxUnansweredBytes,
      visible: () => reads.visible(),
    });
    this.#appends.attach((bytes, done) => link.write(bytes, done));
    this.#state = this.status().state;
    this.#timer = setInterval(() => this.#check(), this.#timing.checkMs).unref();
  }

  /** See `openSharedLog`. */
  static async open(options: SharedLogOptions): Promise<SharedLog> {
    const { socketPath, signal, warn } = options;
    signal?.throwIfAborted();
    const client = randomUUID();
    const opened = Promise.withResolvers<SharedLog>();
    let log: SharedLog | undefined;
    let warned = '';
    const link = new PrimaryLink({
      socketPath,
      retryMs: options.timing?.retryMs ?? usualTiming.retryMs,
      hello: () => ({ client, hasUnresolved: log === undefined ? false : log.#appends.hasSent }),
      welcomed: (welcome) => {
        if (log !== undefined) {
          log.#welcomed(welcome);
          return;
        }
        const reads = new SharedReads(
          { disk: options.disk ?? nodeDisk, dir: path.resolve(options.dir), mark: welcome.mark },
          welcome.end,
        );
        reads.begin(welcome.end, welcome.places);
        log = new SharedLog({ options, link, reads, welcome });
        opened.resolve(log);
      },
      received: (kind, buffer, start, end) => {
        if (log !== undefined) log.#receive(kind, buffer, start, end);
      },
      lost: (error) => {
        if (log !== undefined) log.#lost(error);
        else if (warned !== error.message) warn?.('the log is not open yet: the primary is not reached', error);
        warned = error.message;
      },
    });
    const abort = () => opened.reject(signal?.reason);
    signal?.addEventListener('abort', abort, { once: true });
    link.start();
    try {
      return await opened.promise;
    } catch (error) {
      await link.close();
      throw error;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  append(writes: readonly StreamWrite[], options?: AppendOptions): Promise<Appended> {
    const withIds = haveIds(writes);
    try {
      if (this.#closing !== undefined) throw new LogUnavailable('it has been closed', 'none');
      if (this.#trouble !== undefined) throw new LogUnavailable(this.#trouble, 'none');
      const appended = this.#appends.append(writes, options?.until ?? 'durable', withIds);
      return withIds ? appended.catch((error: unknown) => recordedBefore(this, writes, error)) : appended;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  readStream(stream: StreamName, options?: ReadStreamOptions): AsyncIterable<RecordedEvent> {
    return this.#reads.readStream(stream, options);
  }

  readAll(options?: ReadAllOptions): AsyncIterable<RecordedEvent> {
    return this.#reads.readAll(options);
  }

  subscribe(options?: SubscribeOptions): AsyncIterable<RecordedEvent | CaughtUp> {
    return this.#reads.subscribe(options);
  }

  async head(): Promise<Position> {
    return formatPosition(this.#reads.visible());
  }

  status(): LogStatus {
    const visible = this.#reads.visible();
    const { state, reason = this.#trouble, ...primary } = this.#primary;
    const status = {
      ...primary,
      head: formatPosition(Math.max(visible, this.#resolved)),
      durableHead: formatPosition(visible),
      queuedBytes: primary.queuedBytes + this.#appends.bytes,
      segments: this.#reads.segments,
      subscriptions: this.#reads.subscriptions,
    };
    return reason === undefined ? { ...status, state: 'ok' } : { ...status, state: 'unavailable', reason };
  }

  onStatusChange(listener: (status: LogStatus) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    try {
      if (this.#trouble === undefined) {
        // resolves when everything before it is durable
        if (this.#resolved > this.#reads.visible()) await this.#appends.append([], 'durable', false);
        await this.#appends.settled();
      }
    } finally {
      const left = this.#appends.bytes > 0;
      this.#appends.refuse('it has been closed', Number.POSITIVE_INFINITY);
      clearInterval(this.#timer);
      this.#reads.close();
      await this.#link.close();
      // biome-ignore lint/correctness/noUnsafeFinally: an earlier error has the same meaning
      if (left) throw new LogUnavailable('it was closed before the primary had answered', 'unknown');
    }
  }

  #receive(kind: number, buffer: Buffer, start: number, end: number): void {
    this.#heardAt = performance.now();
    switch (kind) {
      case messageKinds.end:
        this.#reads.advance(readEnd(buffer, start));
        break;
      case messageKinds.done:
        this.#done(buffer, start);
        break;
      case messageKinds.refused:
        this.#refused(buffer, start, end);
        break;
      case messageKinds.status:
        this.#primary = jsonOf(buffer, start, end) as unknown as PrimaryStatus;
        break;
      case messageKinds.pong:
        break;
      default:
        throw new ProtocolError(`a message of the primary has the kind ${kind}`);
    }
    if (this.#isAttached && this.#trouble !== undefined) this.#setTrouble(undefined);
    else if (kind === messageKinds.status) this.#noteState();
  }

  #done(buffer: Buffer, start: number): void {
    const appended = readDone(buffer, start);
    this.#resolved = Math.max(this.#resolved, buffer.readDoubleLE(start + 8));
    this.#appends.resolve(buffer.readDoubleLE(start), appended);
  }

  #refused(buffer: Buffer, start: number, end: number): void {
    const refusal = jsonOf(buffer, start + 8, end) as unknown as RefusedAppend;
    this.#appends.reject(buffer.readDoubleLE(start), errorOfRefusal(refusal));
  }

  #lost(error: Error): void {
    this.#isAttached = false;
    this.#losses++;
    this.#appends.detach();
    this.#setTrouble(`the primary process is not reached: ${error.message}`);
  }

  /** The connection was lost and is there again, perhaps to another primary process. */
  #welcomed(welcome: Welcome): void {
    if (welcome.mark !== this.#reads.mark || welcome.end.position < this.#reads.visible()) {
      throw new Error('the primary process has another log than before, or has lost its end');
    }
    this.#heardAt = performance.now();
    this.#primary = welcome.status;
    this.#reads.begin(welcome.end, welcome.places);
    const { position } = welcome.end;
    const losses = this.#losses;
    findRecorded(this.#reads, [...this.#appends.sent()], position).then(
      (recorded) => {
        if (losses !== this.#losses) return;
        for (const [{ number }, appended] of recorded) {
          this.#resolved = Math.max(this.#resolved, parsePosition(appended.position));
          this.#appends.resolve(number, appended);
        }
        this.#isAttached = true;
        this.#appends.attach((bytes, done) => this.#link.write(bytes, done));
        this.#setTrouble(undefined);
      },
      (error: unknown) => {
        this.#warn('the appends before the lost connection cannot be looked up; trying again', error);
        this.#link.reconnect();
      },
    );
  }

  #check(): void {
    const now = performance.now();
    const { stalledMs, outcomeTimeoutMs, checkMs } = this.#timing;
    // so late a check finds this process behind: what the primary has sent was not read yet
    if (now - this.#checkedAt > 2 * checkMs) this.#heardAt = now;
    this.#checkedAt = now;
    if (this.#isAttached && now - this.#heardAt >= stalledMs) {
      this.#setTrouble(`the primary process has not answered for ${stalledMs} ms`);
    }
    if (this.#trouble !== undefined) this.#appends.refuse(this.#trouble, now - outcomeTimeoutMs);
    if (this.#isAttached && now - this.#heardAt >= checkMs) this.#link.write(emptyMessage(messageKinds.ping));
  }

  #setTrouble(trouble: string | undefined): void {
    this.#trouble = trouble;
    this.#noteState();
  }

  #noteState(): void {
    const status = this.status();
    if (status.state === this.#state) return;
    this.#state = status.state;
    for (const listener of this.#listeners) listener(status);
  }
}

/** Finds out which appends were recorded whose answers were lost with the connection. */
interface Wanted {
  readonly append: UnansweredAppend;
  /** Number of events of each write. */
  readonly counts: readonly number[];
  readonly found: RecordedEvent[];
}

/**
 * An append that is not among them was not recorded, and will not be: its primary has ended, or has handled everything of the
 * lost connection. Those without events, and those whose events had been recorded before, are not among them either.
 * @param head up to which the log is read
 */
async function findRecorded(
  reads: Pick<SharedReads, 'readAll'>,
  appends: readonly UnansweredAppend[],
  head: number,
): Promise<Map<UnansweredAppend, Appended>> {
  const wanted = wantedOf(appends);
  const recorded = new Map<UnansweredAppend, Appended>();
  const first = Math.min(...appends.map(({ seen }) => seen));
  if (wanted.size === 0 || first >= head) return recorded;
  let current: Wanted | undefined;
  for await (const event of reads.readAll({ after: formatPosition(first), maxCount: head - first })) {
    current ??= wanted.get(event.id);
    if (current === undefined) continue;
    const { append, counts, found } = current;
    found.push(event);
    if (found.length < counts.reduce((sum, count) => sum + count, 0)) continue;
    recorded.set(append, appendedFrom(found, counts));
    current = undefined;
  }
  return recorded;
}

/** By the ids of their first events. */
function wantedOf(appends: readonly UnansweredAppend[]): Map<string, Wanted> {
  const wanted = new Map<string, Wanted>();
  for (const append of appends) {
    if (append.message === undefined) continue;
    const { writes, records } = readAppend(append.message, append.start + messageHeaderBytes, append.end);
    if (records.length === 0) continue;
    wanted.set(recordId(records, 0), { append, counts: writes.map(({ count }) => count), found: [] });
  }
  return wanted;
}

function appendedFrom(events: readonly RecordedEvent[], counts: readonly number[]): Appended {
  let next = 0;
  const revisions = counts.map((count) => {
    next += count;
    return count === 0 ? -1n : (events[next - 1]?.revision ?? -1n);
  });
  return { position: events.at(-1)?.position ?? formatPosition(0), revisions };
}

// Opens the log that another process on this machine, the primary, has open and serves.

/** Resolves when the primary has answered. @throws the reason of the signal */
export function openSharedLog(options: SharedLogOptions): Promise<SharedLog> {
  return SharedLog.open(options);
}
