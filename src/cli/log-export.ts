/** `chancery log export`: exits with 0 when every selected event is in the file, 1 when not. */
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { finished } from 'node:stream/promises';
import { maskLogUrl } from '../config/mask.ts';
import type { Position, RecordedEvent } from '../events/event.ts';
import { eventToCloudEvent, eventToJson, isoTime } from '../events/event-json.ts';
import type { EventLog } from '../events/log.ts';
import { type ParsedArguments, UsageError } from './command.ts';
import { typeFilter } from './event-types.ts';
import type { ProgramParts } from './program-parts.ts';
import { progressOn } from './progress.ts';
import { count } from './quantity.ts';
import { complain, type Terminal, writeLine } from './terminal.ts';

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
