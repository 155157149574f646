import { isUtf8 } from 'node:buffer';
import type { RecordedEvent } from '../events/event.ts';
import { eventToJson, isoTime } from '../events/event-json.ts';
import { parseExactly } from '../json/exact-json.ts';
import { printable } from '../projections/printable.ts';
import type { ParsedArguments } from './command.ts';
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

/** An event for people to read. */
interface TextOptions {
  /** Characters that a line may have; undefined for any number. */
  readonly width?: number;
  /** Show the body below the line. */
  readonly body: boolean;
}

const maxBodyLines = 40;
const indent = '    ';

/** One line: time, position, stream@revision, type, data; the body's size, or the body itself on lines of its own. */
function eventToText(event: RecordedEvent, { width, body }: TextOptions): string {
  const time = isoTime(event.at).replace('T', ' ');
  const parts = [time, event.position, `${event.stream}@${event.revision}`, event.type, dataText(event.data)];
  if (event.body !== undefined && !body) parts.push(`+ ${event.body.length} bytes`);
  const line = cut(printable(parts.filter((part) => part !== '').join('  ')), width);
  return event.body === undefined || !body ? line : `${line}\n${bodyBlock(event.body, width)}`;
}

function dataText(data: unknown): string {
  const text = JSON.stringify(data) ?? '';
  return text === '{}' ? '' : text;
}

function bodyBlock(body: Uint8Array, width: number | undefined): string {
  const lines = bodyText(body).replace(/\n+$/, '').split('\n');
  const shown = width === undefined ? lines : lines.slice(0, maxBodyLines);
  const more = lines.length - shown.length;
  if (more > 0) shown.push(`… ${more} more lines (--full shows them)`);
  return shown.map((line) => cut(indent + line, width)).join('\n');
}

/** JSON indented, other text unchanged, and the size of bytes that are no text. */
function bodyText(body: Uint8Array): string {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (!isUtf8(bytes)) return `<${bytes.length} bytes of binary>`;
  const text = bytes.toString('utf8');
  return printable(/^\s*[[{]/.test(text) ? indented(text) : text.replaceAll('\r\n', '\n'));
}

function indented(text: string): string {
  try {
    return JSON.stringify(parseExactly(text), null, 2);
  } catch {
    return text;
  }
}

function cut(line: string, width: number | undefined): string {
  return width === undefined || line.length <= width ? line : `${line.slice(0, width - 1)}…`;
}
