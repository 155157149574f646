/**
 * The packed project on a machine with nothing but some Node and npm: it is installed into an empty folder and run from there.
 * `.ci/run` runs this, with CHANCERY_PACKED=1: it installs packages from npm's cache or the registry.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { killAll, root, startProcess } from '../e2e/gateway-process.ts';

const requested = process.env['CHANCERY_PACKED'] === '1';

describe.skipIf(!requested)('a packed project (CHANCERY_PACKED=1)', { timeout: 120_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'chancery-packed-'));
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|NODE_|VITEST|INIT_CWD|CHANCERY_)/.test(name),
  );
  /** Without this project's own Node. */
  const PATH = (process.env['PATH'] ?? '')
    .split(':')
    .filter((entry) => !entry.startsWith(join(root, 'node_modules')))
    .join(':');
  const env = { ...(Object.fromEntries(inherited) as Record<string, string>), PATH, npm_config_prefer_offline: 'true' };
  const options = { env, encoding: 'utf8', stdio: 'pipe' } as const;

  beforeAll(() => {
    const words = ['pack', '--ignore-scripts', '--pack-destination', folder];
    execFileSync('npm', words, { ...options, cwd: root });
    const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? '';
    // The embedded ClickHouse has several hundred megabytes.
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ overrides: { chdb: 'npm:noop2@2.0.0' } }));
    execFileSync('npm', ['install', '--no-audit', '--no-fund', `./${tarball}`], { ...options, cwd: folder });
  }, 120_000);
  afterAll(() => {
    killAll();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  it('runs with npx, and directly with the Node of the machine', () => {
    for (const command of [['npx', 'chancery'], ['node_modules/.bin/chancery']] as const) {
      const [program, ...words] = command;
      expect(execFileSync(program, [...words, '--version'], { ...options, cwd: folder })).toMatch(/^\d+\.\d+\.\d+\n$/);
    }
  });

  it('serves requests with npx chancery serve, with its dashboard', async () => {
    const data = { DATA_DIR: join(folder, 'data'), GATEWAY_MASTER_KEY: 'a-key-of-a-test', ANALYTICS_ENABLED: 'false' };
    const command = ['npx', 'chancery', 'serve', '--port', '0'] as const;
    const gateway = startProcess({ command, cwd: folder, env: { ...env, ...data }, group: true });
    const url = await gateway.listening;
    const answer = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer a-key-of-a-test', 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'demo/simulated-small', messages: [{ role: 'user', content: 'Hello!' }] }),
    });
    expect(await answer.json()).toMatchObject({ choices: [{ message: { role: 'assistant' } }] });
    expect((await fetch(`${url}/admin/dashboard`)).status).toBe(200);
    expect(gateway.stderr).not.toContain('installing');
  });
});
