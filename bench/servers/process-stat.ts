/** What a process costs, read from /proc: memory as it is and at its peak, and processor time. Linux only. */
import { readdirSync, readFileSync } from 'node:fs';

/** USER_HZ, which Linux fixes at 100 for /proc on every architecture Node runs on. */
const TICKS_PER_SECOND = 100;

export interface Memory {
  readonly residentMb: number;
  readonly peakMb: number;
}

export function memoryOf(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kilobytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0);
  return { residentMb: kilobytes('VmRSS') / 1024, peakMb: kilobytes('VmHWM') / 1024 };
}

/** User and system time of a process and all its living descendants, in milliseconds. */
export function processorMs(pid: number): number {
  return [pid, ...descendantsOf(pid)].reduce((sum, each) => sum + ownProcessorMs(each), 0);
}

export function descendantsOf(pid: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    const fields = /^\d+$/.test(name) ? statOf(Number(name)) : undefined;
    if (fields !== undefined) parents.set(Number(name), Number(fields[1]));
  }
  const found = new Set([pid]);
  for (let before = 0; before !== found.size; ) {
    before = found.size;
    for (const [child, parent] of parents) if (found.has(parent)) found.add(child);
  }
  found.delete(pid);
  return [...found];
}

function ownProcessorMs(pid: number): number {
  const fields = statOf(pid);
  return fields === undefined ? 0 : ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND;
}

/** The fields of /proc/<pid>/stat after the command's name, which may itself hold spaces; undefined once it is gone. */
function statOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}
