/** Run by embedded-faults.test.ts under a limit on file sizes: appends until it has been refused a few times. */
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { streamName } from '../../src/events/event.ts';
import { LogUnavailable } from '../../src/events/log.ts';

const log = await EmbeddedLog.open(process.argv[2] ?? '', { commit: { probeMs: 5 } });
const acknowledged: number[] = [];
const refused: string[] = [];
const body = Buffer.alloc(1_500);
for (let n = 0; refused.length < 5; n++) {
  try {
    const event = { type: 'thing.noted', schema: 1, data: { n }, context: { actor: 'system' as const }, body };
    await log.append([{ stream: streamName('thing', 'a'), events: [event], expectedRevision: 'any' }]);
    acknowledged.push(n);
  } catch (error) {
    if (!(error instanceof LogUnavailable)) throw error;
    refused.push(error.outcome);
  }
}
await log.close();
process.stdout.write(JSON.stringify({ acknowledged, refused }));
