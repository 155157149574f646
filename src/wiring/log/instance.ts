/** This run of the gateway in the log: its own stream, from `gateway.started` to `gateway.stopped`. */
import { readFileSync } from 'node:fs';
import type { Config } from '../../config/config.ts';
import { gatewayStarted, gatewayStopped } from '../../events/catalogue/gateway.ts';
import { type EventContext, streamName } from '../../events/event.ts';
import { mintEventId } from '../../events/event-id.ts';
import type { EventLog } from '../../events/log.ts';

/** @throws LogUnavailable */
export async function recordStart(log: EventLog, { durability }: Config['log']) {
  const stream = streamName('gateway', mintEventId());
  const started = gatewayStarted.create({ version, node: process.version, durability, pid: process.pid }, context);
  await log.append([{ stream, events: [started], expectedRevision: 'noStream' }]);
  return {
    /** @throws LogUnavailable; the log is closed in that case too */
    async stop(reason: string, cutExchanges: number) {
      const stopped = gatewayStopped.create({ reason, cutExchanges }, context);
      try {
        await log.append([{ stream, events: [stopped], expectedRevision: 'exists' }]);
      } finally {
        await log.close();
      }
    },
  };
}

const context: EventContext = { actor: 'system' };

const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};
