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

export interface Progress {
  show(text: () => string): void;
  clear(): void;
}

const redrawMs = 100;

/** One line that is redrawn in place; nothing is shown when stderr is no terminal. */
export function progressOn({ stderr }: Terminal): Progress {
  if (!('isTTY' in stderr) || stderr.isTTY !== true) return { show: () => {}, clear: () => {} };
  let drawnAt = 0;
  return {
    show: (text) => {
      const now = Date.now();
      if (now - drawnAt < redrawMs) return;
      drawnAt = now;
      stderr.write(`\r\u001b[K${printable(text())}`);
    },
    clear: () => stderr.write('\r\u001b[K'),
  };
}

/** Numbers for people to read. */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
}

const units = ['KiB', 'MiB', 'GiB', 'TiB'];

/** `12.3 MiB` */
export function bytes(n: number): string {
  if (n < 1024) return count(n, 'byte');
  const power = Math.min(Math.floor(Math.log2(n) / 10), units.length);
  return `${(n / 1024 ** power).toFixed(1)} ${units[power - 1]}`;
}
