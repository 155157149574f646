/**
 * A log on Kafka without a gateway: events per second that are appended and read back, and the time in which a gateway
 * with an empty folder catches up: `node scripts/run.mjs bench/replication.ts [events]`.
 */
import { mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type EventContext, type NewEvent, streamName } from '../src/events/event.ts';
import { mintEventId } from '../src/events/event-id.ts';
import { createKafkaEngine } from '../src/events/kafka/kafka-engine.ts';
import { ReplicatedLog } from '../src/events/replicated/replicated-log.ts';
import { brokerForBench } from './servers/kafka-broker.ts';

/** Exchanges at a time. */
const writers = 1_000;
/** An exchange is a stream with so many appends of so many events. */
const form = { appends: 2, events: 3 };
/** Body size that makes the whole record 500 bytes. */
const eventBytes = 500;
const bodyBytes = eventBytes - 281;

const wanted = Number(process.argv[2] ?? 300_000);
const body = new Uint8Array(bodyBytes).fill(65);
const parent = process.env['BENCH_DIR'] ?? tmpdir();
const workDir = mkdtempSync(join(parent, 'chancery-bench-'));
const room = statfsSync(workDir);
// The topic, the replica that is written, the one that catches up, and the indexes of both.
if (room.bavail * room.bsize < wanted * eventBytes * 4) throw new Error(`${parent} has no room for ${wanted} events`);
const broker = await brokerForBench(workDir);
const url = `kafka://${broker.brokers}/replication-${Date.now()}`;
try {
  await measure('append and read back', async () => {
    const log = await openReplica('writer');
    const events = await appendEvents(log, wanted);
    await log.close();
    return events;
  });
  rmSync(join(workDir, 'writer'), { recursive: true, force: true });
  await measure('catch up with an empty folder', async () => {
    const log = await openReplica('reader');
    const events = Number(await log.head());
    await log.close();
    return events;
  });
} finally {
  await broker.stop();
  rmSync(workDir, { recursive: true, force: true, maxRetries: 3 });
}

function openReplica(name: string): Promise<ReplicatedLog> {
  return ReplicatedLog.open({ engine: createKafkaEngine({ url }), dir: join(workDir, name) });
}

/** @returns how many events were acknowledged */
async function appendEvents(log: ReplicatedLog, wanted: number): Promise<number> {
  let left = wanted;
  const writeExchanges = async () => {
    while (left > 0) {
      const id = mintEventId();
      const stream = streamName('exchange', id);
      const context: EventContext = { actor: 'key:0193f2a0', userPath: undefined, requestId: id, correlationId: id };
      let revision: bigint | undefined;
      for (let append = 0; append < form.appends; append++) {
        left -= form.events;
        const events = Array.from({ length: form.events }, (_, index) => chunk(context, index));
        const appended = await log.append([{ stream, events, expectedRevision: revision ?? 'noStream' }]);
        revision = appended.revisions[0];
      }
    }
  };
  await Promise.all(Array.from({ length: writers }, writeExchanges));
  return wanted - left;
}

function chunk(context: EventContext, index: number): NewEvent {
  return { type: 'chunk.received', schema: 1, data: { attempt: 1, index }, context, body };
}

async function measure(what: string, work: () => Promise<number>): Promise<void> {
  const began = performance.now();
  const spent = process.cpuUsage();
  const events = await work();
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(spent);
  const rate = Math.round(events / seconds).toLocaleString('en');
  console.log(
    `${what.padEnd(30)} ${events.toLocaleString('en')} events of ${eventBytes} bytes in ${seconds.toFixed(1)} s: ${rate} events/s, CPU ${((user + system) / events).toFixed(1)} µs per event, peak ${Math.round(process.resourceUsage().maxRSS / 1024)} MB`,
  );
}
