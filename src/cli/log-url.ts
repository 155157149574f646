import type { ParsedArguments } from './command.ts';
import { configInForce } from './config-in-force.ts';
import type { ProgramParts } from './program-parts.ts';
import type { Terminal } from './terminal.ts';

/** The log that the gateway would use, given the same flags, variables and file; prints an error when there is none. */
export async function logUrlOf(
  args: ParsedArguments,
  parts: ProgramParts,
  terminal: Terminal,
): Promise<string | undefined> {
  return (await configInForce(args, parts, terminal))?.log.url;
}
