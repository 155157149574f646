/** Saves the counts of rate limits among the snapshots of the read models: they are derived from the log. */
import { deserialize, serialize } from 'node:v8';
import type { Position } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { logIdOf, saveBound } from './snapshot-basis.ts';
import type { ViewStore } from './view-store.ts';

export interface SavedCounts {
  readonly key: string;
  /** The last reset of the rule when the counts were saved. */
  readonly resetAt?: number | undefined;
  readonly requests: readonly (readonly [number, number])[];
  readonly tokens: readonly (readonly [number, number])[];
}

export interface LimitCounts {
  readonly gauges: readonly SavedCounts[];
  /** Exchanges that were running: their requests are counted, their tokens are not yet. */
  readonly open: readonly string[];
}

/** The counts up to a position in the log. */
export interface LimitMemory extends LimitCounts {
  readonly position: Position;
}

export interface LimitMemoryStoreOptions {
  readonly log: EventLog;
  readonly views: ViewStore;
  readonly onError: (error: unknown) => void;
  /** Everything up to it is counted. Default: the end of the log. */
  readonly position?: () => Position;
  /** Default 5000. */
  readonly saveEveryMs?: number;
}

const NAME = 'rate-limit-windows';
const VERSION = 2;

export class LimitMemoryStore {
  readonly #options: LimitMemoryStoreOptions;
  #timer: NodeJS.Timeout | undefined;
  #counts: (() => LimitCounts) | undefined;
  #saved: { readonly state: Buffer; readonly position: Position } | undefined;

  constructor(options: LimitMemoryStoreOptions) {
    this.#options = options;
  }

  /** @returns undefined when there are no counts of this log */
  async load(): Promise<LimitMemory | undefined> {
    const { log, views } = this.#options;
    const snapshot = views.load(NAME);
    if (snapshot === undefined || snapshot.version !== VERSION) return undefined;
    if (snapshot.logId !== (await logIdOf(log)) || snapshot.position > (await log.head())) return undefined;
    try {
      return { ...(deserialize(snapshot.state) as LimitCounts), position: snapshot.position };
    } catch {
      return undefined;
    }
  }

  /** Begins to save the counts regularly, when there are any. */
  begin(counts: () => LimitCounts): void {
    this.#counts = counts;
    const { saveEveryMs = 5000, onError } = this.#options;
    this.#timer = setInterval(() => void this.#save().catch(onError), saveEveryMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#save();
  }

  async #save(): Promise<void> {
    const { log, views } = this.#options;
    // First the position, then the counts: an event between the two may be counted twice, but is never left out.
    const position = this.#options.position?.() ?? (await log.head());
    const counts = this.#counts?.();
    if (counts === undefined) return;
    const before = this.#saved;
    if (before === undefined && counts.gauges.length === 0) return;
    const state = serialize(counts);
    const isSame = before !== undefined && state.equals(before.state);
    if (isSame && position === before?.position) return;
    const logId = await logIdOf(log);
    if (logId === undefined) return;
    // The position is saved also when the counts are unchanged, so that the next start has little to read.
    const snapshot = { name: NAME, version: VERSION, logId, position, ...(isSame ? {} : { state }) };
    if ((await saveBound(log, views, [snapshot])) !== undefined) this.#saved = { state, position };
  }
}
