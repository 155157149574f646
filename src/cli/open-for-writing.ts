import { existsSync } from 'node:fs';
import { maskAddress } from '../config/problem.ts';
import { LogLocked } from '../events/embedded/log-errors.ts';
import type { EventLog } from '../events/log.ts';
import { directoryOf, openLog } from '../events/open-log.ts';
import { complain, type Terminal } from './terminal.ts';

/** Opens the log as its only writer. While a gateway uses it, this prints a message and returns undefined. */
export async function openForWriting(url: string, terminal: Terminal): Promise<EventLog | undefined> {
  if (url.startsWith('file:') && !existsSync(directoryOf(url))) {
    complain(terminal, `there is no event log in ${directoryOf(url)}`);
    return undefined;
  }
  try {
    return await openLog(url);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const advice = error instanceof LogLocked ? '; stop the gateway first: its views are in its memory' : '';
    complain(terminal, `the log ${maskAddress(url)} cannot be opened: ${why}${advice}`);
    return undefined;
  }
}
