/** The highest rate that a server sustains when requests are sent at fixed times, independent of answers. */
import type { LoadResult } from '../load/load.ts';
import type { Subject } from '../servers/subject.ts';
import { SUSTAINED } from '../work.ts';
import { runRound, type Stand } from './round.ts';

/**
 * A rate is kept up when fewer than one request in a thousand fails, the 99th percentile from the time at which it was to be
 * sent is below a second, and as many are answered as come in: a short measurement of a server that falls behind
 * slowly would pass the first two. A rate that is not kept up is tried once more, since the machine may have been disturbed.
 */
const MOST_FAILED = 0.001;
const MOST_P99_MS = 1000;
const LEAST_ANSWERED = 0.97;
const CONNECTIONS = 512;
const WARM_UP_SECONDS = 0.5;
/** The search ends when the bounds are this close. */
const PRECISION = 0.05;
/** Factor on the rate in a closed loop: a sustained rate rarely exceeds the result. */
const FIRST = 1.3;

export interface Sustained {
  readonly server: string;
  /** Requests per second; 0 when no tested rate was sustained. */
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
}

export async function measureSustained(stand: Stand, subject: Subject, seconds: number): Promise<Sustained> {
  let best = { perSecond: 0, p50: 0, p99: 0 };
  const closed = { connections: 64, seconds: 1, warmUpSeconds: WARM_UP_SECONDS };
  const { result } = await runRound(stand, subject, SUSTAINED, closed);
  let [low, high] = [0, Math.max(100, result.perSecond * FIRST)];
  for (let rate = result.perSecond * 0.8; high - low > high * PRECISION; rate = (low + high) / 2) {
    const tried = (await tryRate(stand, subject, rate, seconds)) ?? (await tryRate(stand, subject, rate, seconds));
    if (tried === undefined) high = rate;
    else {
      low = rate;
      best = { perSecond: tried.perSecond, p50: tried.latencyMs.p50, p99: tried.latencyMs.p99 };
    }
  }
  return { server: subject.name, ...best };
}

/** Undefined when the rate was not sustained. */
async function tryRate(stand: Stand, subject: Subject, rate: number, seconds: number): Promise<LoadResult | undefined> {
  const load = { connections: CONNECTIONS, seconds, warmUpSeconds: WARM_UP_SECONDS, perSecond: rate };
  const { result } = await runRound(stand, subject, SUSTAINED, load);
  return isKept(result, rate * seconds) ? result : undefined;
}

/** `due`: the requests that were due in the measured time. */
export function isKept({ answers, total, failures, latencyMs }: LoadResult, due: number): boolean {
  const failed = Object.values(failures).reduce((sum, count) => sum + count, 0);
  return failed <= total * MOST_FAILED && latencyMs.p99 < MOST_P99_MS && answers >= due * LEAST_ANSWERED;
}
