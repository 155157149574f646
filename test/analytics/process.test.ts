import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { type AnalyticsProcess, type AnalyticsProcessOptions, analyticsProcess } from '../../src/analytics/process.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import type { RecordedQuery, RecordQuery } from '../../src/http/clickhouse/reader-request.ts';
import { providerTypes } from '../../src/providers/types.ts';

const folder = mkdtempSync(join(tmpdir(), 'chancery-supervised-'));
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

const running: AnalyticsProcess[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((one) => one.stop()));
});

/** A process with the behaviour of that name (see `stub-process.ts`), and its log lines. */
function supervised(name: string, options: Partial<AnalyticsProcessOptions> = {}, record?: RecordQuery) {
  const dataDir = join(folder, name);
  mkdirSync(join(dataDir, 'log'), { recursive: true });
  const env = {
    DATA_DIR: dataDir,
    CLICKHOUSE_URL: 'http://127.0.0.1:9',
    CLICKHOUSE_DATABASE: name,
    ANALYTICS_SANDBOX: 'off',
  };
  const loaded = loadConfig({ flags: {}, env, cwd: dataDir, providerTypes });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const lines: string[] = [];
  const analytics = analyticsProcess({
    config: loaded.config,
    logger: pino({ base: null }, { write: (line: string) => lines.push(line) }),
    say: (line) => lines.push(line),
    restartMs: 10,
    program: join(import.meta.dirname, 'stub-process.ts'),
    ...options,
  });
  if (analytics === undefined) throw new Error('analytics is off');
  running.push(analytics);
  analytics.start(record);
  const said = (what: RegExp) => lines.filter((line) => what.test(line)).length;
  return { analytics, said, starts: () => said(/^stub \d+$/) };
}

const patience = { timeout: 20_000, interval: 50 };

describe('the analytics process, supervised', () => {
  test('has its queries recorded, and gets an answer when they are', async () => {
    const recorded: RecordedQuery[] = [];
    const { said } = supervised('asks', {}, async (query) => void recorded.push(query));
    await expect.poll(() => said(/^answer \{"type":"recorded","id":7\}$/), patience).toBe(1);
    expect(recorded).toEqual([{ user: 'analyst', query: 'SELECT 1', format: undefined, parameters: { a: 'b' } }]);
  });

  test('gets the reason when a query cannot be recorded', async () => {
    const refusing = supervised('asks', {}, () => Promise.reject(new Error('the disk is full')));
    await expect.poll(() => refusing.said(/^answer .*"error":"the disk is full"/), patience).toBe(1);
    const alone = supervised('asks');
    await expect.poll(() => alone.said(/^answer .*"error":"no gateway process writes the log"/), patience).toBe(1);
  });

  test('is ended and started again when it takes processor time without an answer', { timeout: 30_000 }, async () => {
    const { said, starts } = supervised('spins', { patience: { processorMs: 200, silentMs: 60_000 } });
    await expect.poll(starts, patience).toBeGreaterThan(1);
    expect(said(/does not respond: it has not answered while it took/)).toBeGreaterThan(0);
  });

  test('is ended and started again when it is silent for too long', { timeout: 30_000 }, async () => {
    const { said, starts } = supervised('sleeps', { patience: { processorMs: 15_000, silentMs: 2000 } });
    await expect.poll(starts, patience).toBeGreaterThan(1);
    expect(said(/does not respond: it has not answered for/)).toBeGreaterThan(0);
  });

  test('is left alone while it answers', { timeout: 30_000 }, async () => {
    const { analytics, said, starts } = supervised('answers', { patience: { processorMs: 1, silentMs: 4000 } });
    await expect.poll(() => analytics.status(), patience).toMatchObject({ health: 'ok', lagEvents: 0 });
    const stopped = supervised('sleeps', { patience: { processorMs: 15_000, silentMs: 6000 } });
    await expect.poll(() => stopped.said(/does not respond/), patience).toBe(1);
    expect([starts(), said(/does not respond/)]).toEqual([1, 0]);
  });

  test('is started again with a fair share when it is late at low priority', async () => {
    const { said, starts } = supervised('late', { restartMs: 60_000 });
    await expect.poll(starts, patience).toBeGreaterThan(1);
    expect(said(/analytics is 90 s late: it is restarted with normal processor priority/)).toBeGreaterThan(0);
  });

  test.each(['late_and_fair', 'late_and_waiting'])(
    'is left alone when starting it again cannot help: %s',
    async (name) => {
      const { analytics, starts } = supervised(name);
      await expect.poll(() => analytics.status().lagEvents, patience).toBe(100);
      // Another one is restarted meanwhile.
      const other = supervised('late', { restartMs: 60_000 });
      await expect.poll(other.starts, patience).toBeGreaterThan(1);
      expect(starts()).toBe(1);
    },
  );
});
