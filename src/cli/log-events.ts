/** `chancery log cat`, `log tail` and `log export`: show events of the log, or write them to a file. */

import { isUtf8 } from 'node:buffer';
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { finished } from 'node:stream/promises';
import { maskLogUrl } from '../config/mask.ts';
import { nearest } from '../config/problem.ts';
import { catalogue } from '../events/catalogue/catalogue.ts';
import {
  formatPosition,
  InvalidPosition,
  type Position,
  parsePosition,
  type RecordedEvent,
  START,
  type StreamName,
} from '../events/event.ts';
import { eventToCloudEvent, eventToJson, isoTime } from '../events/event-json.ts';
import type { EventFilter, EventLog } from '../events/log.ts';
import { parseExactly } from '../json/exact-json.ts';
import { printable } from '../projections/printable.ts';
import { type ParsedArguments, UsageError } from './command.ts';
import type { ProgramParts } from './program-parts.ts';
import { complain, count, progressOn, type Terminal, writeLine } from './terminal.ts';

export async function logCat(args: ParsedArguments, log: EventLog, terminal: Terminal): Promise<number> {
  const stream = (args.operands[0] ?? '') as StreamName;
  const print = eventPrinter(args, terminal, true);
  let found = false;
  for await (const event of log.readStream(stream)) {
    found = true;
    if (!(await print(event))) return 0;
  }
  if (found) return 0;
  complain(terminal, `there is no stream "${stream}" in this log; "chancery log tail" shows the names of streams`);
  return 1;
}

/** `chancery log tail` */
const usualCount = 20;
/** Factor by which each further read goes back that has not found enough events. */
const widening = 16;

export async function logTail(args: ParsedArguments, log: EventLog, terminal: Terminal): Promise<number> {
  const filter = { types: typeFilter(args.lists['type'] ?? []), streams: args.lists['stream'] };
  const print = eventPrinter(args, terminal, false);
  const after = args.values['after'];
  const head = await log.head();

  if (after !== undefined) {
    for await (const event of log.readAll({ after: typedPosition(after, head), filter, signal: terminal.signal })) {
      if (event.position > head) break;
      if (!(await print(event))) return 0;
    }
  } else {
    for (const event of await newest(log, head, filter, countOf(args.values['last']), terminal.signal)) {
      if (!(await print(event))) return 0;
    }
  }
  if (!args.switches.has('follow')) return 0;
  for await (const event of log.subscribe({ after: head, filter, signal: terminal.signal })) {
    if ('revision' in event && !(await print(event))) return 0;
  }
  return 0;
}

/** The last `count` events that pass the filter, oldest first: reads a short range, then ever longer ones. */
async function newest(
  log: EventLog,
  head: Position,
  filter: EventFilter,
  count: number,
  signal: AbortSignal,
): Promise<readonly RecordedEvent[]> {
  for (let back = count; count > 0; back *= widening) {
    const after = before(head, back);
    const found: RecordedEvent[] = [];
    for await (const event of log.readAll({ after, filter, signal })) {
      if (event.position > head) break;
      found.push(event);
      // Removed in batches: removing single events from the front would move all the others each time.
      if (found.length >= 2 * count) found.splice(0, found.length - count);
    }
    if (found.length >= count || after === START || signal.aborted) return found.slice(-count);
  }
  return [];
}

/** `count` positions before `position`, or the start. */
function before(position: Position, count: number): Position {
  return formatPosition(Math.max(0, parsePosition(position) - count));
}

/** A position from the command line; leading zeros may be left out. @throws UsageError */
function typedPosition(typed: string, head: Position): Position {
  try {
    return formatPosition(parsePosition(typed));
  } catch (error) {
    if (!(error instanceof InvalidPosition)) throw error;
    throw new UsageError(`--after ${typed}: positions of this log look like ${head}`);
  }
}

function countOf(typed: string | undefined): number {
  if (typed === undefined) return usualCount;
  if (!/^\d{1,6}$/.test(typed)) throw new UsageError(`--last ${typed}: expected a whole number up to 999999`);
  return Number(typed);
}

/** `chancery log export`: exits with 0 when every selected event is in the file, 1 when not. */
const formats = ['ndjson', 'cloudevents', 'parquet'] as const;

/** The events to export. Times are in milliseconds since the epoch. */
interface ExportRequest {
  readonly format: (typeof formats)[number];
  /** Undefined: to standard output. */
  readonly output: string | undefined;
  /** Inclusive. */
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
  readonly types: readonly string[] | undefined;
}

/** @param source the log's URL, for the `source` of CloudEvents */
export async function logExport(
  args: ParsedArguments,
  log: EventLog,
  source: string,
  parts: Pick<ProgramParts, 'writeParquet'>,
  terminal: Terminal,
): Promise<number> {
  const exportOptions = exportOptionsIn(args);
  const progress = progressOn(terminal);
  const counted = { events: 0 };
  const events = eventsOf(log, exportOptions, terminal.signal, (event) => {
    counted.events += 1;
    progress.show(() => `${count(counted.events, 'event')}, until ${isoTime(event.at)}`);
  });
  try {
    await write(events, exportOptions, maskLogUrl(source), parts, terminal);
  } finally {
    progress.clear();
  }
  if (terminal.signal.aborted) {
    complain(terminal, `stopped before the end, after ${count(counted.events, 'event')}`);
    return 1;
  }
  if (exportOptions.output !== undefined)
    complain(terminal, `wrote ${count(counted.events, 'event')} to ${exportOptions.output}`);
  return 0;
}

async function write(
  events: AsyncIterable<RecordedEvent>,
  { format, output }: ExportRequest,
  source: string,
  { writeParquet }: Pick<ProgramParts, 'writeParquet'>,
  terminal: Terminal,
): Promise<void> {
  const lineOf = (event: RecordedEvent) =>
    JSON.stringify(format === 'cloudevents' ? eventToCloudEvent(event, source) : eventToJson(event));
  if (output === undefined) {
    for await (const event of events) if (!(await writeLine(terminal, lineOf(event)))) return;
    return;
  }
  // The file gets its own name only when it is complete.
  const partial = `${output}.partial`;
  try {
    if (format === 'parquet') await writeParquet(events, partial);
    else await writeLines(events, lineOf, partial, terminal.signal);
    if (!terminal.signal.aborted) await rename(partial, output);
  } finally {
    await rm(partial, { force: true });
  }
}

async function writeLines(
  events: AsyncIterable<RecordedEvent>,
  lineOf: (event: RecordedEvent) => string,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  const stdout = createWriteStream(path, { mode: 0o600 });
  const done = finished(stdout);
  done.catch(() => {});
  for await (const event of events) {
    if (!(await writeLine({ stdout, stderr: stdout, signal }, lineOf(event)))) break;
  }
  stdout.end();
  await done;
}

async function* eventsOf(
  log: EventLog,
  { from, to, types }: ExportRequest,
  signal: AbortSignal,
  onEvent: (event: RecordedEvent) => void,
): AsyncIterable<RecordedEvent> {
  const head: Position = await log.head();
  for await (const event of log.readAll({ filter: { types }, signal })) {
    if (event.position > head) return;
    // Positions are in the order of recording, which is almost that of time: one later event does not prove the end.
    if (event.at < from || event.at >= to) continue;
    onEvent(event);
    yield event;
  }
}

const date = /^\d{4}-\d{2}-\d{2}$/;
const instant = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?$/;
const dayMs = 24 * 3600_000;

/** @throws UsageError */
function exportOptionsIn({ values, lists }: ParsedArguments): ExportRequest {
  const { format: typed = 'ndjson', output } = values;
  const format = formats.find((one) => one === typed);
  if (format === undefined) throw new UsageError(`--format: expected ${formats.join(', ')}, got "${typed}"`);
  if (format === 'parquet' && output === undefined) {
    throw new UsageError('--format parquet needs --output FILE: Parquet is a binary format');
  }
  const from = values['from'] === undefined ? Number.NEGATIVE_INFINITY : timeOf('from', values['from']);
  const to = values['to'] === undefined ? Number.POSITIVE_INFINITY : timeOf('to', values['to']);
  if (from >= to) throw new UsageError('--from must be before --to');
  return { format, output, from, to, types: typeFilter(lists['type'] ?? []) };
}

/** In UTC unless the text has a time zone. A day as `--to` includes all its hours. */
function timeOf(flag: 'from' | 'to', text: string): number {
  const isDay = date.test(text);
  const isInstant = instant.test(text);
  const zoned = isDay || /(Z|[+-]\d{2}:\d{2})$/.test(text) ? text : `${text}Z`;
  const time = isDay || isInstant ? Date.parse(zoned.replace(' ', 'T')) : Number.NaN;
  if (Number.isNaN(time)) {
    throw new UsageError(
      `--${flag}: expected a day like 2026-01-31 or a time like 2026-01-31T12:00:00Z, got "${text}"`,
    );
  }
  return isDay && flag === 'to' ? time + dayMs : time;
}

/** Line width where the output is no terminal. */
const usualWidth = 200;

/** Prints events in the form of `--json` and `--full`; resolves with false once the terminal's signal is aborted. */
function eventPrinter(
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

/**
 * The `types` of an event filter for an argument: `attempt.started` that type, `attempt.` and `attempt.*` the
 * family, `att*` every known type that begins so. Undefined: all types.
 * @throws UsageError when no known type matches
 */
function typeFilter(patterns: readonly string[]): readonly string[] | undefined {
  const types = patterns.flatMap((one) => typesFor(one.trim()));
  return patterns.length === 0 || types.includes('*') ? undefined : types;
}

function typesFor(pattern: string): readonly string[] {
  if (pattern === '*') return ['*'];
  const known = [...catalogue.keys()];
  const prefix = pattern.endsWith('*') ? pattern.slice(0, -1) : pattern;
  if (prefix.endsWith('.') && known.some((type) => type.startsWith(prefix))) return [prefix];
  const matching = pattern.endsWith('*')
    ? known.filter((type) => type.startsWith(prefix))
    : known.filter((type) => type === pattern);
  if (matching.length > 0) return matching;
  const near = nearest(pattern, known);
  throw new UsageError(`no event type is "${pattern}"${near === undefined ? '' : `; did you mean "${near}"?`}`);
}
