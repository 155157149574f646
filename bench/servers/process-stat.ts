/** Resources of a process, from /proc: present and peak memory, and processor time. Linux only. */
import { readdirSync, readFileSync } from 'node:fs';

/** USER_HZ, which Linux fixes at 100 for /proc on every architecture Node runs on. */
const TICKS_PER_SECOND = 100;

/** In MiB. */
export interface Memory {
  readonly residentMb: number;
  readonly peakMb: number;
}

export function memoryOf(pid: number): Memory {
  const status = statusOf(pid);
  const kilobytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0);
  return { residentMb: kilobytes('VmRSS') / 1024, peakMb: kilobytes('VmHWM') / 1024 };
}

/** Of a process with its living descendants, now, in MiB. Pages that they share count for each. */
export function residentMb(pid: number): number {
  return [pid, ...descendantsOf(pid)].reduce((sum, each) => sum + memoryOf(each).residentMb, 0);
}

/** User and system time of a process and all its living descendants, in milliseconds. */
export function processorMs(pid: number): number {
  return [pid, ...descendantsOf(pid)].reduce((sum, each) => sum + ownProcessorMs(each), 0);
}

/** Empty once the process is gone. */
function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return '';
  }
}

/** Processor time of each living thread of a process and its descendants, in milliseconds, by the thread's name. */
export function threadMs(pid: number): Map<string, number> {
  const times = new Map<string, number>();
  for (const each of [pid, ...descendantsOf(pid)]) {
    for (const thread of threadsOf(each)) {
      const stat = statOf(`${each}/task/${thread}`);
      if (stat === undefined) continue;
      const name = each === pid ? stat.name : `child: ${stat.name}`;
      times.set(name, (times.get(name) ?? 0) + timeIn(stat.fields));
    }
  }
  return times;
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

export function descendantsOf(pid: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? statOf(name) : undefined;
    if (stat !== undefined) parents.set(Number(name), Number(stat.fields[1]));
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
  const stat = statOf(String(pid));
  return stat === undefined ? 0 : timeIn(stat.fields);
}

function timeIn(fields: readonly string[]): number {
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND;
}

/**
 * The name and the fields after it in /proc/<path>/stat; undefined once it is gone. The name may contain spaces and
 * parentheses.
 */
function statOf(path: string): { name: string; fields: string[] } | undefined {
  try {
    const stat = readFileSync(`/proc/${path}/stat`, 'utf8');
    const end = stat.lastIndexOf(')');
    return { name: stat.slice(stat.indexOf('(') + 1, end), fields: stat.slice(end + 2).split(' ') };
  } catch {
    return undefined;
  }
}
