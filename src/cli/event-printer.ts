import type { RecordedEvent } from '../events/event.ts';
import { eventToJson } from '../events/event-json.ts';
import type { ParsedArguments } from './command.ts';
import { eventToText } from './event-text.ts';
import { type Terminal, writeLine } from './terminal.ts';

/** Line width where the output is no terminal. */
const usualWidth = 200;

/** Prints events in the form of `--json` and `--full`; resolves with false once the terminal's signal is aborted. */
export function eventPrinter(
  { switches }: ParsedArguments,
  terminal: Terminal,
  showBodies: boolean,
): (event: RecordedEvent) => Promise<boolean> {
  if (switches.has('json')) return (event) => writeLine(terminal, JSON.stringify(eventToJson(event)));
  const full = switches.has('full');
  const width = full ? undefined : columnsOf(terminal);
  return (event) => writeLine(terminal, eventToText(event, { width, body: full || showBodies }));
}

function columnsOf({ stdout }: Terminal): number {
  return 'columns' in stdout && typeof stdout.columns === 'number' ? stdout.columns : usualWidth;
}
