import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openLog } from '../../src/events/open-log.ts';
import { RecordedLog } from './recorded-log.ts';
export async function readOn(log: RecordedLog, dataDir: string): Promise<void> {
  const copy = mkdtempSync('/tmp/logcopy-');
  cpSync(join(dataDir, 'log'), copy, { recursive: true });
  const reader = await openLog(`file:${copy}`);
  try {
    for await (const event of reader.readAll({ after: log.position })) log.add(event);
  } finally {
    await reader.close();
    rmSync(copy, { recursive: true });
  }
}
export async function readAgain(dataDir: string): Promise<RecordedLog> {
  const log = new RecordedLog();
  await readOn(log, dataDir);
  return log;
}
