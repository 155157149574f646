/** The analytics process's access to the machine: its environment, files and share of the processor. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { hasChdb } from '../analytics/embedded.ts';
import { ask, killAll, root, type ServedGateway, serve, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

const patience = { timeout: 30_000, interval: 100 };
const withAnalytics = { ANALYTICS_ENABLED: 'true', ANALYTICS_HTTP_PORT: '0' };

/** Whether this system allows a program to run in a namespace of its own. */
const hasSandbox = (() => {
  try {
    execFileSync('bwrap', ['--ro-bind', '/', '/', '--unshare-all', '--proc', '/proc', 'true'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

function descendants(pid: number): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  );
  return children.flatMap((child) => [child, ...descendants(child)]);
}

/** The process that holds ClickHouse: the last of the gateway's descendants. */
function analyticsPid({ process: { pid } }: ServedGateway): number {
  return descendants(pid).at(-1) ?? 0;
}

function nicenessOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).map((task) => {
    const stat = readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]);
  });
}

async function lagOf({ url }: ServedGateway, key?: string): Promise<string | undefined> {
  const text = await (await ask(url, '/metrics', key === undefined ? {} : { key })).text();
  return /^gateway_projection_lag_events\{projection="analytics"\} (\d+)$/m.exec(text)?.[1];
}

const secrets = {
  OPENAI_API_KEY: 'sk-canary-provider',
  GATEWAY_MASTER_KEY: 'canary-master-key',
  ANALYTICS_ANALYST_PASSWORD: 'canary-analyst-password',
  SOMETHING_ELSE: 'canary-of-the-environment',
};

describe.skipIf(!hasChdb || process.platform !== 'linux')('the analytics process', () => {
  let gateway: ServedGateway;
  const home = join(folder.path, 'home');
  const dataDir = join(home, 'data');
  let pid: number;

  beforeAll(async () => {
    mkdirSync(home);
    writeFileSync(join(home, '.env'), 'CANARY=canary-of-the-configuration\n');
    const openai = { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' };
    gateway = await serve({ dataDir, cwd: home, env: { ...withAnalytics, ...openai, ...secrets } });
    await vi.waitUntil(async () => (await lagOf(gateway, secrets.GATEWAY_MASTER_KEY)) === '0', patience);
    pid = analyticsPid(gateway);
  }, 60_000);

  afterAll(async () => {
    gateway.process.kill('SIGTERM');
    expect((await gateway.process.exited).code).toBe(0);
  });

  test('has no secret of the gateway in its environment, nor anything else of it', () => {
    for (const each of descendants(gateway.process.pid)) {
      const environment = readFileSync(`/proc/${each}/environ`, 'utf8');
      for (const secret of Object.values(secrets)) expect(environment).not.toContain(secret);
      const names = environment.split('\0').map((line) => line.split('=', 1)[0]);
      expect(names).not.toContain('HOME');
    }
  });

  test('has no secret on its command line', () => {
    for (const each of descendants(gateway.process.pid)) {
      const command = readFileSync(`/proc/${each}/cmdline`, 'utf8');
      for (const secret of Object.values(secrets)) expect(command).not.toContain(secret);
    }
  });

  test('has a password for writing that is in no file', () => {
    const passwords = JSON.parse(readFileSync(join(dataDir, 'clickhouse-passwords.json'), 'utf8'));
    expect(Object.keys(passwords).sort()).toEqual(['analyst', 'gateway']);
  });

  test('has the lowest priority (nice 19) in all its threads once it is up to date', async () => {
    await expect.poll(() => new Set(nicenessOf(pid)), patience).toEqual(new Set([19]));
  });

  test.skipIf(!hasSandbox)('sees its program, the log and its own folder, and nothing else', () => {
    const seen = (path: string) => join(`/proc/${pid}/root`, path);
    expect(readdirSync(seen(dataDir)).sort()).toEqual(['clickhouse', 'log']);
    expect(readdirSync(seen(home))).toEqual(['data']);
    expect(existsSync(join(dataDir, 'clickhouse-passwords.json'))).toBe(true);
    expect(readdirSync(seen(root)).sort()).toEqual(['node_modules', 'package.json', 'src']);
    expect(existsSync(seen('/etc/passwd'))).toBe(false);
    expect(existsSync(seen('/home'))).toBe(false);
    expect(existsSync(seen('/root'))).toBe(false);
  });

  test.skipIf(!hasSandbox)('can write only to its own folder', () => {
    const mounts = readFileSync(`/proc/${pid}/mountinfo`, 'utf8').trim().split('\n');
    const writable = mounts
      .map((line) => line.split(' '))
      .filter(([, , , , , options = '']) => options.split(',').includes('rw'))
      .map(([, , , , where]) => where);
    expect(writable).toContain(join(dataDir, 'clickhouse'));
    const isOwn = (where: string | undefined) =>
      ['/', '/tmp', '/proc', join(dataDir, 'clickhouse')].includes(where ?? '') || where?.startsWith('/dev/');
    expect(writable.filter((where) => !isOwn(where))).toEqual([]);
  });

  test.skipIf(!hasSandbox)('has its own namespaces of processes, users and network', () => {
    for (const kind of ['pid', 'user', 'net', 'ipc', 'mnt', 'uts']) {
      expect(readlinkSync(`/proc/${pid}/ns/${kind}`)).not.toBe(readlinkSync(`/proc/self/ns/${kind}`));
    }
    const interfaces = readFileSync(`/proc/${pid}/net/dev`, 'utf8').match(/^\s*\w+(?=:)/gm);
    expect(interfaces?.map((name) => name.trim())).toEqual(['lo']);
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    expect(status).toMatch(/^CapEff:\s+0+$/m);
    expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
  });

  test.skipIf(!hasSandbox)('prints no warning when it has a sandbox', () => {
    expect(gateway.process.stdout).not.toMatch(/sandbox/i);
  });
});

describe.skipIf(!hasChdb)('the analytics process without a sandbox', () => {
  test('runs with a warning at start-up', { timeout: 60_000 }, async () => {
    const env = { ...withAnalytics, PATH: '/nowhere' };
    const gateway = await serve({ dataDir: join(folder.path, 'bare'), env });
    await expect.poll(() => lagOf(gateway), patience).toBe('0');
    expect(gateway.process.stdout).toMatch(/^Analytics is not sandboxed: .*bwrap/m);
    const environment = readFileSync(`/proc/${analyticsPid(gateway)}/environ`, 'utf8');
    expect(environment).not.toMatch(/process-test-key/);
    gateway.process.kill('SIGTERM');
    expect((await gateway.process.exited).code).toBe(0);
  });

  test('is off when the sandbox is required', { timeout: 60_000 }, async () => {
    const env = { ...withAnalytics, PATH: '/nowhere', ANALYTICS_SANDBOX: 'required' };
    const gateway = await serve({ dataDir: join(folder.path, 'required'), env });
    const off = /^Analytics is off: .*bwrap.*ANALYTICS_SANDBOX/m;
    await expect.poll(() => gateway.process.stdout, patience).toMatch(off);
    expect(descendants(gateway.process.pid)).toEqual([]);
    gateway.process.kill('SIGTERM');
    expect((await gateway.process.exited).code).toBe(0);
  });
});
