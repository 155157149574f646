import { maskAddress } from '../config/problem.ts';
import type { EventLog } from '../events/log.ts';
import { openLog } from '../events/open-log.ts';
import { complain, type Terminal } from './terminal.ts';

/** Opens the log beside a running gateway; prints the reason when that fails. */
export async function openForReading(url: string, terminal: Terminal): Promise<EventLog | undefined> {
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
