import { printable } from '../projections/printable.ts';
import type { Terminal } from './terminal.ts';

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
