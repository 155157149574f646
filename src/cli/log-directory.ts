import { existsSync } from 'node:fs';
import { directoryOf } from '../events/open-log.ts';
import type { ParsedArguments } from './command.ts';
import { configInForce } from './config-in-force.ts';
import type { ProgramParts } from './program-parts.ts';
import { complain, type Terminal } from './terminal.ts';

/**
 * The folder of the log that the gateway would use; prints an error when there is none, or the log has no files. Of a log
 * on an engine it is that of the replica, which must not be written.
 */
export async function logDirectoryOf(
  args: ParsedArguments,
  parts: ProgramParts,
  terminal: Terminal,
  mode: 'read' | 'write' = 'read',
): Promise<string | undefined> {
  const log = (await configInForce(args, parts, terminal))?.log;
  if (log === undefined) return undefined;
  if (mode === 'write' && log.engine !== undefined) {
    const { folder } = log.engine;
    complain(
      terminal,
      `${folder} is the replica of a log on an engine: stop the gateway and remove it to read it again`,
    );
    return undefined;
  }
  const url = log.readUrl;
  if (!url.startsWith('file:')) {
    complain(terminal, 'this command requires a log in files (file:…)');
    return undefined;
  }
  const directory = directoryOf(url);
  if (existsSync(directory)) return directory;
  complain(terminal, `there is no event log in ${directory}`);
  return undefined;
}
