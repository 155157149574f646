/**
 * Kills the projector, ClickHouse or both, at any moment, again and again while the log grows; then what is stored must
 * be the log, no row less and none twice. A few rounds here; `ANALYTICS_KILLS=100` for many.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { afterAll, describe, expect, test } from 'vitest';
import type { EventLog } from '../../src/events/log.ts';
import { openLog } from '../../src/events/open-log.ts';
import { parsePosition } from '../../src/events/sequence-position.ts';
import { createChance } from '../crash/chance.ts';
import { hasChdb } from './embedded.ts';
import { writeHistory } from './generated-history.ts';
import { figuresOfLog } from './log-figures.ts';
import { figuresInSql } from './sql-figures.ts';

const kills = Number(process.env['ANALYTICS_KILLS'] ?? 5);
const seed = Number(process.env['ANALYTICS_SEED'] ?? Date.now() % 100_000);
const database = 'chancery';
/** A round starts up to two processes, one of which loads ClickHouse. */
const MOST_MS_PER_KILL = 30_000;

const folder = mkdtempSync(join(tmpdir(), 'chancery-kills-'));
const running = new Set<ChildProcess>();
afterAll(() => {
  for (const child of running) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
});

function start(...args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'killed-part.ts'), ...args], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  running.add(child);
  child.once('close', () => running.delete(child));
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, 'close');
  child.kill('SIGKILL');
  await closed;
}

/** Resolves when the child says so. */
function said(child: ChildProcess, what: (message: { ready?: boolean; stored?: number }) => boolean): Promise<void> {
  return new Promise((resolve) => {
    const hear = (message: unknown) => {
      if (!what(message as { ready?: boolean; stored?: number })) return;
      child.off('message', hear);
      resolve();
    };
    child.on('message', hear);
  });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

describe.skipIf(!hasChdb)('analytics that is killed', () => {
  test(`loses nothing and doubles nothing (${kills} kills, ANALYTICS_SEED=${seed})`, {
    timeout: 60_000 + kills * MOST_MS_PER_KILL,
  }, async () => {
    const chance = createChance(seed);
    const logFolder = join(folder, 'log');
    const log = await openLog(`file:${logFolder}`, { durability: 'relaxed' });
    await writeHistory(log, { exchanges: 100, seed });
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const startClickHouse = async () => {
      const child = start('clickhouse', join(folder, 'clickhouse'), String(port));
      await said(child, ({ ready }) => ready === true);
      return child;
    };
    const startProjector = () => start('projector', logFolder, url, database);

    let clickhouse = await startClickHouse();
    let projector = startProjector();
    const writing = writeMeanwhile(log, seed);
    for (let round = 0; round < kills; round++) {
      await said(projector, ({ stored }) => stored !== undefined);
      await delay(chance.between(0, 400));
      const whom = chance.oneOf(['projector', 'clickhouse', 'both']);
      await Promise.all([
        whom === 'clickhouse' ? undefined : kill(projector),
        whom === 'projector' ? undefined : kill(clickhouse),
      ]);
      if (whom !== 'projector') clickhouse = await startClickHouse();
      if (whom !== 'clickhouse') projector = startProjector();
    }
    await writing.stop();
    const head = parsePosition(await log.head());
    // Something to store, so that it is said when all of it is.
    await writeHistory(log, { exchanges: 1, seed });
    await said(projector, ({ stored = 0 }) => stored > head);

    const client = createClient({
      url,
      username: 'projector',
      password: 'writes',
      log: { level: ClickHouseLogLevel.OFF },
    });
    const result = await client.query({
      query: `SELECT max(position) AS last FROM ${database}.events`,
      format: 'JSONEachRow',
    });
    expect(Number((await result.json<{ last: number | string }>())[0]?.last)).toBe(parsePosition(await log.head()));
    expect(await figuresInSql(client, database)).toEqual(await figuresOfLog(log));
    expect(await figuresInSql(client, database, 'usage_by_quarter_hour')).toEqual(await figuresOfLog(log));
    await client.close();
    await kill(projector);
    await kill(clickhouse);
    await log.close();
  });
});

/** Lets the log grow by some exchanges ten times a second. */
function writeMeanwhile(log: EventLog, seed: number): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const { signal } = stopping;
  const written = (async () => {
    for (let part = 1; !signal.aborted; part++) {
      await writeHistory(log, { exchanges: 20, seed: seed + part });
      await delay(100, undefined, { signal }).catch(() => {});
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await written;
    },
  };
}
