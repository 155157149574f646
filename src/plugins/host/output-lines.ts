/** The output of a plugin as lines for the gateway's own log. */
import type { Readable } from 'node:stream';

/** Bytes that are read in one second. A plugin that writes more waits, so that it cannot keep the gateway busy. */
const BYTES_PER_SECOND = 32 * 1024;
const MAX_LINE = 1000;

export function readOutput(output: Readable, line: (text: string) => void): void {
  let held = '';
  let used = 0;
  let timer: NodeJS.Timeout | undefined;
  const restart = (): void => {
    used = 0;
    timer = undefined;
    output.resume();
  };
  output.setEncoding('utf8');
  output.on('data', (text: string) => {
    used += text.length;
    const lines = (held + text).split('\n');
    held = (lines.pop() ?? '').slice(0, MAX_LINE);
    for (const one of lines) if (one.trim() !== '') line(one.slice(0, MAX_LINE));
    timer ??= setTimeout(restart, 1000).unref();
    if (used >= BYTES_PER_SECOND) output.pause();
  });
  output.on('close', () => {
    clearTimeout(timer);
    if (held.trim() !== '') line(held);
  });
  output.on('error', () => {});
}
