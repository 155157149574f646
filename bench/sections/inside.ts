/** Measures inside a server, per exchange: allocated memory, garbage collection, processor time by thread. */
import type { Allocation } from '../inside/allocation.ts';
import { whileProbed } from '../inside/probed.ts';
import { threadMs } from '../servers/process-stat.ts';
import type { Subject } from '../servers/subject.ts';
import type { Work } from '../work.ts';
import { runRound, type Stand } from './round.ts';

export interface Inside {
  readonly server: string;
  readonly describe: string;
  /** Allocated on the thread that runs JavaScript, for an exchange. */
  readonly heapKb: number;
  /** Buffers and long strings, which are outside the heap. */
  readonly externalKb: number;
  /** Pauses for garbage collection, of the processor time of the whole process. */
  readonly garbageShare: number;
  readonly longestPauseMs: number;
  /** Microseconds for an exchange, the largest first. */
  readonly threads: readonly { readonly name: string; readonly micros: number }[];
}

const CONNECTIONS = 50;
const WARM_UP_SECONDS = 2;

/** The server has to be started with the probe for garbage. */
export async function measureInside(
  stand: Stand,
  subject: Subject,
  work: Work,
  workDir: string,
  seconds: number,
): Promise<Inside> {
  const load = { connections: CONNECTIONS, warmUpSeconds: 0 };
  await runRound(stand, subject, work, { ...load, seconds: WARM_UP_SECONDS });
  const server = subject.process(work.upstream);
  const before = threadMs(server.pid);
  const { seen, result: round } = await whileProbed(server, subject.name, workDir, () =>
    runRound(stand, subject, work, { ...load, seconds }),
  );
  const allocation = seen as Allocation;
  const answers = Math.max(1, round.result.total);
  const threads = [...threadMs(server.pid)]
    .map(([name, ms]) => ({ name, micros: ((ms - (before.get(name) ?? 0)) * 1000) / answers }))
    .filter(({ micros }) => micros >= 0.5)
    .sort((left, right) => right.micros - left.micros);
  const spentMs = (round.spentMicros * answers) / 1000 + round.afterMs;
  return {
    server: subject.name,
    describe: work.describe,
    heapKb: allocation.heapBytes / 1024 / answers,
    externalKb: allocation.externalBytes / 1024 / answers,
    garbageShare: allocation.pauseMs / Math.max(1, spentMs),
    longestPauseMs: allocation.longestPauseMs,
    threads,
  };
}
