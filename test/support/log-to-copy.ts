/** A log in files with everything that a copy must keep. */
import { randomBytes } from 'node:crypto';
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { streamName } from '../../src/events/event.ts';
import { appendThings, thing } from '../events/log-files.ts';

/**
 * Several closed segments, appends over several streams that repeat one of them, long runs of a stream, bodies of 0 bytes
 * and of more than an engine takes at once, names that are not ASCII.
 */
export async function makeLogToCopy(dir: string): Promise<void> {
  const log = await EmbeddedLog.open(dir, { segmentBytes: 40_000 });
  const many = (from: number, count: number) => Array.from({ length: count }, (_, n) => thing(from + n));
  const [one, other] = [streamName('user', '/größe/日本'), streamName('thing', 'other')];
  await appendThings(log, 0, 200);
  for (let n = 0; n < 40; n++) {
    await log.append([
      { stream: one, events: many(n, 2), expectedRevision: 'any' },
      { stream: other, events: [thing(n, Buffer.alloc(0))], expectedRevision: 'any' },
      { stream: one, events: many(n, 1), expectedRevision: 'any' },
    ]);
  }
  await log.append([{ stream: streamName('thing', 'long'), events: many(0, 3_000), expectedRevision: 'noStream' }]);
  await log.append([
    { stream: streamName('thing', 'large'), events: [thing(1, randomBytes(1_500_000))], expectedRevision: 'any' },
  ]);
  await appendThings(log, 200, 900);
  await log.settled();
  await log.close();
}
