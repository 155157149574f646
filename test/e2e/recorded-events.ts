import { join } from 'node:path';
import type { RecordedEvent } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';

/** Everything in the log of that data folder, read beside its writer, if it has one. */
export async function eventsIn(dataDir: string): Promise<RecordedEvent[]> {
  const log = await openLog(`file:${join(dataDir, 'log')}`, { readOnly: true });
  const events: RecordedEvent[] = [];
  try {
    for await (const event of log.readAll()) events.push(event);
  } finally {
    await log.close();
  }
  return events;
}
