import { maskAddress } from '../config/problem.ts';
import type { EventLog } from '../events/log.ts';
import { openLog } from '../events/open-log.ts';
import type { ParsedArguments } from './command.ts';
import { logUrlOf } from './log-url.ts';
import type { ProgramParts } from './program-parts.ts';
import { complain, type Terminal } from './terminal.ts';

/** The log that the gateway would use, opened beside a running gateway; says why when that cannot be. */
export async function openForReading(
  args: ParsedArguments,
  parts: ProgramParts,
  terminal: Terminal,
): Promise<EventLog | undefined> {
  const url = await logUrlOf(args, parts, terminal);
  if (url === undefined) return undefined;
  try {
    return await openLog(url, { readOnly: true });
  } catch (error) {
    complain(
      terminal,
      `the log ${maskAddress(url)} cannot be opened: ${error instanceof Error ? error.message : String(error)}`,
    );
    return undefined;
  }
}
