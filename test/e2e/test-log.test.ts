/** The log of the gateways that tests start: in files, or on the engine that `TEST_LOG_ENGINE` names. */
import { rmSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { startTestGateway } from '../support/gateway.ts';
import { killAll, serve, temporaryFolder } from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';

const onEngine = (process.env['TEST_LOG_ENGINE'] ?? '') !== '';
const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

const isReplica = async (dataDir: string) =>
  (await readdir(join(dataDir, 'log'))).some((name) => name.startsWith('replica'));

describe('the log of a gateway in tests', () => {
  it('is where TEST_LOG_ENGINE says, for a gateway in the process of the test', async () => {
    const gateway = await startTestGateway();
    try {
      expect(await isReplica(gateway.dataDir)).toBe(onEngine);
    } finally {
      await gateway.close();
    }
  });

  it('is the same after a restart, also without the files of the log when it is on an engine', async () => {
    const dataDir = join(folder.path, 'restarted');
    for (const start of [1, 2]) {
      const gateway = await serve({ dataDir });
      gateway.process.kill('SIGTERM');
      await gateway.process.exited;
      expect(await isReplica(dataDir)).toBe(onEngine);
      const starts = (await eventsIn(dataDir)).filter(({ type }) => type === 'gateway.started');
      expect(starts).toHaveLength(start);
      if (onEngine) rmSync(join(dataDir, 'log'), { recursive: true });
    }
  });

  it('is another one for each data folder', async () => {
    const dataDir = join(folder.path, 'other');
    const gateway = await serve({ dataDir });
    gateway.process.kill('SIGTERM');
    await gateway.process.exited;
    expect((await eventsIn(dataDir)).filter(({ type }) => type === 'gateway.started')).toHaveLength(1);
  });
});
