/** The commands on read models, beside a gateway with analytics, and after it. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { hasChdb } from '../analytics/embedded.ts';
import { main } from '../support/main-program.ts';
import { ask, killAll, serve, startProcess, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

const dataDir = join(folder.path, 'data');
const env = { ANALYTICS_ENABLED: String(hasChdb), ANALYTICS_HTTP_PORT: '0' };
const patience = { timeout: 40_000, interval: 200 };

async function chancery(...args: string[]) {
  const ran = startProcess({ command: [process.execPath, main, ...args], env: { DATA_DIR: dataDir, ...env } });
  const { code } = await ran.exited;
  return { code, stdout: ran.stdout, stderr: ran.stderr };
}

async function views(): Promise<Record<string, { position: string | null; lagEvents: number | null; note: string }>> {
  const { code, stdout } = await chancery('views', 'status', '--json');
  expect(code).toBe(0);
  return Object.fromEntries(JSON.parse(stdout).views.map((view: { name: string }) => [view.name, view]));
}

describe('chancery views', () => {
  test('work beside a gateway and after it', { timeout: 120_000 }, async () => {
    const gateway = await serve({ dataDir, env });
    const json = { model: 'demo/simulated-small', messages: [{ role: 'user', content: 'Hello!' }] };
    await (await ask(gateway.url, '/v1/chat/completions', { json })).text();

    if (hasChdb) await expect.poll(async () => (await views())['analytics'], patience).toMatchObject({ lagEvents: 0 });
    for (const change of [
      ['rebuild', 'keys'],
      ['skip', 'keys', '--position', '1', '--reason', 'why'],
    ]) {
      const refused = await chancery('views', ...change);
      expect([refused.code, refused.stdout]).toEqual([1, '']);
      expect(refused.stderr).toMatch(/already open for writing by process \d+ .*; stop the gateway first/);
    }
    if (hasChdb) {
      const output = join(folder.path, 'all.parquet');
      const exported = await chancery('log', 'export', '--format', 'parquet', '--output', output);
      expect([exported.code, exported.stderr]).toEqual([0, expect.stringMatching(/^chancery: wrote \d+ events to /)]);
      expect(existsSync(output)).toBe(true);
    }

    if (hasChdb) {
      const busy = await chancery('views', 'rebuild', 'analytics');
      expect([busy.code, busy.stderr]).toEqual([1, expect.stringMatching(/another analytics process runs on/)]);
    }

    gateway.process.kill('SIGTERM');
    expect((await gateway.process.exited).code).toBe(0);
    expect((await views())['analytics']?.note).toMatch(hasChdb ? /does not run/ : /switched off/);
    expect(await chancery('views', 'rebuild', 'provider-memory')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^provider-memory was rebuilt from \d+ events?, up to \d{16}\n$/),
    });
    expect(await views()).toMatchObject({ 'provider-memory': { lagEvents: 0, note: null } });
    if (hasChdb) {
      expect(await chancery('views', 'rebuild', 'analytics')).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/^analytics was rebuilt, up to \d{16}$/m),
        stderr: '',
      });
    }
    const skipped = ['views', 'skip', 'analytics', '--position', '1', '--reason', 'why'];
    expect(await chancery(...skipped)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^analytics continues without event 0{15}1 /),
      stderr: '',
    });
    expect((await chancery('log', 'tail', '--json', '--type', 'view.')).stdout).toContain('"reason":"why"');
    const again = await serve({ dataDir, env });
    expect((await chancery(...skipped)).stdout).toBe('');
    if (hasChdb) await expect.poll(async () => (await views())['analytics'], patience).toMatchObject({ lagEvents: 0 });
    again.process.kill('SIGTERM');
    expect((await again.process.exited).code).toBe(0);
  });

  test('an export to Parquet fails with the reason where chDB is missing', { timeout: 30_000 }, async () => {
    const without = `import { registerHooks } from 'node:module';
      registerHooks({ resolve: (name, context, next) => {
        if (name === 'chdb') throw new Error('no chDB on this machine');
        return next(name, context);
      } });`;
    const output = join(folder.path, 'none.parquet');
    const ran = startProcess({
      command: [
        process.execPath,
        ...['--import', `data:text/javascript,${encodeURIComponent(without)}`],
        ...[main, 'log', 'export', '--format', 'parquet', '--output', output],
      ],
      env: { DATA_DIR: dataDir },
    });
    expect((await ran.exited).code).toBe(1);
    expect(ran.stderr).toBe('chancery: chDB could not be loaded: no chDB on this machine\n');
    expect(existsSync(output)).toBe(false);
  });
});
