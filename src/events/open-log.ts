/** Opens the log that a URL names. */
import { fileURLToPath } from 'node:url';
import { EmbeddedLog, type EmbeddedLogOptions } from './embedded/embedded-log.ts';
import { ReadOnlyLog } from './embedded/read-only-log.ts';
import type { EventLog } from './log.ts';
import { MemoryLog } from './memory/memory-log.ts';

export interface OpenLogOptions extends EmbeddedLogOptions {
  /** Opens the log beside its writer, or without one; appends are then refused. Not for `memory:`. */
  readonly readOnly?: boolean;
}

/**
 * `memory:` for tests, also with the size of the largest event, as in `memory:4194304`; `file:<directory>` (relative,
 * or absolute as in `file:///var/lib/chancery/log`) for the embedded engine.
 * @throws LogCorrupted, LogLocked, and what the file system throws
 */
export async function openLog(url: string, options: OpenLogOptions = {}): Promise<EventLog> {
  const engine = url.slice(0, url.indexOf(':') + 1);
  switch (engine) {
    case 'memory:':
      return new MemoryLog(Number(url.slice(engine.length)) || undefined);
    case 'file:':
      return options.readOnly
        ? ReadOnlyLog.open(directoryOf(url), options)
        : EmbeddedLog.open(directoryOf(url), options);
    case 'esdb:':
    case 'esdb+discover:':
    case 'kurrentdb:':
    case 'kurrentdb+discover:':
    case 'kafka:':
      throw new Error('a log on an engine is opened with a replica; this needs a log in files');
    default:
      throw new Error(`LOG_URL ${url}: expected file:<directory>, esdb://… or kafka://…`);
  }
}

export function directoryOf(url: string): string {
  const directory = url.startsWith('file://') ? fileURLToPath(url) : url.slice('file:'.length);
  if (directory === '') throw new Error(`LOG_URL ${url}: a directory is missing, as in file:./data/log`);
  return directory;
}
