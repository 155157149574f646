/**
 * Distinguishes a process that hangs from one that gets no processor time. A process that hangs either loops without
 * end, or waits for an event that never comes. A starved process does neither: its own processor time does not grow,
 * and it answers late.
 */
import { readFileSync } from 'node:fs';

export interface Patience {
  /** Processor time of its own, in milliseconds, that a process may use without a report. Default 15,000. */
  readonly processorMs?: number;
  /** Milliseconds that it may be silent. Default 120,000. */
  readonly silentMs?: number;
  /** The same until its first report: it may have a large folder to open. Default 600,000. */
  readonly startMs?: number;
}

export interface Watched {
  /** User and system time of the process so far, in milliseconds; undefined where that cannot be known. */
  processorMs(): number | undefined;
  /** Milliseconds of a monotonic clock. */
  now(): number;
}

/** Shorter silences are ignored: a report is due each second. */
const SHORT_MS = 3000;

export class Watchdog {
  readonly #watched: Watched;
  readonly #patience: Required<Patience>;
  #lastSignalAt: number;
  #started = false;
  /** Its processor time when it was first found silent. */
  #processorThen: number | undefined;

  constructor(watched: Watched, { processorMs = 15_000, silentMs = 120_000, startMs = 600_000 }: Patience = {}) {
    this.#watched = watched;
    this.#patience = { processorMs, silentMs, startMs };
    this.#lastSignalAt = watched.now();
  }

  /** The process has answered. */
  noteSignal(): void {
    this.#started = true;
    this.#lastSignalAt = this.#watched.now();
    this.#processorThen = undefined;
  }

  get silentMs(): number {
    return this.#watched.now() - this.#lastSignalAt;
  }

  /** Called each second. Why the process counts as hanging; undefined while it does not. */
  reasonToEnd(): string | undefined {
    const { processorMs, silentMs, startMs } = this.#patience;
    const most = this.#started ? silentMs : startMs;
    const silent = this.silentMs;
    if (silent >= most) return `it has not answered for ${Math.round(silent / 1000)} s`;
    if (!this.#started || silent < SHORT_MS) return undefined;
    const now = this.#watched.processorMs();
    this.#processorThen ??= now;
    if (now === undefined || this.#processorThen === undefined) return undefined;
    const spent = now - this.#processorThen;
    if (spent < processorMs) return undefined;
    return `it has not answered while it took ${Math.round(spent / 1000)} s of processor time`;
  }
}

/** USER_HZ, which Linux fixes at 100 for /proc on every architecture that Node runs on. */
const TICK_MS = 10;

/** Processor time of a process and its running children; undefined without Linux's `/proc`. */
export function processorMsOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const own = (Number(fields[11]) + Number(fields[12])) * TICK_MS;
    return childrenOf(pid).reduce((sum, child) => sum + (processorMsOf(child) ?? 0), own);
  } catch {
    return undefined;
  }
}

/** Children of its main thread: neither bwrap nor the analytics process starts any from other threads. */
function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return children.split(' ').filter(Boolean).map(Number);
}
