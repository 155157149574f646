/** File descriptors of the process: the connections of clients never take the last ones, which the log needs. */
import { readdirSync, readFileSync } from 'node:fs';

/** Below it the start warns. */
const FEW = 1024;

/** For files that are open for a moment: segments of the log that are read, snapshots, the stream index. */
const RESERVED = 32;

/** The limit of this process; undefined where the system does not show it (other systems than Linux), or without a limit. */
export function descriptorLimit(limits = readLimits()): number | undefined {
  const soft = /^Max open files\s+(\d+)/m.exec(limits ?? '')?.[1];
  return soft === undefined ? undefined : Number(soft);
}

/**
 * How many connections of clients may be open. Each may need a second descriptor, for its connection to a provider.
 * @param open descriptors that the process has open without connections
 */
export function mostConnections(limit: number, open = openDescriptors()): number {
  return Math.max(1, Math.floor((limit - open - RESERVED) / 2));
}

export function warningOfDescriptors(limit: number, connections: number): string | undefined {
  if (limit >= FEW) return undefined;
  return (
    `the process may open only ${limit} files (ulimit -n), fewer than ${FEW}: it accepts at most ${connections} connections ` +
    'at a time and closes further ones. Raise the limit'
  );
}

function readLimits(): string | undefined {
  try {
    return readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return undefined;
  }
}

function openDescriptors(): number {
  try {
    return readdirSync('/proc/self/fd').length;
  } catch {
    return 0;
  }
}
