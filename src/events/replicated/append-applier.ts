/**
 * Decides about appends in the order of the engine, and places the accepted ones into the replica. What is decided
 * depends on the engine's content alone, so every replica has the same events at the same positions.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EmbeddedLog } from '../embedded/embedded-log.ts';
import { recordEnd, recordId } from '../embedded/event-record.ts';
import type { InOrderWriter } from '../embedded/in-order-writer.ts';
import { formatPosition, type RecordedEvent } from '../event.ts';
import { EventIdReused, LogUnavailable, WrongExpectedRevision } from '../log.ts';
import { type SavedNumbers, WriterNumbers } from './checkpoint-file.ts';
import { NEW_LOG, type SeenEvent, type SequencedAppend } from './engine.ts';
import type { AppendResult } from './outbox.ts';
import { RecentIds, recentIdCount } from './recent-ids.ts';

/** What is known at the place where reading begins. */
export interface Beginning {
  readonly log: string | undefined;
  /** Of the last event before it. */
  readonly position: number;
  readonly numbers: SavedNumbers | undefined;
}

export interface DecidedAppend {
  readonly append: SequencedAppend;
  readonly result: AppendResult;
}

interface Placed {
  /** Among the appends of the call. */
  readonly index: number;
  readonly decision: DecidedAppend;
  /** Position of the last event after it. */
  readonly last: number;
  readonly undo: () => void;
}

/** The writer of the append has read another log than this replica. */
export class HistoryDiffers extends LogUnavailable {
  /** Of the last event that this replica had then. */
  readonly position: number;
  /** Whether it is an append of this log, and not of another log on the same engine. */
  readonly isOfThisLog: boolean;
  constructor(position: number, isOfThisLog: boolean) {
    super('this gateway has read another log than the others from the engine', 'none');
    this.position = position;
    this.isOfThisLog = isOfThisLog;
  }
}

/** An append that was not placed, and is decided again. */
class NotPlaced extends Error {}

/** The replica's files, as they are used here. */
export type ReplicaFiles = Pick<EmbeddedLog, 'readAll' | 'visible'> & {
  inOrder(): Pick<InOrderWriter, 'prepare' | 'place' | 'write'>;
};

/** What is decided in one turn of the event loop: some milliseconds of work. */
const maxPass = { appends: 512, bytes: 1024 * 1024 };

export class AppendApplier {
  readonly #replica: ReplicaFiles;
  readonly #writer: ReturnType<ReplicaFiles['inOrder']>;
  #ids: RecentIds;
  #numbers: WriterNumbers;
  /** Which log it is; undefined before its first append was read. */
  #log: string | undefined;
  /** While the replica has events that were not found on the engine yet. */
  #recorded: RecordedAppends | undefined;
  #position: number;
  /** Decided since the event loop had its last turn. */
  #pass = { appends: 0, bytes: 0 };

  private constructor(replica: ReplicaFiles, ids: RecentIds, { position, log, numbers }: Beginning) {
    this.#log = log;
    this.#replica = replica;
    this.#writer = replica.inOrder();
    this.#ids = ids;
    this.#numbers = new WriterNumbers(numbers);
    this.#position = position;
    if (position < ids.last) this.#recorded = new RecordedAppends(replica, position);
  }

  static async open(replica: ReplicaFiles, beginning: Beginning): Promise<AppendApplier> {
    return new AppendApplier(replica, await latestIds(replica), beginning);
  }

  get log(): string | undefined {
    return this.#log;
  }

  /** Position of the last event that was found on the engine. */
  get position(): number {
    return this.#position;
  }

  /** Whether the replica has events that were not found on the engine so far. */
  get isBehindReplica(): boolean {
    return this.#recorded !== undefined;
  }

  get seen(): SeenEvent {
    if (this.#recorded !== undefined) return { position: 0, check: 0 };
    return { position: this.#position, check: this.#ids.check(this.#position) ?? 0 };
  }

  saveNumbers(): SavedNumbers {
    return this.#numbers.save();
  }

  /**
   * Decides about all of them, in order. The event loop gets a turn after each pass, also between two calls.
   * @returns the decisions of each pass, without repetitions of the same writer and number
   */
  async *apply(appends: readonly SequencedAppend[], signal: AbortSignal): AsyncIterable<readonly DecidedAppend[]> {
    for (let done = 0; done < appends.length; ) {
      const count = this.#countOfPass(appends, done);
      if (count === 0) {
        await nextTurn();
        this.#pass = { appends: 0, bytes: 0 };
        continue;
      }
      const decisions: DecidedAppend[] = [];
      try {
        await this.#decideAll(appends.slice(done, done + count), decisions, signal);
      } catch (error) {
        // what was decided before the error is not decided again when the appends are read again
        yield decisions;
        throw error;
      }
      yield decisions;
      done += count;
    }
  }

  /** How many of the appends from this index on are decided in this turn of the event loop. */
  #countOfPass(appends: readonly SequencedAppend[], from: number): number {
    let count = 0;
    while (from + count < appends.length && this.#pass.appends < maxPass.appends && this.#pass.bytes < maxPass.bytes) {
      this.#pass.appends++;
      this.#pass.bytes += appends[from + count]?.records.length ?? 0;
      count++;
    }
    return count;
  }

  /** @param decisions is extended, also when this fails */
  async #decideAll(
    appends: readonly SequencedAppend[],
    decisions: DecidedAppend[],
    signal: AbortSignal,
  ): Promise<void> {
    let done = 0;
    for (; this.#recorded !== undefined && done < appends.length; done++) {
      const append = appends[done];
      if (append !== undefined) await this.#find(append, decisions);
    }
    while (done < appends.length) {
      const left = appends.slice(done);
      await this.#writer.prepare(
        left.flatMap(({ writes }) => writes),
        signal,
      );
      done += await this.#place(left, decisions);
    }
  }

  async #find(append: SequencedAppend, decisions: DecidedAppend[]): Promise<void> {
    const undo = this.#numbers.count(append.writer, append.number);
    if (undo === undefined || this.#recorded === undefined) return;
    const ids = idsOf(append);
    try {
      if (ids.length > 0 && (await this.#recorded.take(ids))) this.#position += ids.length;
    } catch (error) {
      undo();
      this.#recorded = new RecordedAppends(this.#replica, this.#position);
      throw error;
    }
    this.#log ??= append.log === NEW_LOG ? append.writer : append.log;
    if (this.#position === this.#ids.last) this.#recorded = undefined;
    decisions.push({ append, result: { position: formatPosition(this.#position), revisions: [] } });
  }

  /**
   * An append counts as processed only with its decision: one that was not placed is decided again, and so are those after it.
   * @returns how many of them are decided: fewer when the disk has refused a part, or a stream must be looked up
   * @throws what deciding about the first of them throws
   */
  async #place(appends: readonly SequencedAppend[], decisions: DecidedAppend[]): Promise<number> {
    const placed: Placed[] = [];
    let failure: unknown;
    for (const [index, append] of appends.entries()) {
      const undo = this.#numbers.count(append.writer, append.number);
      if (undo === undefined) continue;
      const result = this.#tryToDecide(append);
      placed.push({ index, decision: { append, result }, last: this.#ids.last, undo });
      if (!(result instanceof NotPlaced)) continue;
      failure = result.cause;
      break;
    }
    const written = this.#writer.write();
    const refused = placed.findIndex(({ last, decision }) => last > written || decision.result instanceof NotPlaced);
    const undone = refused === -1 ? [] : placed.splice(refused);
    for (const { undo } of undone.toReversed()) undo();
    if (undone.some(({ last }) => last > written)) this.#ids = await latestIds(this.#replica);
    this.#position = this.#ids.last;
    decisions.push(...placed.map(({ decision }) => decision));
    if (failure !== undefined && placed.length === 0) throw failure;
    return undone[0]?.index ?? appends.length;
  }

  #tryToDecide(append: SequencedAppend): AppendResult {
    try {
      return this.#decide(append);
    } catch (error) {
      return new NotPlaced('deciding has failed', { cause: error });
    }
  }

  #decide(append: SequencedAppend): AppendResult {
    const ids = idsOf(append);
    if (!this.#isOfThisLog(append)) return new HistoryDiffers(this.#ids.last, false);
    if (!this.#hasSeenTheSame(append)) return new HistoryDiffers(this.#ids.last, true);
    const repeated = this.#ids.find(ids);
    if (repeated !== undefined) {
      return 'reused' in repeated
        ? new EventIdReused(repeated.reused)
        : answerFor(this.#replica, append, repeated.first);
    }
    try {
      const appended = this.#writer.place(append);
      if (appended === undefined) return new NotPlaced('a stream must be looked up');
      for (const [index, id] of ids.entries()) this.#ids.add(id, index === 0 ? 'yes' : 'no');
      return appended;
    } catch (error) {
      if (error instanceof WrongExpectedRevision) return error;
      if (error instanceof LogUnavailable) return new NotPlaced('the disk has refused it');
      throw error;
    }
  }

  #isOfThisLog({ log, writer }: SequencedAppend): boolean {
    this.#log ??= log === NEW_LOG ? writer : log;
    return log === NEW_LOG || log === this.#log;
  }

  /** An append whose writer has read something else is not accepted, by any replica that has read the same as this one. */
  #hasSeenTheSame({ seen: { position, check } }: SequencedAppend): boolean {
    if (position > this.#ids.last) return false;
    const own = this.#ids.check(position);
    return own === undefined || own === check;
  }
}

export function idsOf({ records }: Pick<SequencedAppend, 'records'>): string[] {
  const ids: string[] = [];
  for (let at = 0; at < records.length; at = recordEnd(records, at)) ids.push(recordId(records, at));
  return ids;
}

async function latestIds(replica: ReplicaFiles): Promise<RecentIds> {
  const head = replica.visible();
  const first = Math.max(0, head - recentIdCount);
  const ids = new RecentIds(first);
  for await (const { id } of replica.readAll({ after: formatPosition(first) })) ids.add(id, 'unknown');
  return ids;
}

/** What the first append of these events was answered. It may be in the same batch, which is written in this turn. */
async function answerFor(replica: ReplicaFiles, { writes }: SequencedAppend, first: number) {
  await Promise.resolve();
  const count = writes.reduce((sum, write) => sum + write.count, 0);
  const events: RecordedEvent[] = [];
  for await (const event of replica.readAll({ after: formatPosition(first - 1), maxCount: count })) events.push(event);
  let next = 0;
  const revisions = writes.map((write) => {
    next += write.count;
    return events[next - 1]?.revision ?? -1n;
  });
  return { position: formatPosition(first + count - 1), revisions };
}

/** The events of a replica that lie behind the place where its engine is read: which of them an append has recorded. */
class RecordedAppends {
  readonly #events: AsyncIterator<RecordedEvent>;
  #next: string[] = [];

  /** @param after position of the last event before that place */
  constructor(replica: Pick<EmbeddedLog, 'readAll'>, after: number) {
    this.#events = replica.readAll({ after: formatPosition(after) })[Symbol.asyncIterator]();
  }

  /** Whether the next events are those with these ids; they are then taken. */
  async take(ids: readonly string[]): Promise<boolean> {
    while (this.#next.length < ids.length) {
      const { value, done } = await this.#events.next();
      if (done) return false;
      this.#next.push(value.id);
    }
    if (!ids.every((id, index) => this.#next[index] === id)) return false;
    this.#next = this.#next.slice(ids.length);
    return true;
  }
}
