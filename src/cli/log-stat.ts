/** `chancery log stat` */
import { type LogStat, type SegmentStat, statLog } from '../events/embedded/stat-log.ts';
import { formatPosition } from '../events/event.ts';
import { isoTime } from '../events/event-json.ts';
import { type ParsedArguments, twoColumns } from './command.ts';
import { logDirectoryOf } from './log-directory.ts';
import type { ProgramParts } from './program-parts.ts';
import { bytes, count } from './quantity.ts';
import { complain, type Terminal, writeLine } from './terminal.ts';

export async function logStat(args: ParsedArguments, parts: ProgramParts, terminal: Terminal): Promise<number> {
  const directory = await logDirectoryOf(args, parts, terminal);
  if (directory === undefined) return 1;
  try {
    const stat = await statLog(directory);
    const text = args.switches.has('json') ? JSON.stringify(statJson(directory, stat)) : statText(directory, stat);
    await writeLine(terminal, text);
    return 0;
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    complain(terminal, error.message);
    return 1;
  }
}

function statJson(directory: string, { segments, firstAt, lastAt, ...stat }: LogStat): object {
  const time = (at: number | undefined) => (at === undefined ? undefined : isoTime(at));
  return {
    directory,
    ...stat,
    firstAt: time(firstAt),
    lastAt: time(lastAt),
    segments: segments.map((segment) => ({
      ...segment,
      first: formatPosition(segment.first),
      last: formatPosition(segment.last),
      firstAt: time(segment.firstAt),
      lastAt: time(segment.lastAt),
    })),
  };
}

function statText(directory: string, stat: LogStat): string {
  const span =
    stat.firstAt === undefined ? '' : `, from ${isoTime(stat.firstAt)} to ${isoTime(stat.lastAt ?? stat.firstAt)}`;
  const streams = Object.entries(stat.streams).map(([category, n]) => `${category} ${n.toLocaleString('en')}`);
  return twoColumns([
    ['log', `${directory} (${stat.id})`],
    ['events', `${stat.events.toLocaleString('en')}${span}`],
    ['streams', streams.join(', ') || 'none'],
    [
      'size',
      `${bytes(stat.storedBytes)} on disk for ${bytes(stat.rawBytes)}, in ${count(stat.segments.length, 'segment')}`,
    ],
    ...stat.segments.map((segment) => [`  ${segment.name}`, segmentText(segment)] as const),
  ]);
}

function segmentText({ sealed, first, last, rawBytes, storedBytes }: SegmentStat): string {
  const events = count(last - first + 1, 'event');
  return sealed
    ? `${events}, ${bytes(storedBytes)} for ${bytes(rawBytes)}`
    : `${events}, ${bytes(rawBytes)}, being written`;
}
