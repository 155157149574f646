import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { checksumOfEvent, openViewStore } from '../../src/projections/view-store.ts';
import { appendThings, readAll } from '../events/log-files.ts';
import { chancery } from '../support/command-line.ts';

test('a log without its newest segment is refused by name, and continues once the loss was accepted', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'chancery-log-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const dir = join(folder, 'data', 'log');
  const log = await EmbeddedLog.open(dir, { segmentBytes: 1_000, seal: false });
  await appendThings(log, 0, 17);
  await log.close();
  const newest = readdirSync(dir).findLast((file) => file.endsWith('.seg')) ?? '';
  rmSync(join(dir, newest));
  const lost = [`positions ${Number.parseInt(newest, 10)} to 17`, newest] as const;

  const check = await chancery(folder, ['log', 'check']);
  expect(check.code).toBe(1);
  for (const text of lost) expect(check.stderr).toContain(text);
  const served = await chancery(folder, ['serve', '--port', '0']);
  expect(served.code).toBe(1);
  for (const text of [...lost, 'chancery log accept-loss']) expect(served.stderr).toContain(text);

  expect((await chancery(folder, ['log', 'accept-loss'])).code).toBe(2);
  const accepted = await chancery(folder, ['log', 'accept-loss', '--reason', 'the disk is gone']);
  expect([accepted.code, accepted.stderr]).toEqual([0, '']);
  expect(accepted.stdout).toContain(`to 0000000000000017`);
  expect(accepted.stdout).toContain(`missing: ${newest}`);
  expect((await chancery(folder, ['log', 'check'])).code).toBe(0);
  const reported = await chancery(folder, ['log', 'cat', 'log-embedded', '--json']);
  expect(JSON.parse(reported.stdout)).toMatchObject({
    type: 'log.loss_accepted',
    position: '0000000000000018',
    data: { reason: 'the disk is gone', by: expect.stringMatching(/./) },
  });
  const again = await chancery(folder, ['log', 'accept-loss', '--reason', 'once more']);
  expect([again.code, again.stdout]).toEqual([0, expect.stringContaining('nothing is missing')]);
}, 60_000);

test.each([
  { what: 'the note and the first segment', damage: (names: string[]) => [...names.slice(0, 1), ...names.slice(-1)] },
  { what: 'the note and every segment', damage: (names: string[]) => names },
])(
  'a log without its newest segment, $what is refused with the positions that views.db has, which are not used again',
  async ({ damage }) => {
    const folder = mkdtempSync(join(tmpdir(), 'chancery-log-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const dir = join(folder, 'data', 'log');
    const log = await EmbeddedLog.open(dir, { segmentBytes: 1_000, seal: false });
    await appendThings(log, 0, 17);
    const events = await readAll(log);
    const [first, newest] = [events.at(0), events.at(-1)];
    if (first === undefined || newest === undefined) throw new Error('the log is empty');
    const views = openViewStore(join(folder, 'data', 'views.db'));
    views.save([], { logId: first.id, position: newest.position, id: newest.id, crc32: checksumOfEvent(newest) });
    views.close();
    await log.close();
    const segments = readdirSync(dir).filter((file) => file.endsWith('.seg'));
    for (const file of [...damage(segments), 'durable']) rmSync(join(dir, file));
    const before = readdirSync(dir);

    const served = await chancery(folder, ['serve', '--port', '0']);
    expect(served.code).toBe(1);
    expect(served.stderr).toMatch(/positions \d+ to 17 are missing \(.*views\.db was built from them/);
    expect(readdirSync(dir)).toEqual(before);
    const dry = await chancery(folder, ['log', 'accept-loss', '--dry-run']);
    expect([dry.code, dry.stdout]).toEqual([1, expect.stringContaining('to 0000000000000017 (')]);
    const accepted = await chancery(folder, ['log', 'accept-loss', '--reason', 'the disk is gone']);
    expect([accepted.code, accepted.stderr]).toEqual([0, '']);
    expect(accepted.stdout).toContain('to 0000000000000017');
    const reported = await chancery(folder, ['log', 'cat', 'log-embedded', '--json']);
    expect(JSON.parse(reported.stdout)).toMatchObject({ type: 'log.loss_accepted', position: '0000000000000018' });
  },
  60_000,
);
