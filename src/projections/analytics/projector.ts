/**
 * Follows the log and stores rows in ClickHouse: in large batches while it catches up, within about a second when it
 * is live. After a failure of the log or of ClickHouse it begins again from the stored position, after a pause that
 * grows to half a minute; after a crash of the process it does the same (see `batch-store.ts`).
 */
import { setTimeout as delay } from 'node:timers/promises';
import { formatPosition, parsePosition, type RecordedEvent, START } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { isCaughtUp } from '../projection.ts';
import { logIdOf, skippedBy, skippedEvents } from '../snapshot-basis.ts';
import { BatchBuilder, type Range, type RowBatch } from './batch.ts';
import { type BatchStore, OtherLog } from './batch-store.ts';
import type { Retention } from './rows.ts';
import { NewerWriter } from './writer-fence.ts';

export interface ProjectorStatus {
  /** `waiting`: something failed, and the projector will try again. `stopped`: it will not, as that cannot help. */
  readonly state: 'starting' | 'catching-up' | 'live' | 'waiting' | 'stopped';
  /** Everything up to this position is stored. */
  readonly position: number;
  /** Events in the log that are not stored yet. */
  readonly lagEvents: number;
  /** For how long the oldest event that is not stored has been in the log, in milliseconds; 0 when all are stored. */
  readonly lagMs: number;
  /** The last error, while `waiting` or `stopped`. */
  readonly error?: string;
}

export interface ProjectorOptions {
  readonly log: EventLog;
  readonly store: BatchStore;
  readonly retention: Retention;
  /** Events after which a batch is ended. Default 20,000. */
  readonly batchEvents?: number;
  /** Bytes of rows after which a batch is ended. Default 8 MiB. */
  readonly batchBytes?: number;
  /** Shortest time from one batch to the next after the catch-up. Default 500 ms. */
  readonly liveMs?: number;
  /** After a batch that took long, the pause before the next is at most this. Default 5 s. */
  readonly longestPauseMs?: number;
  /** The first pause after a failure, in milliseconds; doubled each time up to 30 s. Default 250. */
  readonly retryMs?: number;
  /** Called with each batch that is stored whole. */
  readonly onStored?: (batch: RowBatch) => void;
  /** Called with every failure. */
  readonly onError?: (error: Error) => void;
}

export interface Projector {
  status(): Promise<ProjectorStatus>;
  /** Resolves once everything up to this position is stored. Rejects when the projector is closed or stops. */
  whenStored(position: number): Promise<void>;
  /** Stops after the running batch. */
  close(): Promise<void>;
}

const longestRetryMs = 30_000;

export function startProjector(options: ProjectorOptions): Projector {
  const { log, store, retention, onError = () => {}, onStored = () => {} } = options;
  const { batchEvents = 20_000, batchBytes = 8 * 1024 * 1024, liveMs = 500, retryMs = 250 } = options;
  const { longestPauseMs = 5000 } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  let state: ProjectorStatus['state'] = 'starting';
  let failure: string | undefined;
  let stored = 0;
  /** Whether it has caught up once: from then on, requests have priority. */
  let wasLive = false;
  const lateness = new Lateness(performance.now());
  let pauseMs = retryMs;
  let waiting: { position: number; resolve: () => void; reject: (error: Error) => void }[] = [];

  function storedUpTo(position: number): void {
    stored = Math.max(stored, position);
    pauseMs = retryMs;
    failure = undefined;
    const done = waiting.filter((one) => one.position <= stored);
    waiting = waiting.filter((one) => one.position > stored);
    for (const { resolve } of done) resolve();
  }

  /** Makes the batch announced last again, and stores its missing rows. */
  async function finishLast(builder: BatchBuilder, { after, to, resumeAfter }: Range): Promise<void> {
    const head = parsePosition(await log.head());
    if (head < to) throw new OtherLog('the analytics', `holds events up to ${to}, but the log ends at ${head}`);
    for await (const event of log.readAll({ after: formatPosition(resumeAfter), signal })) {
      if (parsePosition(event.position) > to) break;
      builder.apply(event);
    }
    signal.throwIfAborted();
    builder.caughtUp();
    const batch = await builder.end(store.findAccounts);
    if (batch.to !== to || batch.after !== after) throw new Error(`the log has no events ${after + 1} to ${to}`);
    await store.complete(batch);
    storedUpTo(to);
    onStored(batch);
  }

  async function follow(): Promise<void> {
    const logId = await firstEventOf(log, signal);
    if (logId === undefined) return;
    await store.prepare(logId);
    const last = await store.lastAnnouncedBatch();
    const skipped = skippedBy('analytics', await skippedEvents(log));
    const builder = new BatchBuilder(last ?? { after: 0, resumeAfter: 0 }, retention, skipped);
    if (last !== undefined) await finishLast(builder, last);
    state = 'catching-up';

    let pendingWrite: Promise<void> = Promise.resolve();
    const pace = new LivePace({ shortestMs: liveMs, longestMs: longestPauseMs });
    const find: typeof store.findAccounts = async (ids, upTo) => {
      await pendingWrite;
      return store.findAccounts(ids, upTo);
    };
    async function send(): Promise<void> {
      const startedAt = performance.now();
      const batch = await builder.end(find);
      await pendingWrite;
      pendingWrite = writeBatch(batch, logId ?? '').then(() => {
        builder.reuse(batch);
        pace.stored(startedAt, performance.now());
      });
      // It is awaited before the next one, or right away.
      pendingWrite.catch(() => {});
    }
    try {
      const after = last === undefined ? START : formatPosition(last.to);
      for await (const item of log.subscribe({ after, signal })) {
        if (!isCaughtUp(item)) {
          builder.apply(item);
          if ((builder.events >= batchEvents || builder.bytes >= batchBytes) && builder.mayEnd) await send();
          continue;
        }
        builder.caughtUp();
        if (builder.events > 0) {
          await pause(pace.waitMs(performance.now()), signal);
          await send();
        }
        await pendingWrite;
        if (parsePosition(item.position) <= stored) {
          state = 'live';
          wasLive = true;
        }
      }
    } finally {
      await pendingWrite.catch(() => {});
    }
  }

  async function writeBatch(batch: RowBatch, logId: string): Promise<void> {
    await store.announce(batch, logId);
    await store.write(batch, logId, wasLive ? 'one' : 'all');
    storedUpTo(batch.to);
    onStored(batch);
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      try {
        await follow();
      } catch (error) {
        if (signal.aborted) break;
        failure = error instanceof Error ? error.message : String(error);
        onError(error instanceof Error ? error : new Error(failure));
        if (error instanceof OtherLog || error instanceof NewerWriter) {
          state = 'stopped';
          return;
        }
        state = 'waiting';
        await pause(pauseMs, signal);
        pauseMs = Math.min(pauseMs * 2, longestRetryMs);
      }
    }
  }

  const finished = run().finally(() => {
    for (const { reject } of waiting.splice(0)) reject(new Error(failure ?? 'the projector was closed'));
  });

  return {
    async status() {
      const head = parsePosition(await log.head());
      const lagEvents = Math.max(0, head - stored);
      const lagMs = Math.round(lateness.of(stored, head, performance.now()));
      return { state, position: stored, lagEvents, lagMs, ...(failure === undefined ? {} : { error: failure }) };
    },
    async whenStored(position) {
      if (position <= stored) return;
      if (signal.aborted || state === 'stopped') throw new Error(failure ?? 'the projector was closed');
      await new Promise<void>((resolve, reject) => waiting.push({ position, resolve, reject }));
    },
    async close() {
      stopping.abort();
      await finished;
    },
  };
}

/** A log is known by its first event; waits for it. Undefined when the wait was given up. */
async function firstEventOf(log: EventLog, signal: AbortSignal): Promise<string | undefined> {
  const known = await logIdOf(log);
  if (known !== undefined) return known;
  for await (const item of log.subscribe({ signal })) {
    if (!isCaughtUp(item)) return (item satisfies RecordedEvent).id;
  }
  return undefined;
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms > 0) await delay(ms, undefined, { signal }).catch(() => {});
}

/** For how long a reader of the log has been late, computed from earlier positions of the log's end. */
interface Moment {
  readonly at: number;
  /** Position of the last event at that moment. */
  readonly head: number;
}

/** Most moments kept. When they are reached, every second one is removed, which halves the resolution. */
const MOST_MOMENTS = 512;

export class Lateness {
  /** Moments whose end is not stored yet, in order. */
  #open: Moment[] = [];
  /** The last moment whose end is stored. */
  #currentAt: number;

  /** @param startedAt events in the log at the first call count as late since then */
  constructor(startedAt: number) {
    this.#currentAt = startedAt;
  }

  /**
   * Milliseconds since the last moment up to which every event is stored; 0 when every event is stored now. The
   * precision is the time between calls: an event appended between two calls counts from the earlier one.
   */
  of(stored: number, head: number, now: number): number {
    const next = this.#open.findIndex((moment) => moment.head > stored);
    const done = next === -1 ? this.#open.length : next;
    this.#currentAt = this.#open[done - 1]?.at ?? this.#currentAt;
    this.#open.splice(0, done);
    if (head <= stored) {
      this.#currentAt = now;
      return 0;
    }
    if (this.#open.length >= MOST_MOMENTS) this.#open = this.#open.filter((_, index) => index % 2 === 1);
    if (head > (this.#open.at(-1)?.head ?? 0)) this.#open.push({ at: now, head });
    return now - this.#currentAt;
  }
}

/** Of the time from one batch to the next, at most a quarter is spent on storing. */
const REST_PER_WORK = 3;

interface LivePaceOptions {
  /** Shortest time from the start of one batch to the start of the next. */
  readonly shortestMs: number;
  /** Longest pause after a batch that took long. */
  readonly longestMs: number;
}

export class LivePace {
  readonly #options: LivePaceOptions;
  #next = 0;

  constructor(options: LivePaceOptions) {
    this.#options = options;
  }

  /** Records that a batch was stored. Times are of one clock, in milliseconds. */
  stored(startedAt: number, endedAt: number): void {
    const { shortestMs, longestMs } = this.#options;
    const rest = Math.min(longestMs, REST_PER_WORK * (endedAt - startedAt));
    this.#next = Math.max(startedAt + shortestMs, endedAt + rest);
  }

  /** Milliseconds until the next batch may be started; 0 or less when that is now. */
  waitMs(now: number): number {
    return this.#next - now;
  }
}
