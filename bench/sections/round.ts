/** One load on one server, from rest to rest. */
import type { Load, LoadResult } from '../load/load.ts';
import type { LoadProcess } from '../load/load-process.ts';
import type { Awake } from '../servers/awake.ts';
import { cores } from '../servers/cores.ts';
import { coreTimes, type Disturbance, disturbance } from '../servers/disturbance.ts';
import { processorMs } from '../servers/process-stat.ts';
import type { Subject } from '../servers/subject.ts';
import { requestFor, type Work } from '../work.ts';

/** What every section measures with. */
export interface Stand {
  readonly load: LoadProcess;
  readonly awake: Awake | undefined;
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
  /** Whether it came to rest in time. */
  readonly rested: boolean;
  readonly disturbance: Disturbance;
}

/** @throws Error when the server has ended */
export async function runRound(
  { load, awake }: Stand,
  subject: Subject,
  work: Work,
  { warmUpSeconds = 0.2, ...how }: RoundLoad,
): Promise<Round> {
  const server = subject.process(work.upstream);
  const end = server.end();
  if (end !== undefined) throw new Error(`the ${subject.name} server ended in the middle of the benchmark, by ${end}`);
  const known = () => spentByAwake(awake) + (subject.isAlone ? 0 : processorMs(server.pid));
  const before = { cores: coreTimes(), known: known(), own: processorMs(server.pid) };
  const result = await load.run({ ...requestFor(work, subject.asked(work.upstream)), ...how, warmUpSeconds });
  const own = processorMs(server.pid);
  const disturbed = disturbance(before.cores, coreTimes(), known() - before.known);
  const rested = await subject.rest();
  return {
    result,
    spentMicros: ((own - before.own) * 1000) / Math.max(1, result.total),
    afterMs: processorMs(server.pid) - own,
    rested,
    disturbance: disturbed,
  };
}

function spentByAwake(awake: Awake | undefined): number {
  const pids = awake?.pids ?? [];
  return pids
    .filter((_, core) => cores.server === undefined || core === Number(cores.server))
    .reduce((sum, pid) => sum + processorMs(pid), 0);
}
