import { existsSync } from 'node:fs';
import { maskAddress } from '../config/problem.ts';
import { LogLocked } from '../events/embedded/log-errors.ts';
import type { EventLog } from '../events/log.ts';
import { directoryOf, openLog } from '../events/open-log.ts';
import { complain, type Terminal } from './terminal.ts';

/**
 * Opens the log to read it beside a running gateway, or to write it as its only writer. Prints the reason and returns
 * undefined when that fails, also while a gateway uses a log that is to be written.
 */
export async function openConfiguredLog(
  url: string,
  mode: 'read' | 'write',
  terminal: Terminal,
): Promise<EventLog | undefined> {
  if (mode === 'write' && url.startsWith('file:') && !existsSync(directoryOf(url))) {
    complain(terminal, `there is no event log in ${directoryOf(url)}`);
    return undefined;
  }
  try {
    return await (mode === 'read' ? openLog(url, { readOnly: true }) : openLog(url));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const advice = error instanceof LogLocked ? '; stop the gateway first: it holds the views in memory' : '';
    complain(terminal, `the log ${maskAddress(url)} cannot be opened: ${why}${advice}`);
    return undefined;
  }
}
