/**
 * Run by embedded-processes.test.ts as a process of its own:
 * `hold <dir>` opens the log and waits; `append <dir>` appends and prints the number of each acknowledged event;
 * `follow <dir> <count>` subscribes from outside and ends with 0 when it has seen that many events, in order.
 */
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { ReadOnlyLog } from '../../src/events/embedded/read-only-log.ts';
import { streamName } from '../../src/events/event.ts';

const [what, dir = '', count] = process.argv.slice(2);

if (what === 'hold') {
  await EmbeddedLog.open(dir);
  console.log('open');
  setInterval(() => {}, 60_000);
} else if (what === 'append') {
  const log = await EmbeddedLog.open(dir, { segmentBytes: 20_000 });
  for (let n = 0; ; n++) {
    const event = { type: 'thing.noted', schema: 1, data: { n }, context: { actor: 'system' as const } };
    await log.append([
      { stream: streamName('thing', 'a'), events: [event], expectedRevision: n === 0 ? 'noStream' : BigInt(n - 1) },
    ]);
    console.log(n);
  }
} else if (what === 'follow') {
  const log = await ReadOnlyLog.open(dir, { pollMs: 5 });
  let expected = 0;
  for await (const item of log.subscribe({ filter: { types: ['thing.noted'] } })) {
    if (!('data' in item)) {
      console.log(`caught up after ${expected}`);
      continue;
    }
    const { n } = item.data as { n: number };
    if (n !== expected++) throw new Error(`event ${n} came where ${expected - 1} should`);
    if (expected === Number(count)) break;
  }
  await log.close();
}
