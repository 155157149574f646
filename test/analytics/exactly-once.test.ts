/**
 * Kills the projector, ClickHouse or both, or pauses the projector until another one has taken over, at any moment, again and
 * again, while the log grows; then the tables must be the log, no row less and none twice. A few rounds here; `ANALYTICS_KILLS=100` for many.
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
import { z } from 'zod';
import { parsePosition } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';
import { createChance } from '../crash/random.ts';
import { countOf, seed } from '../support/seed.ts';
import { hasChdb } from './embedded.ts';
import { writeHistory } from './generated-history.ts';
import { figuresOfLog } from './log-figures.ts';
import { figuresInSql } from './sql-figures.ts';

const kills = countOf(3, 50, 'ANALYTICS_KILLS');
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

const message = z.object({
  ready: z.boolean().optional(),
  stored: z.number().optional(),
  error: z.string().optional(),
});

/** Resolves when the child sends the message. Rejects with its last complaint otherwise. */
async function said(child: ChildProcess, what: (said: z.infer<typeof message>) => boolean): Promise<void> {
  let complaint = 'it said nothing';
  const patience = AbortSignal.timeout(MOST_MS_PER_KILL);
  const received = Promise.withResolvers<void>();
  const hear = (sent: unknown) => {
    const reported = message.parse(sent);
    complaint = reported.error ?? complaint;
    if (what(reported)) received.resolve();
  };
  const giveUp = () => received.reject(new Error(`waited for ${child.spawnargs.slice(2, 4).join(' ')}: ${complaint}`));
  child.on('message', hear);
  patience.addEventListener('abort', giveUp);
  try {
    await received.promise;
  } finally {
    patience.removeEventListener('abort', giveUp);
    child.off('message', hear);
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

describe.skipIf(!hasChdb)('analytics that is killed', () => {
  test(`loses nothing and doubles nothing (${kills} kills, CHANCERY_TEST_SEED=${seed})`, {
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
    let storedUpTo = 0;
    let epoch = 0;
    const startProjector = () => {
      const child = start('projector', logFolder, url, database, String(++epoch));
      child.on('message', (sent) => {
        storedUpTo = Math.max(storedUpTo, message.parse(sent).stored ?? 0);
      });
      return child;
    };

    let clickhouse = await startClickHouse();
    let projector = startProjector();
    let paused: ChildProcess | undefined;
    for (let round = 0; round < kills; round++) {
      const storing = said(projector, ({ stored }) => stored !== undefined);
      await writeHistory(log, { exchanges: chance.between(10, 60), seed: seed + round });
      await storing;
      // It goes on beside the one that has taken over.
      paused?.kill('SIGCONT');
      // A time: the moment of the kill is random.
      await delay(chance.between(0, 400));
      const whom = round === 1 ? 'pause' : chance.oneOf(['projector', 'clickhouse', 'both', 'pause']);
      if (whom === 'pause') {
        projector.kill('SIGSTOP');
        paused = projector;
        projector = startProjector();
        continue;
      }
      await Promise.all([
        whom === 'clickhouse' ? undefined : kill(projector),
        whom === 'projector' ? undefined : kill(clickhouse),
      ]);
      if (whom !== 'projector') clickhouse = await startClickHouse();
      if (whom !== 'clickhouse') projector = startProjector();
    }
    const head = parsePosition(await log.head());
    paused?.kill('SIGCONT');
    await expect.poll(() => storedUpTo, { timeout: kills * MOST_MS_PER_KILL, interval: 50 }).toBe(head);

    const client = createClient({
      url,
      username: 'projector',
      password: 'writes',
      log: { level: ClickHouseLogLevel.OFF },
    });
    expect(await figuresInSql(client, database)).toEqual(await figuresOfLog(log));
    expect(await figuresInSql(client, database, 'usage_by_quarter_hour')).toEqual(await figuresOfLog(log));
    await client.close();
    if (paused !== undefined) await kill(paused);
    await kill(projector);
    await kill(clickhouse);
    await log.close();
  });
});
