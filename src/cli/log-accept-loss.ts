/** `chancery log accept-loss`: exits with 0 when nothing is missing any more, 1 when the log cannot be opened. */
import { EmbeddedLog } from '../events/embedded/embedded-log.ts';
import { LogLocked } from '../events/embedded/log-errors.ts';
import { formatPosition } from '../events/sequence-position.ts';
import { type ParsedArguments, UsageError } from './command.ts';
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
  const reason = args.values['reason']?.trim() ?? '';
  if (reason === '') throw new UsageError('--reason TEXT is required: it is recorded in the log');
  const directory = await logDirectoryOf(args, parts, terminal, 'write');
  if (directory === undefined) return 1;
  let log: EmbeddedLog;
  try {
    log = await EmbeddedLog.open(directory, { acceptLoss: { by, reason, at: new Date() } });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const advice = error instanceof LogLocked ? '; stop the gateway first' : '';
    complain(terminal, `the log ${directory} cannot be opened: ${error.message}${advice}`);
    return 1;
  }
  try {
    await tell(directory, log, terminal);
    return 0;
  } finally {
    await log.close();
  }
}

async function tell(directory: string, log: EmbeddedLog, terminal: Terminal): Promise<void> {
  const { acceptedLoss } = log;
  if (acceptedLoss === undefined) {
    await writeLine(terminal, `nothing is missing in the log ${directory}`);
    return;
  }
  for (const { first, last } of acceptedLoss.positions) {
    const range = `positions ${formatPosition(first)} to ${formatPosition(last)}`;
    await writeLine(terminal, `lost: ${count(last - first + 1, 'position')}, ${range}`);
  }
  for (const file of acceptedLoss.files) await writeLine(terminal, `missing: ${file}`);
  await writeLine(terminal, `the loss is recorded; the log ${directory} continues after position ${await log.head()}`);
}
