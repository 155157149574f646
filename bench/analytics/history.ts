/** A generated history for the queries, and how fast analytics stores it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parsePosition } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';
import { type AnalyticsDb, createAnalyticsDb } from '../../src/projections/analytics/analytics-db.ts';
import { writeHistory } from '../../test/analytics/generated-history.ts';
import { GATEWAY_KEY } from '../servers/gateway.ts';
import type { Server } from '../servers/launch.ts';

export const DAYS = 30;
const PER_SLICE = 20_000;
/** Approximate number of events of an exchange in the history. */
const EVENTS_EACH = 7;
const CATCH_UP_MS = 7200_000;

/** Written in slices, since a history keeps its events in memory. An existing one is kept. @returns its events */
export async function fillLog(dataDir: string, events: number): Promise<number> {
  const log = await openLog(pathToFileURL(join(dataDir, 'log')).href, { durability: 'relaxed' });
  try {
    const there = parsePosition(await log.head());
    if (there > 0) return there;
    const exchanges = Math.ceil(events / EVENTS_EACH);
    const everyMs = (DAYS * 24 * 3600_000) / exchanges;
    const from = Date.now() - DAYS * 24 * 3600_000;
    for (let done = 0, seed = 1; done < exchanges; done += PER_SLICE, seed++) {
      const slice = Math.min(PER_SLICE, exchanges - done);
      await writeHistory(log, { exchanges: slice, seed, from: from + done * everyMs, everyMs });
    }
    return parsePosition(await log.head());
  } finally {
    await log.close();
  }
}

export function openDb(dataDir: string): AnalyticsDb {
  const { gateway } = JSON.parse(readFileSync(join(dataDir, 'clickhouse-passwords.json'), 'utf8'));
  return createAnalyticsDb({
    address: () => ({
      url: readFileSync(join(dataDir, 'clickhouse', 'address'), 'utf8').trim(),
      username: 'gateway',
      password: gateway,
      database: 'chancery',
    }),
  });
}

/** Waits until analytics has everything that is in the log. */
export async function caughtUp(gateway: Server): Promise<void> {
  const deadline = performance.now() + CATCH_UP_MS;
  const headers = { authorization: `Bearer ${GATEWAY_KEY}` };
  for (;;) {
    const text = await (await fetch(`${gateway.origin}/metrics`, { headers })).text();
    const lag = /^gateway_projection_lag_events\{projection="analytics"\} (\d+)$/m.exec(text)?.[1];
    if (lag === '0') return;
    if (performance.now() > deadline) throw new Error(`analytics is still ${lag} events behind`);
    await delay(200);
  }
}

/** Events per second, from the first batch to the last: each was announced when the one before it was stored. */
export async function catchUpRate(dataDir: string, events: number): Promise<number> {
  const db = openDb(dataDir);
  const [row] = await db.rows<{ events: string; ms: string }>(
    `SELECT sum(events) - argMax(events, at) AS events,
      dateDiff('millisecond', min(at), max(at)) AS ms FROM $db._batches WHERE to <= {events: UInt64}`,
    { events },
  );
  await db.close();
  return Number(row?.events ?? 0) / (Number(row?.ms ?? 0) / 1000);
}
