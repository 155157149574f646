import { existsSync } from 'node:fs';
import type { LogConfig } from '../config/log-settings.ts';
import { maskLogUrl } from '../config/mask.ts';
import { LogLocked } from '../events/embedded/log-errors.ts';
import type { EventLog } from '../events/log.ts';
import { directoryOf, openLog } from '../events/open-log.ts';
import { complain, type Terminal } from './terminal.ts';

/**
 * Opens the log to read it beside a running gateway, or to write it as its only writer; a log on an engine is then read to
 * its end. Prints the reason and returns undefined when that fails, also while a gateway uses a log that is to be written.
 */
export async function openConfiguredLog(
  log: LogConfig,
  mode: 'read' | 'write',
  terminal: Terminal,
): Promise<EventLog | undefined> {
  if (mode === 'write' && log.readUrl.startsWith('file:') && !existsSync(directoryOf(log.readUrl))) {
    complain(terminal, `there is no event log in ${directoryOf(log.readUrl)}`);
    return undefined;
  }
  try {
    return await (mode === 'read' ? openLog(log.readUrl, { readOnly: true }) : openToWrite(log, terminal));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const advice = error instanceof LogLocked ? '; stop the gateway first: it holds the views in memory' : '';
    complain(
      terminal,
      `the log ${maskLogUrl(mode === 'read' ? log.readUrl : log.url)} cannot be opened: ${why}${advice}`,
    );
    return undefined;
  }
}

async function openToWrite({ url, engine }: LogConfig, terminal: Terminal): Promise<EventLog> {
  if (engine === undefined) return openLog(url);
  const { engineAccess } = await import('../config/engine-access.ts');
  const { openReplicatedLog } = await import('../events/open-replicated-log.ts');
  return openReplicatedLog({
    ...engineAccess(url, engine),
    dir: engine.folder,
    signal: terminal.signal,
    onDelay: (reason) => complain(terminal, `waiting: ${reason}`),
  });
}
