/** `chancery log backup` and `chancery log restore` on the command line. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { inheritedVariables } from '../e2e/gateway-process.ts';
import { appendThings, until } from '../events/log-files.ts';
import { chancery } from '../support/command-line.ts';
import { main } from '../support/main-program.ts';

async function folderWithLog(events: number, bodyBytes?: number): Promise<{ folder: string; log: EmbeddedLog }> {
  const folder = mkdtempSync(join(tmpdir(), 'chancery-backup-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const log = await EmbeddedLog.open(join(folder, 'data', 'log'), { segmentBytes: 4_000 });
  onTestFinished(() => log.close().catch(() => {}));
  await appendThings(log, 0, events, bodyBytes);
  await log.settled();
  return { folder, log };
}

const options = (cwd: string) => ({ cwd, env: inheritedVariables() });

describe('chancery log backup and restore', () => {
  test('copy the configured log beside its writer, and put it back', async () => {
    const { folder, log } = await folderWithLog(65);
    const made = await chancery(folder, ['log', 'backup', '--to', 'copy']);
    expect([made.code, made.stderr]).toEqual([0, '']);
    expect(made.stdout).toMatch(/^backed up \S+data\/log to \S+copy: up to position 0000000000000065\n/);
    expect(made.stdout).toMatch(/^copied \d+ segments of \d+, .* in \d+\.\d s$/m);
    await appendThings(log, 65, 5);
    const again = await chancery(folder, ['log', 'backup', '--to', 'copy', '--from', join('data', 'log'), '--json']);
    expect(JSON.parse(again.stdout)).toMatchObject({
      to: join(folder, 'copy'),
      position: '0000000000000070',
      before: '0000000000000065',
      copiedSegments: 1,
      seconds: expect.any(Number),
    });
    expect((await chancery(folder, ['log', 'check', '--log-url', 'file:copy'])).code).toBe(0);

    const refused = await chancery(folder, ['log', 'restore', '--from', 'copy']);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(/nothing was restored: \S+data\/log has a log; move it away/);
    await log.close();
    rmSync(join(folder, 'data', 'log'), { recursive: true });
    writeFileSync(join(folder, 'data', 'views.db'), 'of the log that was here');
    const restored = await chancery(folder, ['log', 'restore', '--from', 'copy']);
    expect([restored.code, restored.stderr]).toEqual([0, '']);
    expect(restored.stdout).toMatch(/: 70 events in 3 streams, up to position 0000000000000070; /);
    expect(readdirSync(join(folder, 'data'))).toEqual(['log']);
    expect((await chancery(folder, ['log', 'check'])).code).toBe(0);
  }, 60_000);

  test('refuse a damaged backup with the first bad place', async () => {
    const { folder } = await folderWithLog(40);
    await chancery(folder, ['log', 'backup', '--to', 'copy']);
    const [segment = ''] = readdirSync(join(folder, 'copy')).filter((file) => file.endsWith('.zst'));
    const bytes = readFileSync(join(folder, 'copy', segment));
    bytes[90] = (bytes[90] ?? 0) ^ 1;
    writeFileSync(join(folder, 'copy', segment), bytes);
    const { code, stderr } = await chancery(folder, ['log', 'restore', '--from', 'copy', '--to', 'place']);
    expect(code).toBe(1);
    expect(stderr).toContain(`is damaged: ${segment.replace('.zst', '')} at byte `);
    expect(existsSync(join(folder, 'place'))).toBe(false);
  });

  test.each([
    ['backup', '--to FOLDER is required'],
    ['restore', '--from FOLDER is required'],
  ])('%s without its folder is a wrong command line', async (command, message) => {
    const { code, stderr } = await chancery(tmpdir(), ['log', command]);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  test.each([
    ['backup', ['--to', ''], 2, 'expected a folder, got an empty text'],
    ['backup', ['--to', 'copy', '--from', ''], 2, 'expected a folder, got an empty text'],
    ['restore', ['--from', ''], 2, 'expected a folder, got an empty text'],
    ['restore', ['--from', 'copy', '--to', ''], 2, 'expected a folder, got an empty text'],
    ['backup', ['--to', join('data', 'backup')], 1, 'is in the data folder'],
  ])('%s %j is refused', async (command, flags, code, message) => {
    const { folder } = await folderWithLog(3);
    const found = await chancery(folder, ['log', command, ...flags]);
    expect([found.code, found.stderr]).toEqual([code, expect.stringContaining(message)]);
    expect(readdirSync(folder)).toEqual(['data']);
  });

  test('a backup that is killed is not complete, and the next one continues it', async () => {
    const { folder } = await folderWithLog(1_200, 600);
    const copy = join(folder, 'copy');
    const child = spawn(process.execPath, [main, 'log', 'backup', '--to', 'copy'], options(folder));
    const exit = once(child, 'exit');
    const copied = () => (existsSync(copy) ? readdirSync(copy).filter((file) => file.endsWith('.zst')).length : 0);
    await until(() => copied() >= 5);
    child.kill('SIGKILL');
    expect(await exit).toEqual([null, 'SIGKILL']);
    expect(await chancery(folder, ['log', 'restore', '--from', 'copy', '--to', 'place'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('was never completed'),
    });
    const { stdout } = await chancery(folder, ['log', 'backup', '--to', 'copy', '--json']);
    const { segments, copiedSegments } = JSON.parse(stdout);
    expect(segments - copiedSegments).toBeGreaterThanOrEqual(4);
    expect((await chancery(folder, ['log', 'restore', '--from', 'copy', '--to', 'place'])).code).toBe(0);
  }, 60_000);
});
