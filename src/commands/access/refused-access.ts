/**
 * Records keys that were not accepted, at a bounded cost: for each reason and key at most one event per minute, with
 * the number of requests it represents, and for a limited number of reasons and keys at a time.
 */
import { accessRefused } from '../../events/catalogue/access.ts';
import { type EpochMs, streamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';

export type RefusedBecause = 'unknown' | 'inactive' | 'expired' | 'rotated';

const WINDOW_MS = 60_000;
/** Beyond this number of keys at a time, further keys with the same reason are counted together. */
const MAX_COUNTED = 1000;

interface Counted {
  readonly reason: RefusedBecause;
  readonly keyId: string | undefined;
  /** Refusals that are not yet recorded in an event. */
  count: number;
  since: number;
  /** When the next event may be written. */
  nextAt: number;
}

export interface RefusedAccessOptions {
  readonly log: EventLog;
  readonly now?: () => EpochMs;
  readonly onError: (error: unknown) => void;
}

export class RefusedAccess {
  readonly #options: Required<RefusedAccessOptions>;
  readonly #counted = new Map<string, Counted>();
  readonly #timer: NodeJS.Timeout;
  #writing: Promise<unknown> = Promise.resolve();

  constructor(options: RefusedAccessOptions) {
    this.#options = { now: Date.now, ...options };
    this.#timer = setInterval(() => this.writeDue(), WINDOW_MS / 4);
    this.#timer.unref();
  }

  /** Counts a refusal. The first with its reason and key is recorded at once. */
  note(reason: RefusedBecause, keyId?: string): void {
    const now = this.#options.now();
    const own = `${reason} ${keyId ?? ''}`;
    const kind = this.#counted.size < MAX_COUNTED || this.#counted.has(own) ? own : `${reason} `;
    let counted = this.#counted.get(kind);
    if (counted === undefined) {
      counted = { reason, keyId: kind === own ? keyId : undefined, count: 0, since: now, nextAt: now };
      this.#counted.set(kind, counted);
    }
    if (counted.count === 0) counted.since = now;
    counted.count += 1;
    if (now >= counted.nextAt) this.#write([counted], now);
  }

  /** Records the counts that are due, and drops those without a new refusal for a minute. */
  writeDue(): void {
    const now = this.#options.now();
    const due: Counted[] = [];
    for (const [kind, counted] of this.#counted) {
      if (now < counted.nextAt) continue;
      if (counted.count > 0) due.push(counted);
      else this.#counted.delete(kind);
    }
    this.#write(due, now);
  }

  /** Resolves when every count is recorded, or its append has failed. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#write(
      [...this.#counted.values()].filter(({ count }) => count > 0),
      this.#options.now(),
    );
    await this.#writing;
  }

  #write(due: readonly Counted[], now: number): void {
    if (due.length === 0) return;
    const events = due.map(({ reason, keyId, count, since }) =>
      accessRefused.create({ reason, ...(keyId === undefined ? {} : { keyId }), count, since }, { actor: 'system' }),
    );
    for (const counted of due) {
      counted.count = 0;
      counted.nextAt = now + WINDOW_MS;
    }
    const stream = streamName('access', 'refused');
    const { log, onError } = this.#options;
    this.#writing = log.append([{ stream, events, expectedRevision: 'any' }]).catch(onError);
  }
}
