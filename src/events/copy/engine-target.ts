/** A copy on an engine. One append is on its way at a time, so that none can overtake another one. */
import { setTimeout as delay } from 'node:timers/promises';
import { ReadOnlyLog } from '../embedded/read-only-log.ts';
import { EventIdReused, LogUnavailable, WrongExpectedRevision } from '../log.ts';
import { EngineDamaged } from '../replicated/engine.ts';
import { LogDiverged } from '../replicated/log-diverged.ts';
import { parsePosition } from '../sequence-position.ts';
import type { RecordGroup } from './append-groups.ts';
import type { CopyOptions, LogOnEngine } from './copy-place.ts';
import { CopyRefused } from './copy-refused.ts';
import type { CopyTarget } from './copy-target.ts';
import { type EngineReplica, openEngineReplica } from './engine-replica.ts';
import type { RecordSource } from './stored-records.ts';

const retryMs = 250;

/** @throws as `ReplicatedLog.open` */
export async function openEngineTarget(place: LogOnEngine, options: CopyOptions): Promise<CopyTarget> {
  const replica = await openEngineReplica(place, 'reading the destination', options);
  const last = parsePosition(await replica.log.head());
  return new EngineTarget(replica, await ReadOnlyLog.open(replica.folder), last, options);
}

class EngineTarget implements CopyTarget {
  readonly last: number;
  readonly #replica: EngineReplica;
  readonly #options: CopyOptions;
  readonly #records: ReadOnlyLog;

  constructor(replica: EngineReplica, records: ReadOnlyLog, last: number, options: CopyOptions) {
    this.#replica = replica;
    this.#records = records;
    this.last = last;
    this.#options = options;
  }

  get records(): RecordSource {
    return this.#records;
  }

  async append(group: RecordGroup): Promise<void> {
    const position = await this.#appendUntilKnown(group);
    if (position !== group.last) {
      throw otherWriter(`position ${group.last} of the source is ${position} there`);
    }
  }

  /** Records that an append of unknown outcome has recorded are recognised by their ids. */
  async #appendUntilKnown(group: RecordGroup): Promise<number> {
    const { signal, onDelay } = this.#options;
    for (;;) {
      signal.throwIfAborted();
      try {
        return parsePosition((await this.#replica.log.appendRecords(group)).position);
      } catch (error) {
        if (error instanceof WrongExpectedRevision || error instanceof EventIdReused) {
          throw otherWriter(error.message, error);
        }
        if (!(error instanceof LogUnavailable)) throw error;
        const { cause } = error;
        if (cause instanceof LogDiverged || cause instanceof EngineDamaged) throw cause;
        onDelay?.(error.message);
      }
      await delay(retryMs, undefined, { signal });
    }
  }

  async finish(): Promise<number> {
    await this.#replica.log.close();
    return parsePosition(await this.#records.head());
  }

  /** Nothing marks an unfinished copy on an engine. */
  async complete(): Promise<void> {}

  async close(): Promise<void> {
    await this.#replica.log.close();
    await this.#records.close();
    await this.#replica.remove();
  }
}

function otherWriter(what: string, cause?: unknown): CopyRefused {
  const advice = 'if no gateway runs on it, run the command again, which compares what is there';
  return new CopyRefused(`something else appends to the destination: ${what}; ${advice}`, cause);
}
