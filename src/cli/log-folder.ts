import path from 'node:path';
import { directoryOf } from '../events/open-log.ts';
import { UsageError } from './command.ts';
import type { ProgramParts } from './program-parts.ts';

/** A folder on the command line: a path, or `file:` and a path. */
export function folderFrom(typed: string, { cwd }: Pick<ProgramParts, 'cwd'>): string {
  if (typed === '' || typed === 'file:') throw new UsageError('expected a folder, got an empty text');
  return path.resolve(cwd, typed.startsWith('file:') ? directoryOf(typed) : typed);
}
