/** `chancery log accept-loss` on the command line, for a log in files whose newest segment was deleted. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { appendThings } from '../events/log-files.ts';

const main = join(import.meta.dirname, '..', '..', 'src', 'main.ts');

function chancery(cwd: string, ...args: string[]) {
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    execFile(
      process.execPath,
      [main, ...args],
      { cwd, env: { PATH: process.env['PATH'] } },
      (error, stdout, stderr) => {
        resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr });
      },
    );
  });
}

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

  const check = await chancery(folder, 'log', 'check');
  expect(check.code).toBe(1);
  for (const text of lost) expect(check.stderr).toContain(text);
  const served = await chancery(folder, 'serve', '--port', '0');
  expect(served.code).toBe(1);
  for (const text of [...lost, 'chancery log accept-loss']) expect(served.stderr).toContain(text);

  expect((await chancery(folder, 'log', 'accept-loss')).code).toBe(2);
  const accepted = await chancery(folder, 'log', 'accept-loss', '--reason', 'the disk is gone');
  expect([accepted.code, accepted.stderr]).toEqual([0, '']);
  expect(accepted.stdout).toContain(`to 0000000000000017`);
  expect(accepted.stdout).toContain(`missing: ${newest}`);
  expect((await chancery(folder, 'log', 'check')).code).toBe(0);
  const reported = await chancery(folder, 'log', 'cat', 'log-embedded', '--json');
  expect(JSON.parse(reported.stdout)).toMatchObject({
    type: 'log.loss_accepted',
    position: '0000000000000018',
    data: { reason: 'the disk is gone', by: expect.stringMatching(/./) },
  });
  const again = await chancery(folder, 'log', 'accept-loss', '--reason', 'once more');
  expect([again.code, again.stdout]).toEqual([0, expect.stringContaining('nothing is missing')]);
}, 60_000);
