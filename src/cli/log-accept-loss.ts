/**
 * `chancery log accept-loss`: exits with 0 when nothing is missing any more, 1 when the log cannot be opened. With
 * `--dry-run`, 0 when nothing is missing, 1 when something is, or the log cannot be read.
 */
import { EmbeddedLog } from '../events/embedded/embedded-log.ts';
import { LogLocked } from '../events/embedded/log-errors.ts';
import type { PositionRange } from '../events/embedded/losses.ts';
import { formatPosition } from '../events/event.ts';
import { type SeenByViews, seenByViews } from '../projections/seen-by-views.ts';
import { removeViews } from '../projections/view-store.ts';
import { type ParsedArguments, UsageError } from './command.ts';
import { configInForce } from './config-in-force.ts';
import { logDirectoryOf } from './log-directory.ts';
import type { ProgramParts } from './program-parts.ts';
import { count } from './quantity.ts';
import { complain, type Terminal, writeLine } from './terminal.ts';

/** @param by the user who accepts the loss */
export async function logAcceptLoss(
  args: ParsedArguments,
  parts: ProgramParts,
  by: string,
  terminal: Terminal,
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
    await tell(directory, log, terminal);
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

async function tell(directory: string, log: EmbeddedLog, terminal: Terminal): Promise<void> {
  const { acceptedLoss } = log;
  if (acceptedLoss === undefined) {
    await writeLine(terminal, `nothing is missing in the log ${directory}`);
    return;
  }
  for (const positions of acceptedLoss.positions) await writeLine(terminal, `lost: ${described(positions)}`);
  for (const file of acceptedLoss.files) await writeLine(terminal, `missing: ${file}`);
  await writeLine(terminal, `the loss is recorded; the log ${directory} continues after position ${await log.head()}`);
}
