/** One load on one server, which is idle before and after it. */
import type { Load, LoadResult } from '../load/load.ts';
import type { LoadProcess } from '../load/load-process.ts';
import type { Awake } from '../servers/awake.ts';
import { cores } from '../servers/cores.ts';
import { flushes, flushMs, type QuietDisk } from '../servers/disk.ts';
import { coreTimes, type Disturbance, disturbance } from '../servers/disturbance.ts';
import { processorMs, residentMb } from '../servers/process-stat.ts';
import type { Subject } from '../servers/subject.ts';
import { requestFor, type Work } from '../work.ts';

/** The processes that every section uses. */
export interface Stand {
  readonly load: LoadProcess;
  readonly awake: Awake | undefined;
  /** Undefined: rounds do not wait for it. */
  readonly disk?: QuietDisk | undefined;
}

export type RoundLoad = Pick<Load, 'connections' | 'seconds' | 'warmUpSeconds' | 'rampSeconds' | 'perSecond'>;

export interface Round {
  readonly result: LoadResult;
  /**
   * Processor time of the server with its threads and children, per answer, in microseconds: from the first request to
   * the last answer.
   */
  readonly spentMicros: number;
  /** In milliseconds, from the last answer until it was idle. */
  readonly afterMs: number;
  /** Resident memory of the server and its children before the load, and its peak during the load, in MiB. */
  readonly beforeMb: number;
  readonly peakMb: number;
  /** Whether it became idle in time. */
  readonly rested: boolean;
  readonly disturbance: Disturbance;
  /** Of a flush of the disk during the load, in milliseconds; null without any. */
  readonly flushMs: number | null;
}

const LEAD_IN_SECONDS = 0.2;
const LOOK_MS = 100;

/** @throws Error when the server has ended, or does not serve the work's upstream */
export async function runRound(
  { load, awake, disk }: Stand,
  subject: Subject,
  work: Work,
  how: RoundLoad,
): Promise<Round> {
  const parsedRequest = subject.subjectRequest(work.upstream);
  if (parsedRequest === undefined)
    throw new Error(`${subject.name} does not stand in front of the ${work.upstream} upstream`);
  const server = subject.process(work.upstream);
  const end = server.end();
  if (end !== undefined) throw new Error(`the ${subject.name} server ended in the middle of the benchmark, by ${end}`);

  if (subject.kind !== 'direct' && subject.kind !== 'bare') await disk?.wait();
  const known = () => spentByAwake(awake) + (subject.isAlone ? 0 : processorMs(server.pid));
  const before = {
    cores: coreTimes(),
    known: known(),
    own: processorMs(server.pid),
    flushes: flushes(),
    mb: residentMb(server.pid),
  };
  let peakMb = before.mb;
  const looking = setInterval(() => {
    peakMb = Math.max(peakMb, residentMb(server.pid));
  }, LOOK_MS);
  const result = await load
    .run({ ...requestFor(work, parsedRequest), warmUpSeconds: LEAD_IN_SECONDS, ...how })
    .finally(() => clearInterval(looking));
  const own = processorMs(server.pid);
  const disturbed = disturbance(before.cores, coreTimes(), known() - before.known);
  const flushed = flushMs(before.flushes, flushes());
  const rested = await subject.rest();
  return {
    result,
    spentMicros: ((own - before.own) * 1000) / Math.max(1, result.total),
    afterMs: processorMs(server.pid) - own,
    beforeMb: before.mb,
    peakMb,
    rested,
    disturbance: disturbed,
    flushMs: flushed,
  };
}

function spentByAwake(awake: Awake | undefined): number {
  const pids = awake?.pids ?? [];
  return pids
    .filter((_, core) => cores.server === undefined || core === Number(cores.server))
    .reduce((sum, pid) => sum + processorMs(pid), 0);
}

/**
 * Two rounds for each order, the second one reversed, so that every server is measured at every place and after every
 * other one, also when there are only two.
 */
export function turns<T>(all: readonly T[], round: number): readonly T[] {
  const from = (round >> 1) % Math.max(1, all.length);
  const order = [...all.slice(from), ...all.slice(0, from)];
  return round % 2 === 0 ? order : order.toReversed();
}
