import { execFile } from 'node:child_process';
import { statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { isDashboardCurrent } from '../../scripts/dashboard-build.mjs';
import { DASHBOARD_NOT_BUILT } from '../../src/http/dashboard/dashboard.ts';
import { main } from '../support/main-program.ts';
import { ask, killAll, root, startProcess, temporaryFolder } from './gateway-process.ts';

const run = promisify(execFile);
const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

const viaWrapper = [process.execPath, join(root, 'scripts/run.mjs'), 'src/main.ts', 'serve'] as const;
const keyPattern = /sk-chancery-[\w-]{20,}/;

async function has(program: string): Promise<boolean> {
  return run(program, ['--version']).then(
    () => true,
    () => false,
  );
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

describe('a start without configuration', async () => {
  const dataDir = join(folder.path, 'first');
  const curl = await has('curl');

  it('serves a demo provider, and prints the new master key with a working curl command', async (test) => {
    const gateway = startProcess({ command: viaWrapper, env: { DATA_DIR: dataDir } });
    const url = await gateway.listening;
    await expect.poll(() => gateway.stdout).toContain('curl ');
    expect(gateway.stdout.split('\n').filter((line) => line.includes('demo/') && !line.includes('curl'))).toEqual([
      expect.stringMatching(/No provider is configured. A simulated provider serves demo\/.+LLAMACPP_BASE_URL=/),
    ]);
    const key = keyPattern.exec(gateway.stdout)?.[0] ?? '';
    expect((await ask(url, '/v1/models', { key })).status).toBe(200);
    expect((await ask(url, '/v1/models', { key: 'another' })).status).toBe(401);
    expect((await fetch(`${url}/v1/models`)).status).toBe(401);

    const file = statSync(join(dataDir, 'master.key'));
    expect((file.mode & 0o777).toString(8)).toBe('600');
    expect(file.size).toBe(key.length + 1);

    // The start has built it, unless its packages cannot be installed here.
    const dashboard = `${url}/admin/dashboard`;
    const isBuilt = isDashboardCurrent(root);
    expect(gateway.stdout).toContain(
      isBuilt ? `The dashboard, which needs this key:\n\n  ${dashboard}\n\nTry it:` : DASHBOARD_NOT_BUILT,
    );
    expect((await fetch(dashboard)).status).toBe(isBuilt ? 200 : 503);

    const command = gateway.stdout.split('\n').find((line) => line.trim().startsWith('curl ')) ?? '';
    if (!curl) test.skip('there is no curl to run the printed command with');
    const { stdout } = await run('/bin/sh', ['-c', command]);
    expect(JSON.parse(stdout)).toMatchObject({
      object: 'chat.completion',
      choices: [{ message: { role: 'assistant', content: expect.stringMatching(/\w/) } }],
    });
    gateway.kill('SIGTERM');
    expect(await gateway.exited).toEqual({ code: 0, signal: null });
  });

  it('keeps the key and does not show it again', async () => {
    const again = startProcess({ command: viaWrapper, env: { DATA_DIR: dataDir } });
    const url = await again.listening;
    // The last line; the lines may arrive one after the other.
    await expect
      .poll(() => again.stdout)
      .toContain(isDashboardCurrent(root) ? `\nThe dashboard is at ${url}/admin/dashboard\n` : DASHBOARD_NOT_BUILT);
    expect((await ask(url, '/v1/models', { key: 'another' })).status).toBe(401);
    again.kill('SIGTERM');
    expect(await again.exited).toEqual({ code: 0, signal: null });
    expect(again.stdout).toContain('demo/');
    expect(again.stdout).not.toContain('curl');
    expect(`${again.stdout}${again.stderr}`).not.toMatch(keyPattern);
  });
});

describe('a start without the dashboard', () => {
  it.each(['ADMIN_UI_ENABLED', 'ADMIN_ENDPOINTS_ENABLED'])('does not print its address: %s=false', async (name) => {
    const gateway = startProcess({
      env: { DATA_DIR: join(folder.path, 'off'), GATEWAY_MASTER_KEY: 'a-key-of-16-characters', [name]: 'false' },
    });
    await gateway.listening;
    await expect.poll(() => gateway.stdout).toContain('demo/');
    gateway.kill('SIGTERM');
    await gateway.exited;
    expect(gateway.stdout).not.toContain('ashboard');
    expect(gateway.stderr.includes('the dashboard is off because it requires the admin endpoints')).toBe(
      name === 'ADMIN_ENDPOINTS_ENABLED',
    );
  });
});

describe('a start with every declarable setting', () => {
  const env = {
    DATA_DIR: join(folder.path, 'declared'),
    GATEWAY_MASTER_KEY: 'key-of-a-declared-start',
    SET_BUDGET_TEAM__ALPHA: 'daily=10,weekly=50',
    SET_RATE_LIMIT_TEAM__ALPHA: 'rpm=100,concurrent=10',
    SET_PROVIDER_RATE_LIMIT_DEMO: 'rpm=500',
    USERS: '[{"path": "/team", "allowed_models": ["simulated-small"]}]',
    VIRTUAL_MODELS: '[{"source": "fast", "target_model": "simulated-small"}]',
    TAGGING_HEADER_1: 'X-Team',
  };

  it.each(['first', 'second'])('listens for the %s time, with all settings applied', async () => {
    const gateway = startProcess({ env });
    const url = await gateway.listening;
    const rows = async (path: string) => {
      const text = await (await ask(url, path, { key: env.GATEWAY_MASTER_KEY })).text();
      const answer = JSON.parse(text);
      return Object.values<{ source?: string; managed?: boolean }[]>(answer)[0] ?? [];
    };
    expect((await rows('/admin/budgets')).map(({ source }) => source)).toEqual(['config', 'config']);
    expect((await rows('/admin/rate-limits')).map(({ source }) => source)).toEqual(['config', 'config', 'config']);
    expect(await rows('/admin/users')).toContainEqual(expect.objectContaining({ user_path: '/team', managed: true }));
    expect(await rows('/admin/tagging/settings')).toContainEqual(expect.objectContaining({ managed: true }));
    gateway.kill('SIGTERM');
    expect(await gateway.exited).toEqual({ code: 0, signal: null });
  });
});

describe('a start with flags', () => {
  it('listens on --port and --host, over the environment', async () => {
    const port = await freePort();
    const gateway = startProcess({
      command: viaWrapper,
      args: ['--port', String(port), '--host', 'localhost', '--data-dir', join(folder.path, 'flags')],
      env: { PORT: '1', DATA_DIR: '/nowhere/to/be/written' },
    });
    expect(await gateway.listening).toBe(`http://localhost:${port}`);
    expect((await fetch(`http://localhost:${port}/health`)).status).toBe(200);
    gateway.kill('SIGINT');
    expect((await gateway.exited).code).toBe(0);
  });

  it('is refused when a flag is unknown', async () => {
    const gateway = startProcess({ command: viaWrapper, args: ['--prot', '1'] });
    expect((await gateway.exited).code).toBe(2);
    expect(gateway.stderr).toContain('--prot');
  });
});

describe('diagnostics', () => {
  const env = { LLAMACPP_BASE_URL: 'http://127.0.0.1:9/v1' };

  it('go to standard error, as JSON without a terminal', async () => {
    const gateway = startProcess({ env: { ...env, DATA_DIR: join(folder.path, 'json') } });
    await gateway.listening;
    await expect.poll(() => gateway.stderr).toContain('provider llamacpp');
    const [line = ''] = gateway.stderr.split('\n');
    expect(JSON.parse(line)).toMatchObject({ level: 40, time: expect.any(String), msg: expect.any(String) });
    expect(gateway.stdout).not.toContain('provider llamacpp');
  });

  it('are lines of text with LOG_FORMAT=text', async () => {
    const gateway = startProcess({ env: { ...env, LOG_FORMAT: 'text', DATA_DIR: join(folder.path, 'text') } });
    await gateway.listening;
    await expect.poll(() => gateway.stderr).toMatch(/^\d{4}-\S+Z WARN {2}provider llamacpp: /m);
  });
});

describe('a failed start', () => {
  it('lists every problem of the configuration, by its variable or its place in the file', async () => {
    const cwd = temporaryFolder();
    writeFileSync(join(cwd.path, 'chancery.yaml'), 'server:\n  drain_timeout: soon\n  prot: 1\n');
    const gateway = startProcess({
      command: viaWrapper,
      cwd: cwd.path,
      env: { PORT: '99999', LOG_DURABILITY: 'sometimes', LLAMACPP_BASE_URL: 'not a url', DATA_DIR: folder.path },
    });
    expect(await gateway.exited).toEqual({ code: 1, signal: null });
    for (const named of ['PORT', 'LOG_DURABILITY', 'LLAMACPP_BASE_URL', 'server.drain_timeout', 'server.prot']) {
      expect(gateway.stderr).toContain(named);
    }
    expect(gateway.stdout).toBe('');
    cwd.remove();
  });

  it('names a port that is in use', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const address = taken.address();
    const port = typeof address === 'object' && address !== null ? String(address.port) : '';
    const gateway = startProcess({ env: { PORT: port, DATA_DIR: join(folder.path, 'taken') } });
    expect(await gateway.exited).toEqual({ code: 1, signal: null });
    expect(gateway.stderr).toMatch(new RegExp(`${port} is in use`));
    taken.close();
  });

  it('names a data folder that another gateway uses', async () => {
    const dataDir = join(folder.path, 'shared');
    const first = startProcess({ env: { DATA_DIR: dataDir } });
    await first.listening;
    const second = startProcess({ env: { DATA_DIR: dataDir } });
    expect(await second.exited).toEqual({ code: 1, signal: null });
    expect(second.stderr).toMatch(/already open for writing/);
    first.kill('SIGKILL');
    await first.exited;
    // A killed gateway leaves no lock behind.
    const third = startProcess({ env: { DATA_DIR: dataDir } });
    await third.listening;
    third.kill('SIGKILL');
  });

  it('refuses the log of another gateway, wherever its own data are, and leaves that gateway alone', async () => {
    const LOG_URL = `file:${join(folder.path, 'one-log')}`;
    const GATEWAY_MASTER_KEY = 'the-key';
    const first = startProcess({ env: { DATA_DIR: join(folder.path, 'one'), LOG_URL, GATEWAY_MASTER_KEY } });
    const url = await first.listening;
    const second = startProcess({ env: { DATA_DIR: join(folder.path, 'two'), LOG_URL, GATEWAY_MASTER_KEY } });
    expect(await second.exited).toEqual({ code: 1, signal: null });
    expect(second.stderr).toMatch(/could not start: .*one-log.* already open for writing.*process \d+/);
    expect(second.stdout).not.toContain('listens on');
    const made = await ask(url, '/admin/auth-keys', { json: { name: 'still here' }, key: GATEWAY_MASTER_KEY });
    expect(made.status).toBe(201);
    first.kill('SIGTERM');
    expect(await first.exited).toEqual({ code: 0, signal: null });
    const check = startProcess({
      command: [process.execPath, main],
      args: ['log', 'check', '--log-url', LOG_URL],
    });
    expect((await check.exited).code).toBe(0);
  });
});

describe('npm start', async () => {
  const npm = await has('npm');

  it.skipIf(!npm)('accepts flags after --, and passes a stop on to the gateway (skipped without npm)', async () => {
    const port = await freePort();
    const gateway = startProcess({
      command: ['npm', 'start', '--', '--port', String(port)],
      cwd: root,
      group: true,
      env: { DATA_DIR: join(folder.path, 'npm'), npm_config_update_notifier: 'false' },
    });
    const url = await gateway.listening;
    expect(url).toBe(`http://127.0.0.1:${port}`);
    await expect.poll(() => gateway.stdout).toMatch(keyPattern);
    const key = keyPattern.exec(gateway.stdout)?.[0] ?? '';
    expect((await ask(url, '/v1/models', { key })).status).toBe(200);
    gateway.kill('SIGTERM');
    await gateway.exited;
    await expect(fetch(`${url}/health`)).rejects.toThrow();
  });
});
