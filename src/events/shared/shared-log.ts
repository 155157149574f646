/**
 * The log of a worker process: appends go to the primary, which has the log open; reads come from the primary's segments.
 * What the primary makes visible becomes visible here before the appends that it answers together with it.
 */
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { PreparedAppend } from '../embedded/append-batch.ts';
import { type Disk, nodeDisk } from '../embedded/disk.ts';
import { recordId } from '../embedded/event-record.ts';
import { formatPosition, type Position, parsePosition, type RecordedEvent, type StreamName } from '../event.ts';
import {
  type Appended,
  type AppendOptions,
  type CaughtUp,
  type EventLog,
  EventTooLarge,
  type LogCapabilities,
  type LogStatus,
  LogUnavailable,
  type ReadAllOptions,
  type ReadStreamOptions,
  type StreamWrite,
  type SubscribeOptions,
} from '../log.ts';
import { haveIds, recordedBefore } from '../recent-appends.ts';
import { framedBytes } from '../replicated/append-frame.ts';
import { checkWrites, NEW_LOG, type SequencedAppend, untilAborted } from '../replicated/engine.ts';
import { nothing, Outbox, type OutboxTiming } from '../replicated/outbox.ts';
import {
  errorOfRefusal,
  jsonOf,
  maxAppendBytes,
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
/** The primary answers pings: an append that it has not answered waits for its disk. */
const untimed = Number.POSITIVE_INFINITY;
const outboxTiming: OutboxTiming = {
  queueTimeoutMs: untimed,
  outcomeTimeoutMs: untimed,
  stalledMs: untimed,
  stalledReadMs: untimed,
  retryMs: 0,
};
const maxUnansweredBytes = 256 * 1024 * 1024;

export class SharedLog implements EventLog {
  readonly capabilities: LogCapabilities;
  readonly #timing: SharedLogTiming;
  readonly #warn: (message: string, error: unknown) => void;
  readonly #link: PrimaryLink;
  readonly #reads: SharedReads;
  readonly #outbox: Outbox;
  readonly #listeners = new Set<(status: LogStatus) => void>();
  readonly #timer: NodeJS.Timeout;
  #primary: PrimaryStatus;
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
    this.#outbox = new Outbox({
      engine: link,
      known: () => ({ log: NEW_LOG, seen: { position: reads.visible(), check: 0 } }),
      timing: outboxTiming,
      maxBytes: options.maxUnansweredBytes ?? maxUnansweredBytes,
      troubleChanged: () => this.#noteState(),
    });
    this.#outbox.release();
    this.#state = this.status().state;
    this.#timer = setInterval(() => this.#check(), this.#timing.checkMs).unref();
  }

  /**
   * Opens the log that another process on this machine, the primary, serves. Resolves when it has answered.
   * @throws the reason of the signal
   */
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
      hello: () => ({ client, hasUnresolved: log !== undefined && log.#outbox.sent.length > 0 }),
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
    link.start();
    try {
      return await untilAborted(opened.promise, signal);
    } catch (error) {
      await link.close();
      throw error;
    }
  }

  append(writes: readonly StreamWrite[], options?: AppendOptions): Promise<Appended> {
    const withIds = haveIds(writes);
    const { until = 'durable' } = options ?? {};
    try {
      if (this.#closing !== undefined) throw new LogUnavailable('it has been closed', 'none');
      checkWrites(writes);
      const prepared = new PreparedAppend(writes, this.capabilities.maxEventBytes);
      const bytes = messageHeaderBytes + framedBytes(prepared);
      if (bytes > maxAppendBytes) throw new EventTooLarge('of an append', bytes, maxAppendBytes);
      const appended = this.#outbox.append(prepared, { withIds, ...(until !== 'durable' && { until }) });
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
    const { state, reason = this.#outbox.trouble, ...primary } = this.#primary;
    const status = {
      ...primary,
      head: formatPosition(Math.max(visible, this.#resolved)),
      durableHead: formatPosition(visible),
      queuedBytes: primary.queuedBytes + this.#outbox.bytes,
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
      if (this.#outbox.trouble === undefined) {
        // resolves when everything before it is durable
        if (this.#resolved > this.#reads.visible()) await this.#outbox.append(nothing);
        await this.#outbox.close();
      }
    } finally {
      const left = this.#outbox.isAwaited;
      if (left || this.#outbox.trouble !== undefined) this.#outbox.stop('it has been closed');
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
    if (this.#isAttached && this.#outbox.trouble !== undefined) this.#outbox.leaveTrouble();
    else if (kind === messageKinds.status) this.#noteState();
  }

  #done(buffer: Buffer, start: number): void {
    const appended = readDone(buffer, start);
    this.#resolved = Math.max(this.#resolved, buffer.readDoubleLE(start + 8));
    this.#outbox.answer(buffer.readDoubleLE(start), appended);
  }

  #refused(buffer: Buffer, start: number, end: number): void {
    const refusal = jsonOf(buffer, start + 8, end) as unknown as RefusedAppend;
    this.#outbox.answer(buffer.readDoubleLE(start), errorOfRefusal(refusal));
  }

  #lost(error: Error): void {
    this.#isAttached = false;
    this.#losses++;
    this.#outbox.hold();
    this.#outbox.enterTrouble(`${this.#link.name} is not reached: ${error.message}`);
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
    findRecorded(this.#reads, this.#outbox.sent, position).then(
      (recorded) => {
        if (losses !== this.#losses) return;
        for (const [{ number }, appended] of recorded) {
          this.#resolved = Math.max(this.#resolved, parsePosition(appended.position));
          this.#outbox.answer(number, appended);
        }
        this.#isAttached = true;
        this.#outbox.sendAgain();
        this.#outbox.leaveTrouble();
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
      this.#outbox.enterTrouble(`${this.#link.name} has not answered for ${stalledMs} ms`);
    }
    const { trouble } = this.#outbox;
    if (trouble !== undefined) this.#outbox.refuseSent(now - outcomeTimeoutMs, trouble);
    if (this.#isAttached && now - this.#heardAt >= checkMs) this.#link.ping();
  }

  #noteState(): void {
    const status = this.status();
    if (status.state === this.#state) return;
    this.#state = status.state;
    for (const listener of this.#listeners) listener(status);
  }
}

/** An append whose answer was lost with the connection. */
interface Wanted {
  readonly append: SequencedAppend;
  readonly found: RecordedEvent[];
}

/**
 * Finds out which appends were recorded. One that is not among them was not, and will not be: its primary has ended, or has
 * handled everything of the lost connection. Those without events, and those whose events had been recorded before, are not
 * among them either.
 * @param head up to which the log is read
 */
async function findRecorded(
  reads: Pick<SharedReads, 'readAll'>,
  appends: readonly SequencedAppend[],
  head: number,
): Promise<Map<SequencedAppend, Appended>> {
  const wanted = new Map<string, Wanted>();
  for (const append of appends) {
    if (append.records.length > 0) wanted.set(recordId(append.records, 0), { append, found: [] });
  }
  const recorded = new Map<SequencedAppend, Appended>();
  const first = Math.min(...appends.map(({ seen }) => seen.position));
  if (wanted.size === 0 || first >= head) return recorded;
  let current: Wanted | undefined;
  for await (const event of reads.readAll({ after: formatPosition(first), maxCount: head - first })) {
    current ??= wanted.get(event.id);
    if (current === undefined) continue;
    const { append, found } = current;
    found.push(event);
    const counts = append.writes.map(({ count }) => count);
    if (found.length < counts.reduce((sum, count) => sum + count, 0)) continue;
    recorded.set(append, appendedFrom(found, counts));
    current = undefined;
  }
  return recorded;
}

function appendedFrom(events: readonly RecordedEvent[], counts: readonly number[]): Appended {
  let next = 0;
  const revisions = counts.map((count) => {
    next += count;
    return count === 0 ? -1n : (events[next - 1]?.revision ?? -1n);
  });
  return { position: events.at(-1)?.position ?? formatPosition(0), revisions };
}
