/** The memory of a server's processes before any request, after all of them, and at its most. */
import { setTimeout as delay } from 'node:timers/promises';
import { descendantsOf, memoryOf } from '../servers/process-stat.ts';
import type { Subject } from '../servers/subject.ts';

export interface ProcessMemory {
  readonly server: string;
  /** `server`, or `child 1` and so on. */
  readonly process: string;
  /** In MiB. */
  readonly idleMb: number;
  readonly afterMb: number;
  readonly peakMb: number;
}

/** A gateway returns memory when it had no work for twenty seconds after its start. */
const RETURNED_MS = 22_000;

/**
 * Measures the idle memory. @param waits until gateways have returned what their start needed
 * @returns a function that measures the rest after the work
 */
export async function watchMemory(subjects: readonly Subject[], waits: boolean): Promise<() => ProcessMemory[]> {
  const watched: { subject: Subject; pids: number[]; idle: number[] }[] = [];
  if (waits) await delay(RETURNED_MS);
  for (const subject of subjects.filter(({ kind }) => kind !== 'direct')) {
    await subject.rest();
    const { pid } = subject.process('instant');
    const pids = [pid, ...descendantsOf(pid)];
    watched.push({ subject, pids, idle: pids.map((each) => memoryOf(each).residentMb) });
  }
  return () =>
    watched.flatMap(({ subject, pids, idle }) =>
      pids.map((pid, at) => ({
        server: subject.name,
        process: at === 0 ? 'server' : `child ${at}`,
        idleMb: idle[at] ?? 0,
        afterMb: memoryOf(pid).residentMb,
        peakMb: memoryOf(pid).peakMb,
      })),
    );
}
