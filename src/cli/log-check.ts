/** `chancery log check`: exits with 0 when the log is whole, 1 when it is damaged, 2 when the check is not possible. */
import { type CheckLogOptions, checkLog, type LogCheck } from '../events/embedded/check-log.ts';
import { formatPosition } from '../events/event.ts';
import type { ParsedArguments } from './command.ts';
import { logDirectoryOf } from './log-directory.ts';
import type { ProgramParts } from './program-parts.ts';
import { progressOn } from './progress.ts';
import { bytes, count } from './quantity.ts';
import { complain, type Terminal, writeLine } from './terminal.ts';

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
    else await tell(directory, check, terminal);
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

async function tell(directory: string, check: LogCheck, terminal: Terminal): Promise<void> {
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
