import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { rebuildAnalytics } from '../../src/analytics/rebuild.ts';
import { writingAccess } from '../../src/analytics/writing-access.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { openLog } from '../../src/events/open-log.ts';
import { providerTypes } from '../../src/providers/types.ts';
import { hasChdb } from './embedded.ts';
import { writeHistory } from './generated-history.ts';
import { figuresOfLog } from './log-figures.ts';
import { figuresInSql } from './sql-figures.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'chancery-rebuild-'));
afterAll(() => rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 }));

function configOf() {
  const env = { DATA_DIR: dataDir, LOGGING_RETENTION_DAYS: '0', USAGE_RETENTION_DAYS: '0', ANALYTICS_HTTP_PORT: '0' };
  const loaded = loadConfig({ flags: {}, env, cwd: dataDir, providerTypes });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return loaded.config;
}

/** The figures of the tables and of their rollup. */
async function figures() {
  const { client, close } = await writingAccess(configOf(), join(dataDir, 'clickhouse'));
  try {
    const databases = await client.query({ query: 'SHOW DATABASES', format: 'TabSeparated' });
    return {
      databases: (await databases.text()).split('\n').filter((name) => name.startsWith('chancery')),
      tables: await figuresInSql(client, 'chancery'),
      rollup: await figuresInSql(client, 'chancery', 'usage_by_quarter_hour'),
    };
  } finally {
    await close();
  }
}

describe.skipIf(!hasChdb)('a rebuild of analytics', () => {
  test('has the figures of the log, also the second time; stopped half way it leaves the tables unchanged', {
    timeout: 120_000,
  }, async () => {
    const log = await openLog(configOf().log.url);
    const { signal } = new AbortController();
    for (const seed of [1, 2]) {
      await writeHistory(log, { exchanges: 60, seed });
      const seen: string[] = [];
      const onProgress = (position: string) => seen.push(position);
      expect(await rebuildAnalytics(configOf(), { signal, onProgress })).toBe(await log.head());
      expect(seen.at(-1)).toBe(await log.head());
      const sourceLog = await figuresOfLog(log);
      expect(await figures()).toEqual({ databases: ['chancery'], tables: sourceLog, rollup: sourceLog });
    }
    const sourceLog = await figuresOfLog(log);
    await writeHistory(log, { exchanges: 5, seed: 3 });
    const stopped = { signal: AbortSignal.abort(new Error('enough')), onProgress: () => {} };
    await expect(rebuildAnalytics(configOf(), stopped)).rejects.toThrow('enough');
    expect((await figures()).tables).toEqual(sourceLog);
    await log.close();
  });
});
