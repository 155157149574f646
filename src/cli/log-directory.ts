import { existsSync } from 'node:fs';
import { directoryOf } from '../events/open-log.ts';
import type { ParsedArguments } from './command.ts';
import { configInForce } from './config-in-force.ts';
import type { ProgramParts } from './program-parts.ts';
import { complain, type Terminal } from './terminal.ts';

/** The folder of the log that the gateway would use; prints an error when there is none, or the log has no files. */
export async function logDirectoryOf(
  args: ParsedArguments,
  parts: ProgramParts,
  terminal: Terminal,
): Promise<string | undefined> {
  const url = (await configInForce(args, parts, terminal))?.log.url;
  if (url === undefined) return undefined;
  if (!url.startsWith('file:')) {
    complain(terminal, 'this command requires a log in files (file:…)');
    return undefined;
  }
  const directory = directoryOf(url);
  if (existsSync(directory)) return directory;
  complain(terminal, `there is no event log in ${directory}`);
  return undefined;
}
