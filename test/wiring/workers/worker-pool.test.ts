/** The supervision of worker processes. The programs are short ones, each with one behaviour. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { afterAll, describe, expect, it } from 'vitest';
import type { Config } from '../../../src/config/config.ts';
import { WorkerPool } from '../../../src/wiring/workers/worker-pool.ts';

const folder = mkdtempSync(join(tmpdir(), 'chancery-pool-'));
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
let programs = 0;

const ready = `
  process.send({ type: 'leased', gateway: 'g' + message.number });
  process.send({ type: 'ready', url: 'http://x', demo: false, dashboard: 'off' });`;
const stops = `
  if (message.type === 'stop') process.send({ type: 'stopped' }, () => process.exit(0));`;

/** @param onMessage code that runs for each message; `starts` counts the processes of this program */
function poolOf(onMessage: string, options: { count?: number; patienceMs?: number } = {}) {
  programs += 1;
  const file = join(folder, `${programs}.mjs`);
  const counter = join(folder, `${programs}.starts`);
  writeFileSync(counter, '');
  writeFileSync(
    file,
    `import { appendFileSync, readFileSync } from 'node:fs';
    appendFileSync(${JSON.stringify(counter)}, 'x');
    const starts = readFileSync(${JSON.stringify(counter)}, 'utf8').length;
    process.once('disconnect', () => process.exit(0));
    process.on('message', (message) => { ${onMessage} });`,
  );
  const exits: [number, string | undefined][] = [];
  const pool = new WorkerPool({
    count: options.count ?? 2,
    start: () => ({ config: {} as Config, socketPath: '', url: '', state: { running: 0 } }),
    patienceMs: options.patienceMs ?? 60_000,
    logger: pino({ level: 'silent' }),
    onMessage() {},
    onExit: (worker, gateway) => exits.push([worker, gateway]),
    program: file,
    restartMs: 10,
  });
  return { pool, exits, starts: () => readFileSync(counter, 'utf8').length };
}

describe('a pool of workers', () => {
  it('starts all, and stops all', async () => {
    const { pool, exits } = poolOf(`if (message.type === 'start') { ${ready} } ${stops}`);
    expect(await pool.start()).toMatchObject({ url: 'http://x' });
    expect(pool.running).toBe(2);
    expect(pool.gateways().toSorted()).toEqual(['g1', 'g2']);
    expect(await pool.stop('SIGTERM', 10_000)).toEqual({ unrecorded: [], errors: [] });
    // Their gateways have ended their leases themselves.
    expect(exits.toSorted()).toEqual([
      [1, undefined],
      [2, undefined],
    ]);
  });

  it('fails to start with the reason of a worker that cannot', async () => {
    const { pool } = poolOf(`
      if (message.number === 2) process.send({ type: 'failed', reason: 'no plugin' }, () => process.exit(1));
      else if (message.type === 'start') { ${ready} } ${stops}`);
    await expect(pool.start()).rejects.toThrow('no plugin');
    await pool.stop('it failed', 10_000);
  });

  it('replaces a worker that ends, and says whose lease is left', async () => {
    const { pool, exits } = poolOf(
      `
      if (message.type === 'start') { ${ready} if (starts === 1) setTimeout(() => process.exit(3), 50); } ${stops}`,
      { count: 1 },
    );
    await pool.start();
    await expect.poll(() => exits).toEqual([[1, 'g1']]);
    await expect.poll(() => [pool.running, pool.replacements]).toEqual([1, 1]);
    await pool.stop('SIGTERM', 10_000);
  });

  it('gives up when no worker runs and none can be started', async () => {
    const { pool, starts } = poolOf(
      `
      if (message.type !== 'start') return;
      if (starts === 1) { ${ready} setTimeout(() => process.exit(3), 50); }
      else process.send({ type: 'failed', reason: 'the disk is gone' }, () => process.exit(1));`,
      { count: 1 },
    );
    await pool.start();
    expect(await pool.failed).toBe('the disk is gone');
    expect(starts()).toBe(6);
    await pool.stop('no worker', 10_000);
  });

  it('kills a worker that does not react, and one that does not stop', async () => {
    const { pool, starts } = poolOf(
      `
      if (message.type === 'start') { ${ready} }
      if (message.type === 'state' && starts > 1) process.send({ type: 'alive' });`,
      { count: 1, patienceMs: 2000 },
    );
    await pool.start();
    for (let n = 0; n < 3; n++) pool.sendState({ type: 'state', state: { running: 1 } });
    await expect.poll(starts).toBe(2);
    await expect.poll(() => pool.running).toBe(1);
    const { errors } = await pool.stop('SIGTERM', 100);
    expect(errors).toEqual(['worker 1: its process has ended (SIGKILL)']);
  });
});
