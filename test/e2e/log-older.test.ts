import { cpSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { chancery } from '../support/command-line.ts';
import {
  ask,
  killAll,
  type ServedGateway,
  serve,
  startProcess,
  stopGateway,
  temporaryFolder,
} from './gateway-process.ts';

const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

async function withGateway(dataDir: string, use: (gateway: ServedGateway) => Promise<unknown>): Promise<void> {
  const gateway = await serve({ dataDir, env: { LOG_URL: `file:${join(dataDir, 'log')}` } });
  await use(gateway);
  await stopGateway(gateway);
}

const makeKeys = (count: number) => async (gateway: ServedGateway) => {
  for (let n = 0; n < count; n++) await ask(gateway.url, '/admin/auth-keys', { json: { name: `k${n}` } });
};

it.each([
  { what: 'ends before them', laterKeys: undefined, words: /positions? \d+.* missing .*views\.db was built from them/ },
  {
    what: 'continued by itself',
    laterKeys: 12,
    words: /positions \d+ to \d+ are missing: the log has other events there/,
  },
])(
  'a log that $what is refused, with the missing positions and both ways out, and starts once the loss is accepted',
  async ({ laterKeys, words }) => {
    const cwd = join(folder.path, String(laterKeys));
    const dataDir = join(cwd, 'data');
    const [log, older] = [join(dataDir, 'log'), join(cwd, 'older', 'log')];
    await withGateway(dataDir, makeKeys(1));
    cpSync(log, older, { recursive: true });
    await withGateway(dataDir, makeKeys(3));
    if (laterKeys !== undefined) await withGateway(join(cwd, 'older'), makeKeys(laterKeys));
    const newer = join(cwd, 'newer');
    renameSync(log, newer);
    renameSync(older, log);

    const refusal = async () => {
      const process = startProcess({ env: { DATA_DIR: dataDir, LOG_URL: `file:${log}` } });
      expect((await process.exited).code).toBe(1);
      return process.stderr;
    };
    const refused = await refusal();
    expect(refused).toMatch(words);
    expect(refused).toContain('Put the files back from a backup, or record the loss with "chancery log accept-loss');
    // the refused start has changed nothing
    expect(await refusal()).toBe(refused);

    cpSync(log, join(cwd, 'kept'), { recursive: true });
    rmSync(log, { recursive: true });
    cpSync(newer, log, { recursive: true });
    await withGateway(dataDir, async () => {});
    rmSync(log, { recursive: true });
    cpSync(join(cwd, 'kept'), log, { recursive: true });

    const dry = await chancery(cwd, ['log', 'accept-loss', '--dry-run']);
    expect([dry.code, dry.stdout]).toEqual([1, expect.stringMatching(/would be (lost|made again): .*views\.db/)]);
    const accepted = await chancery(cwd, ['log', 'accept-loss', '--reason', 'restored from last night']);
    expect([accepted.code, accepted.stderr]).toEqual([0, '']);
    await withGateway(dataDir, makeKeys(1));
    await withGateway(dataDir, async () => {});
    expect(await chancery(cwd, ['log', 'check'])).toMatchObject({ code: 0 });
  },
  120_000,
);
