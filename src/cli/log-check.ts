/**
 * `chancery log check`, `log stat` and `log accept-loss`. A check exits with 0 when the log is whole, 1 when it is
 * damaged, 2 when the check is not possible.
 */
import { type CheckLogOptions, checkLog, type LogCheck } from '../events/embedded/check-log.ts';
import { EmbeddedLog } from '../events/embedded/embedded-log.ts';
import { LogLocked } from '../events/embedded/log-errors.ts';
import type { PositionRange } from '../events/embedded/losses.ts';
import { type LogStat, type SegmentStat, statLog } from '../events/embedded/stat-log.ts';
import { formatPosition } from '../events/event.ts';
import { isoTime } from '../events/event-json.ts';
import { type SeenByViews, seenByViews } from '../projections/seen-by-views.ts';
import { removeViews } from '../projections/view-store.ts';
import { type ParsedArguments, twoColumns, UsageError } from './command.ts';
import { configInForce, logDirectoryOf, type ProgramParts } from './program-parts.ts';
import { bytes, complain, count, progressOn, type Terminal, writeLine } from './terminal.ts';

export async function logCheck(args: ParsedArguments, parts: ProgramParts, terminal: Terminal): Promise<number> {
  const directory = await logDirectoryOf(args, parts, terminal);
  if (directory === undefined) return 2;
  const progress = progressOn(terminal);
  const onProgress: CheckLogOptions['onProgress'] = (read) =>
    progress.show(() => `${read.segment}: ${count(read.events, 'event')}, ${bytes(read.bytes)}`);
  try {
    const check = await checkLog(directory, { signal: terminal.signal, onProgress });
    progress.clear();
    if (args.switches.has('json')) await writeLine(terminal, JSON.stringify(checkJson(directory, check)));
    else await reportCheck(directory, check, terminal);
    return check.problem === undefined ? 0 : 1;
  } catch (error) {
    progress.clear();
    if (!(error instanceof Error)) throw error;
    complain(terminal, terminal.signal.aborted ? 'stopped before the end: the check is incomplete' : error.message);
    return 2;
  }
}

function checkJson(directory: string, { problem, ...check }: LogCheck): object {
  const position = problem?.position === undefined ? undefined : formatPosition(problem.position);
  return { directory, whole: problem === undefined, ...check, problem: problem && { ...problem, position } };
}

async function reportCheck(directory: string, check: LogCheck, terminal: Terminal): Promise<void> {
  const { events, streams, segments, problem } = check;
  const read = `${count(events, 'event')} in ${count(streams, 'stream')}, ${bytes(check.bytes)} in ${count(segments, 'segment')}`;
  if (problem !== undefined) {
    const place = problem.position === undefined ? '' : `, position ${formatPosition(problem.position)}`;
    complain(
      terminal,
      `the log ${directory} is damaged: ${problem.segment} at byte ${problem.offset}${place}: ${problem.reason}`,
    );
    complain(terminal, `intact up to there: ${read}`);
    complain(terminal, '"chancery log accept-loss --dry-run" lists all that cannot be read, or is missing');
    return;
  }
  await writeLine(terminal, `the log ${directory} is whole: ${read}`);
  if (check.unfinishedBytes === 0) return;
  const unfinished = `${bytes(check.unfinishedBytes)} behind the last whole batch`;
  await writeLine(terminal, `${unfinished}: a write in progress, or one that was interrupted and never acknowledged`);
}

/** `chancery log stat` */
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

// `chancery log accept-loss`: exits with 0 when nothing is missing any more, 1 when the log cannot be opened. With
// `--dry-run`, 0 when nothing is missing, 1 when something is, or the log cannot be read.

/** @param by the user who accepts the loss */
export async function logAcceptLoss(
  args: ParsedArguments,
  parts: ProgramParts,
  terminal: Terminal,
  by: string,
): Promise<number> {
  const isDryRun = args.switches.has('dryRun');
  const reason = args.values['reason']?.trim() ?? '';
  if (reason === '' && !isDryRun) throw new UsageError('--reason TEXT is required: it is recorded in the log');
  const directory = await logDirectoryOf(args, parts, terminal, 'write');
  if (directory === undefined) return 1;
  const { dataDir } = (await configInForce(args, parts, terminal)) ?? {};
  const { seen, otherBranch } = dataDir === undefined ? {} : await seenByViews(dataDir, directory);
  let log: EmbeddedLog;
  try {
    if (isDryRun) return await listLoss(directory, terminal, { seen, otherBranch });
    const acceptLoss = { by, reason, at: new Date(), also: otherBranch === undefined ? [] : [otherBranch] };
    log = await EmbeddedLog.open(directory, seen === undefined ? { acceptLoss } : { acceptLoss, seen });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const advice = error instanceof LogLocked ? '; stop the gateway first' : '';
    complain(terminal, `the log ${directory} cannot be opened: ${error.message}${advice}`);
    return 1;
  }
  try {
    await reportLosses(directory, log, terminal);
    // The read models have what is lost: the next start folds what is left.
    if (dataDir !== undefined && log.acceptedLoss !== undefined) removeViews(dataDir);
    return 0;
  } finally {
    await log.close();
  }
}

async function listLoss(directory: string, terminal: Terminal, { seen, otherBranch }: SeenByViews): Promise<number> {
  const parts = [...(await EmbeddedLog.findLoss(directory, seen)), ...(otherBranch === undefined ? [] : [otherBranch])];
  if (parts.length === 0) {
    await writeLine(terminal, `nothing is missing in the log ${directory}`);
    return 0;
  }
  for (const { positions, files, reason, renames } of parts) {
    for (const { from, to } of renames ?? [])
      await writeLine(terminal, `would be renamed: ${from} to ${to}, ${reason}`);
    if (renames !== undefined) continue;
    const what = [...(reason === undefined ? [] : [reason]), ...files].join(', ');
    if (positions === undefined) await writeLine(terminal, `would be made again: ${what}`);
    else await writeLine(terminal, `would be lost: ${described(positions)} (${what})`);
  }
  await writeLine(terminal, 'nothing was changed; "chancery log accept-loss --reason TEXT" accepts this loss');
  return 1;
}

function described({ first, last }: PositionRange): string {
  return `${count(last - first + 1, 'position')}, positions ${formatPosition(first)} to ${formatPosition(last)}`;
}

async function reportLosses(directory: string, log: EmbeddedLog, terminal: Terminal): Promise<void> {
  const { acceptedLoss } = log;
  if (acceptedLoss === undefined) {
    await writeLine(terminal, `nothing is missing in the log ${directory}`);
    return;
  }
  for (const positions of acceptedLoss.positions) await writeLine(terminal, `lost: ${described(positions)}`);
  for (const file of acceptedLoss.files) await writeLine(terminal, `missing: ${file}`);
  await writeLine(terminal, `the loss is recorded; the log ${directory} continues after position ${await log.head()}`);
}
