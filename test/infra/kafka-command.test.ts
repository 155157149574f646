import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { freePort, isFree } from '../../infra/kafka/free-port.ts';
import { kafkaJars } from '../../infra/kafka/jars.ts';
import { liveBrokers } from '../../infra/kafka/live-brokers.ts';
import { root, temporaryFolder } from '../e2e/gateway-process.ts';

const jars = kafkaJars();
if ('missing' in jars) console.log(`tests of "npm run kafka" are skipped: ${jars.missing}`);

interface Run {
  readonly child: ChildProcess;
  readonly printed: () => string;
  /** Resolves with the exit code. */
  readonly ended: Promise<number | null>;
}

const runs: Run[] = [];
afterEach(async () => {
  for (const { child, ended } of runs.splice(0)) {
    child.kill('SIGKILL');
    await ended;
  }
});

function run(args: readonly string[], env = process.env): Run {
  const child = spawn(process.execPath, [join(root, 'infra/kafka/main.ts'), ...args], { env });
  let printed = '';
  for (const output of [child.stdout, child.stderr]) output.on('data', (text) => (printed += text));
  const ended = once(child, 'exit').then(([code]) => code);
  const started = { child, printed: () => printed, ended };
  runs.push(started);
  return started;
}

describe('npm run kafka', () => {
  it('says what is missing on a machine without Java', async () => {
    const { ended, printed } = run([], { PATH: '/nowhere' });
    expect(await ended).toBe(1);
    expect(printed()).toContain('Kafka cannot be started: there is no Java (17 or newer)');
  });

  it('refuses a port that is none', async () => {
    const { ended, printed } = run(['--port', '70000']);
    expect(await ended).toBe(1);
    expect(printed()).toContain('--port: 70000 is no port');
  });
});

describe.skipIf('missing' in jars)('npm run kafka, with the jars', () => {
  it('prints the LOG_URL of a broker that answers, and stops it with SIGTERM', async () => {
    const folder = temporaryFolder();
    const port = await freePort();
    const { child, ended, printed } = run(['--port', `${port}`, '--data', folder.path]);
    await expect.poll(printed, { timeout: 30_000 }).toContain(`LOG_URL=kafka://127.0.0.1:${port}/chancery`);
    expect(await liveBrokers(port, 1000)).toBe(1);
    child.kill('SIGTERM');
    expect(await ended).toBe(0);
    expect(await isFree(port)).toBe(true);
    folder.remove();
  }, 60_000);

  it('leaves no broker behind when it is killed', async () => {
    const folder = temporaryFolder();
    const port = await freePort();
    const { child, ended, printed } = run(['--port', `${port}`, '--data', folder.path]);
    await expect.poll(printed, { timeout: 30_000 }).toContain('LOG_URL=');
    child.kill('SIGKILL');
    await ended;
    await expect.poll(() => isFree(port)).toBe(true);
    folder.remove();
  }, 60_000);

  it('does not take the port of another program', async () => {
    const folder = temporaryFolder();
    const port = await freePort();
    const other = createServer().listen(port, '127.0.0.1');
    await once(other, 'listening');
    const { ended, printed } = run(['--port', `${port}`, '--data', folder.path]);
    expect(await ended).toBe(1);
    expect(printed()).toContain(`port ${port} of 127.0.0.1 is in use`);
    other.close();
    folder.remove();
  });
});
