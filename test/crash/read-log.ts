import { join } from 'node:path';
import { openLog } from '../../src/events/open-log.ts';
import { RecordedLog } from './recorded-log.ts';

/**
 * Adds what is new, read from the files as any other process may read them, also while a gateway writes.
 * @throws when anything in them is damaged
 */
export async function readOn(log: RecordedLog, dataDir: string): Promise<void> {
  const reader = await openLog(`file:${join(dataDir, 'log')}`, { readOnly: true });
  try {
    for await (const event of reader.readAll({ after: log.position })) log.add(event);
  } finally {
    await reader.close();
  }
}

/** The whole log once more, from its beginning. */
export async function readAgain(dataDir: string): Promise<RecordedLog> {
  const log = new RecordedLog();
  await readOn(log, dataDir);
  return log;
}
