/** A log whose files are removed, moved or replaced while a process writes it. */
import { cpSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { appendThing, appendThings, openTestLog, readThings, temporaryDirectory, upTo } from './log-files.ts';

const ways: readonly [string, (dir: string, moved: string) => void][] = [
  ['moved', (dir, moved) => renameSync(dir, moved)],
  [
    'deleted',
    (dir, moved) => {
      cpSync(dir, moved, { recursive: true });
      rmSync(dir, { recursive: true });
    },
  ],
  [
    'replaced by an empty folder',
    (dir, moved) => {
      renameSync(dir, moved);
      mkdirSync(dir);
    },
  ],
  [
    'replaced by a copy of itself',
    (dir, moved) => {
      renameSync(dir, moved);
      cpSync(moved, dir, { recursive: true });
    },
  ],
];

describe.each(['standard', 'relaxed'] as const)('a log with durability %s whose folder is', (durability) => {
  it.each(ways)('%s: it states so, acknowledges nothing more, and has all that it acknowledged', async (_way, move) => {
    const dir = path.join(temporaryDirectory(), 'log');
    const moved = `${dir}-elsewhere`;
    const log = await openTestLog(dir, { seal: false, durability });
    await appendThings(log, 0, 4);
    expect(log.status()).toMatchObject({ state: 'ok' });
    move(dir, moved);
    await expect(appendThing(log, 98)).rejects.toMatchObject({
      code: 'log_unavailable',
      message: expect.stringContaining(`no longer in ${dir}`),
    });
    await expect(appendThing(log, 99)).rejects.toThrow(/no longer in/);
    expect(log.status()).toMatchObject({ state: 'unavailable', reason: expect.stringContaining('moved or replaced') });
    await log.close().catch(() => {});
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
    renameSync(moved, dir);
    expect((await readThings(await openTestLog(dir))).slice(0, 4)).toEqual(upTo(4));
  });

  it.each(ways)('%s while nothing is appended: it states so, also when it is closed', async (_way, move) => {
    const dir = path.join(temporaryDirectory(), 'log');
    const log = await openTestLog(dir, { seal: false, durability });
    await appendThings(log, 0, 4);
    const states = new Set<string>();
    log.onStatusChange(({ state }) => states.add(state));
    move(dir, `${dir}-elsewhere`);
    await expect.poll(() => log.status().reason, { timeout: 5_000 }).toContain(`no longer in ${dir}`);
    expect([...states]).toEqual(['unavailable']);
    await expect(log.close()).rejects.toThrow(/no longer in/);
  });
});
