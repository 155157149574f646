/** Analytics beside a busy gateway: how late a request can be queried, and how much slower the gateway becomes. */
import { execFileSync } from 'node:child_process';
import { cpus } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { Histogram } from '../load/histogram.ts';
import type { LoadResult } from '../load/load.ts';
import type { LoadProcess } from '../load/load-process.ts';
import { median } from '../sections/median.ts';
import type { Server } from '../servers/launch.ts';
import { descendantsOf, processorMs } from '../servers/process-stat.ts';
import { caughtUp, openDb } from './history.ts';
import { type AnalyticsWork, requestFor } from './work.ts';

const CONNECTIONS = 50;
const POLL_MS = 100;

export interface Lag {
  /** Time since the end of the newest request that can be queried, one sample per poll. */
  readonly behindMs: Histogram;
  readonly load: LoadResult;
  readonly eventsPerSecond: number;
  /** Processor time of analytics per event, in microseconds, including the polls. */
  readonly eventMicros: number;
}

/** Sends streams at that rate, each with its chunks, and polls for the newest request that can be queried. */
export async function measureLag(
  gateway: Server,
  dataDir: string,
  load: LoadProcess,
  { perSecond, seconds }: { readonly perSecond: number; readonly seconds: number },
): Promise<Lag> {
  const behindMs = new Histogram();
  const db = openDb(dataDir);
  const warmUpSeconds = 3;
  const running = load.run({
    ...requestFor(gateway, 'chat-sse-burst'),
    connections: 100,
    perSecond,
    seconds,
    warmUpSeconds,
  });
  let talking = true;
  const whole = running.finally(() => {
    talking = false;
  });
  const [countFrom, countTo] = [warmUpSeconds, warmUpSeconds + seconds].map((at) => performance.now() + at * 1000);
  const began = Date.now();
  const spent = () => descendantsOf(gateway.pid).reduce((sum, pid) => sum + processorMs(pid), 0);
  const before = spent();
  while (talking) {
    const [row] = await db.rows<{ newest: string }>(
      'SELECT toUnixTimestamp64Micro(max(ended_at)) AS newest FROM $db.exchanges WHERE at > now() - 30',
    );
    const now = performance.now();
    if (now >= (countFrom ?? 0) && now < (countTo ?? 0)) behindMs.record(Date.now() - Number(row?.newest ?? 0) / 1000);
    await delay(POLL_MS);
  }
  const result = await whole;
  await caughtUp(gateway);
  const [row] = await db.rows<{ events: string }>(
    'SELECT count() AS events FROM $db.events WHERE at >= fromUnixTimestamp64Milli({began: Int64})',
    { began },
  );
  await db.close();
  const events = Number(row?.events ?? 0);
  const eventMicros = ((spent() - before) * 1000) / Math.max(1, events);
  return { behindMs, load: result, eventsPerSecond: events / (warmUpSeconds + seconds), eventMicros };
}

export interface GatewayCompanions {
  readonly describe: string;
  /** Answers per second; medians. */
  readonly rates: { readonly with: number; readonly without: number };
  /** The median over rounds of the rate with analytics against the rate without it. */
  readonly ratio: number;
}

export interface Both {
  readonly with: Server;
  readonly without: Server;
  readonly provider: Server;
  readonly load: LoadProcess;
  /** Whether analytics runs alone on the last processor, and everything else on the others. */
  readonly apart: boolean;
}

/** The same work with and without analytics, in alternating rounds. Each begins when analytics has caught up. */
export async function measureUnderLoad(
  work: AnalyticsWork,
  rounds: number,
  seconds: number,
  both: Both,
): Promise<GatewayCompanions> {
  const rates: Record<'with' | 'without', number[]> = { with: [], without: [] };
  if (both.apart) separate(both);
  else for (const pid of all(both)) pin(pid, 0, cpus().length - 1);
  for (let round = -1; round < rounds; round++) {
    const order = ['with', 'without'] as const;
    for (const subject of round % 2 === 0 ? order : order.toReversed()) {
      await caughtUp(both.with);
      const result = await both.load.run({
        ...requestFor(both[subject], work),
        connections: CONNECTIONS,
        seconds,
        warmUpSeconds: 0.5,
      });
      const failed = Object.keys(result.failures);
      if (failed.length > 0) throw new Error(`${work} ${subject} analytics: ${failed.join(', ')}`);
      // The first round is a warm-up.
      if (round >= 0) rates[subject].push(result.perSecond);
    }
  }
  return {
    describe: `${work}, ${both.apart ? 'a processor of its own' : 'on the same processors'}`,
    rates: { with: median(rates.with), without: median(rates.without) },
    ratio: median(rates.with.map((rate, round) => rate / (rates.without[round] ?? rate))),
  };
}

function all({ with: gateway, without, provider, load }: Both): number[] {
  return [gateway.pid, ...descendantsOf(gateway.pid), without.pid, provider.pid, load.pid];
}

function separate(both: Both): void {
  const last = cpus().length - 1;
  const analytics = new Set(descendantsOf(both.with.pid));
  for (const pid of all(both)) {
    if (analytics.has(pid)) pin(pid, last, last);
    else pin(pid, 0, last - 1);
  }
}

/** All threads of the process. */
function pin(pid: number, first: number, last: number): void {
  execFileSync('taskset', ['-a', '-c', '-p', `${first}-${last}`, String(pid)], { stdio: 'ignore' });
}
