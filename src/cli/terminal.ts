/** The output of a command, and the signal that stops it. All output of the program passes through here. */
import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { printable } from '../projections/printable.ts';

export interface Terminal {
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** Aborted by Ctrl-C, or when the reader of the output has ended. */
  readonly signal: AbortSignal;
}

/** Runs a command with this process's streams. Stops it on SIGINT, SIGTERM, and when the output's reader has ended. */
export async function withTerminal(run: (terminal: Terminal) => Promise<number>): Promise<number> {
  const stop = new AbortController();
  const abort = () => stop.abort();
  const onError = (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    stop.abort();
  };
  process.on('SIGINT', abort).on('SIGTERM', abort);
  process.stdout.on('error', onError);
  try {
    return await run({ stdout: process.stdout, stderr: process.stderr, signal: stop.signal });
  } finally {
    process.off('SIGINT', abort).off('SIGTERM', abort);
  }
}

/** Writes a printable line and waits until the reader has caught up; false once the signal is aborted. */
export async function writeLine({ stdout, signal }: Terminal, line: string): Promise<boolean> {
  if (signal.aborted) return false;
  if (stdout.write(`${printable(line)}\n`)) return true;
  await once(stdout, 'drain', { signal }).catch(() => undefined);
  return !signal.aborted;
}

export function complain(terminal: Terminal, message: string): void {
  printError(`chancery: ${message}`, terminal);
}

/** A line on this process's standard output. */
export function print(line: string): void {
  process.stdout.write(`${printable(line)}\n`);
}

/** A line on standard error. */
export function printError(line: string, { stderr }: Pick<Terminal, 'stderr'> = process): void {
  stderr.write(`${printable(line)}\n`);
}
