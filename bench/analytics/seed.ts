/**
 * Writes a log of plausible exchanges: `node scripts/run.mjs bench/analytics/seed.ts --data FOLDER --exchanges 1000000`.
 *
 * It then starts a gateway on it, which builds its read models, and waits until analytics has everything; `--keep`
 * leaves the gateway running and prints its address and key. An existing log is not changed.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { parsePosition } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';
import { writePlausibleHistory } from '../../test/support/plausible-history.ts';
import { GATEWAY_KEY, startGateway } from '../servers/gateway.ts';
import { caughtUp } from './history.ts';

const { values: options } = parseArgs({
  options: {
    /** The data folder. */
    data: { type: 'string' },
    exchanges: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: '1' },
    /** Leave the gateway running until the program is interrupted. */
    keep: { type: 'boolean', default: false },
    /** Only write the log. */
    'log-only': { type: 'boolean', default: false },
  },
});
if (options.data === undefined) throw new Error('--data FOLDER is needed: where the log is written');
const dataDir = options.data;

/** The first start folds the whole history into the read models. */
const START_TIMEOUT_MS = 900_000;

const since = performance.now();
const say = (text: string) => console.log(`${((performance.now() - since) / 1000).toFixed(1).padStart(7)} s  ${text}`);
const number = (value: number) => value.toLocaleString('en');

mkdirSync(dataDir, { recursive: true });
const log = await openLog(pathToFileURL(join(dataDir, 'log')).href, { durability: 'relaxed' });
try {
  const there = parsePosition(await log.head());
  if (there > 0) say(`the log has ${number(there)} events already`);
  else {
    const exchanges = Number(options.exchanges);
    const onProgress = (done: number) => {
      if (done % 100_000 === 0) say(`${number(done)} exchanges`);
    };
    const events = await writePlausibleHistory(log, { exchanges, seed: Number(options.seed), onProgress });
    say(`${number(exchanges)} exchanges, ${number(events)} events`);
  }
} finally {
  await log.close();
}
if (!options['log-only']) {
  const env = {
    ANALYTICS_ENABLED: 'true',
    ANALYTICS_HTTP_PORT: '0',
    // The rows of the whole year are kept.
    LOGGING_RETENTION_DAYS: '0',
    USAGE_RETENTION_DAYS: '0',
  };
  const gateway = await startGateway({ dataDir, providers: {}, env, startTimeoutMs: START_TIMEOUT_MS });
  try {
    say(`a gateway has built its read models: ${gateway.origin}`);
    await caughtUp(gateway);
    say('analytics has everything');
    if (options.keep) {
      say(`${gateway.origin}/admin/dashboard with the key ${GATEWAY_KEY}; interrupt to stop`);
      const interrupted = new AbortController();
      process.once('SIGINT', () => interrupted.abort());
      process.once('SIGTERM', () => interrupted.abort());
      await delay(2 ** 31 - 1, undefined, { signal: interrupted.signal }).catch(() => {});
    }
  } finally {
    await gateway.stop();
  }
}
