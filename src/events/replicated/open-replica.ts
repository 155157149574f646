import type { Disk } from '../embedded/disk.ts';
import { EmbeddedLog } from '../embedded/embedded-log.ts';
import { describeMissing, LogCorrupted, LogIncomplete } from '../embedded/log-errors.ts';
import {
  EngineDamaged,
  type EnginePlace,
  EngineUnavailable,
  EngineUnsuitable,
  type LogEngine,
  PlaceLost,
  type PlaceState,
  pause,
} from './engine.ts';

export interface OpenReplicaOptions {
  readonly dir: string;
  readonly warn?: ((message: string, error: unknown) => void) | undefined;
  readonly disk?: Disk | undefined;
}

/** Opens the files of a replica. @throws ReplicaDamaged, and as `EmbeddedLog.open` */
export async function openReplica({ dir, warn, disk }: OpenReplicaOptions): Promise<EmbeddedLog> {
  try {
    const given = { ...(warn && { warn }), ...(disk && { disk }) };
    return await EmbeddedLog.open(dir, { durability: 'relaxed', replica: true, ...given });
  } catch (error) {
    throw error instanceof LogCorrupted || error instanceof LogIncomplete ? new ReplicaDamaged(dir, error) : error;
  }
}

/** The files of a replica are damaged or incomplete. Nothing is lost: the engine has every event. */
class ReplicaDamaged extends Error {
  readonly code = 'replica_damaged';
  constructor(dir: string, cause: LogCorrupted | LogIncomplete) {
    const reason = cause instanceof LogIncomplete ? cause.missing.map(describeMissing).join('; ') : cause.message;
    super(
      `the replica of the log in ${dir} is damaged: ${reason}. Its engine has every event: delete the folder and start ` +
        'again. The replica is then read anew from the engine (docs/scale.md, run-book "The replica\'s folder is damaged or ' +
        'lost")',
      { cause },
    );
  }
}

/**
 * Opens the engine, again and again until it can be reached or the signal is aborted.
 * @param hasEvents whether the replica has events
 * @param delayed called each time it cannot be used for another reason
 * @throws EngineUnsuitable, PlaceLost
 */
export async function openEngine(
  engine: LogEngine,
  hasEvents: boolean,
  retryMs: number,
  delayed: (reason: string, error: unknown) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  let reason: string | undefined;
  while (!signal?.aborted) {
    try {
      return await engine.open(hasEvents);
    } catch (error) {
      if (error instanceof EngineUnsuitable || error instanceof PlaceLost) throw error;
      const latest = error instanceof Error ? error.message : String(error);
      if (latest !== reason) delayed(`${engine.name}: ${latest}`, error);
      reason = latest;
      await pause(retryMs, signal);
    }
  }
}

/**
 * Compares the place that a replica has read to with its engine: before anything is appended, and every few seconds from
 * then on. A reader that goes on in a topic which was replaced by a longer one would not notice otherwise.
 */
interface PlaceWatchParts {
  readonly engine: LogEngine;
  readonly place: () => EnginePlace | undefined;
  /** Whether the replica has events that were not found on the engine so far. */
  readonly isBehindReplica: () => boolean;
  /** The replica does not match its engine, or the engine cannot be used at all. */
  readonly failed: (error: unknown) => void;
  readonly unavailable: (error: Error) => void;
  readonly signal: AbortSignal;
  readonly timing: PlaceWatchTiming;
}

export interface PlaceWatchTiming {
  /** Time between two comparisons while the log is open. */
  readonly verifyMs: number;
  /** A reader that yields nothing for so long has stalled. */
  readonly stalledReadMs: number;
  readonly retryMs: number;
}

/** How often damaged bytes are read before the engine's copy counts as damaged. */
export const maxDamagedReads = 5;
/**
 * The engine has records after the place, and yields none: a reader joins slowly on a busy machine, or the records are none
 * that readers get, such as the ends of transactions of other programs. After so many times `stalledReadMs` it is the latter.
 */
const stalledReadsAtEnd = 12;
/** Delay between two looks whether reading has reached the end of the engine. */
const endPollMs = 50;

export class PlaceWatch {
  readonly #parts: PlaceWatchParts;
  #timer: NodeJS.Timeout | undefined;
  #running = false;

  constructor(parts: PlaceWatchParts) {
    this.#parts = parts;
  }

  /** Resolves when the engine was found to have what is before the place. @throws PlaceLost, EngineDamaged, EngineUnsuitable */
  async verify(): Promise<PlaceState | undefined> {
    const { engine, place, signal, timing, unavailable } = this.#parts;
    for (let damaged = 0; !signal.aborted; ) {
      try {
        return await engine.verify(place());
      } catch (error) {
        // bytes can be damaged on their way
        const isTemporary = error instanceof EngineDamaged && ++damaged < maxDamagedReads;
        if (!isTemporary && !(error instanceof EngineUnavailable)) throw error;
        unavailable(error);
        await pause(timing.retryMs, signal);
      }
    }
    return undefined;
  }

  /**
   * While the engine is being read: resolves when every event of the replica was found on it.
   * @returns false when the engine has ended before that
   */
  async hasEverything(): Promise<boolean> {
    const { place, isBehindReplica, signal, timing } = this.#parts;
    let latest = place();
    let since = performance.now();
    while (isBehindReplica() && !signal.aborted) {
      const before = place();
      const state = await this.verify();
      if (before !== latest) {
        latest = before;
        since = performance.now();
      }
      // what lies before the place was looked at completely
      if (state?.isEnd && place() === before) return !isBehindReplica();
      if (performance.now() - since > stalledReadsAtEnd * timing.stalledReadMs) return !isBehindReplica();
      await pause(endPollMs, signal);
    }
    return true;
  }

  /** Compares every few seconds until the signal is aborted. */
  start(): void {
    this.#timer = setInterval(() => this.soon(), this.#parts.timing.verifyMs).unref();
    this.#parts.signal.addEventListener('abort', () => clearInterval(this.#timer), { once: true });
  }

  /** Compares now, unless that is being done. */
  soon(): void {
    if (this.#running || this.#timer === undefined) return;
    this.#running = true;
    void this.#once().finally(() => {
      this.#running = false;
    });
  }

  async #once(): Promise<void> {
    const { engine, place, failed, signal } = this.#parts;
    try {
      await engine.verify(place());
    } catch (error) {
      // an engine that cannot be reached is noticed by reading and appending
      if (signal.aborted || error instanceof EngineUnavailable || error instanceof EngineDamaged) return;
      failed(error);
      clearInterval(this.#timer);
    }
  }
}
