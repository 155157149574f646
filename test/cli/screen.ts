/** A terminal whose output can be read. */
import { Writable } from 'node:stream';
import type { ParsedArguments } from '../../src/cli/command.ts';
import type { Terminal } from '../../src/cli/terminal.ts';

export interface Screen extends Terminal {
  readonly out: () => string;
  readonly lines: () => string[];
  readonly err: () => string;
  /** The user presses Ctrl-C. */
  stop(): void;
  /** Resolves once `condition` holds for the printed text. */
  until(condition: (out: string) => boolean): Promise<void>;
}

export function screen(): Screen {
  let out = '';
  let err = '';
  const stopped = new AbortController();
  const waiting = new Set<() => void>();
  const into = (take: (text: string) => void) =>
    new Writable({
      write(piece, _encoding, done) {
        take(String(piece));
        for (const check of waiting) check();
        done();
      },
    });
  return {
    stdout: into((text) => {
      out += text;
    }),
    stderr: into((text) => {
      err += text;
    }),
    signal: stopped.signal,
    out: () => out,
    lines: () => out.split('\n').slice(0, -1),
    err: () => err,
    stop: () => stopped.abort(),
    until: (condition) =>
      new Promise((resolve) => {
        const check = () => {
          if (!condition(out)) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      }),
  };
}

export function typed(args: Partial<ParsedArguments> & { readonly on?: readonly string[] } = {}): ParsedArguments {
  const { on = [], ...rest } = args;
  return { values: {}, lists: {}, operands: [], switches: new Set(on), ...rest };
}
