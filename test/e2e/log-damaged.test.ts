import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { streamName } from '../../src/events/event.ts';
import { filesOf, thing } from '../events/log-files.ts';
import type { Answered } from '../support/answered.ts';
import { chancery } from '../support/command-line.ts';
import { someOf } from '../support/seed.ts';
import { ask, killAll, serve, startProcess, stopGateway, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

function flipBit(file: string): void {
  const bytes = readFileSync(file);
  const at = bytes.length >> 1;
  bytes[at] = (bytes[at] ?? 0) ^ 4;
  writeFileSync(file, bytes);
}

const forms = [
  { form: 'compressed', seal: true, ending: '.zst' },
  { form: 'not compressed', seal: false, ending: '.seg' },
];

it.each(someOf(forms))(
  'a full segment ($form) with a flipped bit: named by readiness, refused without views.db, accepted by the smallest loss',
  async ({ seal, ending }) => {
    const cwd = join(folder.path, ending);
    const dataDir = join(cwd, 'data');
    const dir = join(dataDir, 'log');
    const log = await EmbeddedLog.open(dir, { segmentBytes: 5_000, seal });
    const ids = Array.from({ length: 200 }, (_, n) => `resp_${n.toString(16).padStart(32, '0')}`);
    for (const [n, id] of ids.entries()) {
      await log.append([{ stream: streamName('response', id), events: [thing(n)], expectedRevision: 'any' }]);
    }
    await log.settled();
    await log.close();
    const env = { LOG_URL: `file:${dir}` };
    await stopGateway(await serve({ dataDir, env }));
    const damaged = filesOf(dir, ending)[1] ?? '';
    const name = /\d{16}/.exec(damaged)?.[0] ?? '';
    flipBit(damaged);

    const gateway = await serve({ dataDir, env });
    const readiness = async (): Promise<Answered> => (await ask(gateway.url, '/health/ready')).json();
    await expect.poll(readiness).toMatchObject({
      status: 'degraded',
      components: { storage: 'degraded' },
      log_damage: [expect.stringContaining(`segment ${name} at byte`)],
    });
    const reads = ids.map(async (id) => {
      const read = await ask(gateway.url, `/v1/responses/${id}`);
      const { error } = (await read.json()) as { error: { code: string | null } };
      return [read.status, error.code] as const;
    });
    const codes = new Map(await Promise.all(reads));
    // the events are no responses: only what is damaged is no 404
    expect([...codes.keys()].toSorted()).toEqual([404, 500]);
    expect(codes.get(500)).toBe('log_damaged');
    await stopGateway(gateway);

    rmSync(join(dataDir, 'views.db'));
    const refused = startProcess({ env: { DATA_DIR: dataDir, ...env } });
    expect((await refused.exited).code).toBe(1);
    expect(refused.stderr).toContain(`segment ${name} at byte`);
    expect(refused.stderr).toContain('chancery log accept-loss --reason TEXT');

    const check = await chancery(cwd, ['log', 'check']);
    expect([check.code, check.stderr]).toEqual([1, expect.stringContaining('log accept-loss --dry-run')]);
    const before = readFileSync(damaged);
    const dry = await chancery(cwd, ['log', 'accept-loss', '--dry-run']);
    const lost = /positions (\d{16}) to (\d{16})/.exec(dry.stdout) ?? [];
    expect([dry.code, dry.stdout]).toEqual([1, expect.stringContaining(`would be lost: `)]);
    expect(dry.stdout).toContain(name);
    expect(readFileSync(damaged)).toEqual(before);

    const accepted = await chancery(cwd, ['log', 'accept-loss', '--reason', 'a bad disk']);
    expect([accepted.code, accepted.stderr]).toEqual([0, '']);
    expect(accepted.stdout).toContain(lost[0]);
    const whole = await chancery(cwd, ['log', 'check']);
    expect(whole).toMatchObject({ code: 0, stdout: expect.stringContaining('is whole') });
    expect(await chancery(cwd, ['log', 'accept-loss', '--dry-run'])).toMatchObject({ code: 0 });
    const positions = Number(lost[2]) - Number(lost[1]) + 1;
    // a frame has one of these events, and a compressed segment of this size one block
    expect(seal ? positions < 40 : positions === 1).toBe(true);
    const cat = await chancery(cwd, ['log', 'cat', 'log-embedded', '--json']);
    expect(cat.stdout).toContain('log.loss_accepted');
    await stopGateway(await serve({ dataDir, env }));
  },
  120_000,
);

it('a full segment that disappears while the log is open is damage in its status as soon as a read needs it', async () => {
  const dataDir = join(folder.path, 'disappears', 'data');
  const dir = join(dataDir, 'log');
  const log = await EmbeddedLog.open(dir, { segmentBytes: 5_000 });
  const ids = Array.from({ length: 200 }, (_, n) => `resp_${n.toString(16).padStart(32, '0')}`);
  for (const [n, id] of ids.entries()) {
    await log.append([{ stream: streamName('response', id), events: [thing(n)], expectedRevision: 'any' }]);
  }
  await log.settled();
  const [, damaged = ''] = filesOf(dir, '.zst');
  rmSync(damaged);
  const reads = ids.map(async (id) => {
    for await (const _event of log.readStream(streamName('response', id)));
  });
  const failed = (await Promise.allSettled(reads)).filter(({ status }) => status === 'rejected');
  expect(failed.length).toBeGreaterThan(0);
  const { damage = [], degraded = '' } = log.status();
  const name = /\d{16}/.exec(damaged)?.[0] ?? '';
  expect(new Set(damage)).toEqual(new Set([expect.stringContaining(`segment ${name} at byte`)]));
  expect(degraded).toContain(name);
  await log.close();
});
