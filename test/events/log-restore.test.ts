import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { backupLog } from '../../src/events/embedded/backup/backup-log.ts';
import { BackupDamaged, restoreLog } from '../../src/events/embedded/backup/restore-log.ts';
import { changeFact, eventsIn, flip, logOf, manifestsOf } from './backups.ts';
import { faultyDisk } from './faulty-disk.ts';
import { appendThings, fileOf, filesOf, openTestLog, temporaryDirectory } from './log-files.ts';

describe('restoring a backup', () => {
  async function backup() {
    const { dir, log, to } = await logOf(65);
    await log.close();
    await backupLog(dir, to);
    return { to, place: path.join(temporaryDirectory(), 'data', 'log') };
  }

  it('refuses a mount point before it copies anything, and restores into a folder in it', async ({ skip }) => {
    const { to, place } = await backup();
    mkdirSync(place, { recursive: true });
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=8m,mode=0700', 'none', place], { encoding: 'utf8' });
    if (mounted.status !== 0) skip(`nothing can be mounted here: ${mounted.stderr ?? mounted.error}`);
    onTestFinished(() => void execFileSync('umount', ['--lazy', place]));
    await expect(restoreLog(to, place)).rejects.toThrow(/is a mount point, which a restored log cannot replace/);
    expect(readdirSync(path.dirname(place))).toEqual(['log']);
    await restoreLog(to, path.join(place, 'log'));
    expect(await eventsIn(path.join(place, 'log'))).toHaveLength(65);
  });

  it('refuses a place with a log, also a damaged one, and any other folder that is not empty', async () => {
    const { to, place } = await backup();
    await restoreLog(to, place);
    await expect(restoreLog(to, place)).rejects.toThrow(/has a log; move it away/);
    rmSync(path.join(place, 'log.json'));
    await expect(restoreLog(to, place)).rejects.toThrow(/has a log; move it away/);
    const other = temporaryDirectory();
    writeFileSync(path.join(other, 'notes.txt'), '');
    await expect(restoreLog(to, other)).rejects.toThrow(/is not empty/);
    expect(readdirSync(other)).toEqual(['notes.txt']);
  });

  it('replaces an empty folder and a log without events that is not open', async () => {
    const { to, place } = await backup();
    mkdirSync(place, { recursive: true });
    await restoreLog(to, place);
    const empty = temporaryDirectory();
    const log = await openTestLog(empty);
    await expect(restoreLog(to, empty)).rejects.toMatchObject({ code: 'log_locked' });
    await log.close();
    await restoreLog(to, empty);
    expect(await eventsIn(empty)).toEqual(await eventsIn(to));
  });

  it.each([
    ['a changed byte in a compressed segment', (to: string) => flip(filesOf(to, '.zst')[1] ?? '', 70)],
    ['a changed byte in the last segment', (to: string) => flip(fileOf(to, '.seg'), 70)],
    [
      'another hash in a manifest',
      (to: string) => {
        const [file = ''] = manifestsOf(to);
        const text = readFileSync(file, 'utf8');
        writeFileSync(
          file,
          text.replace(/(?<="sha256":")./, (digit) => (digit === '0' ? '1' : '0')),
        );
      },
    ],
    [
      'a missing segment',
      (to: string) => {
        for (const ending of ['.zst', '.json']) rmSync(filesOf(to, ending)[1] ?? '');
      },
    ],
    ['a last segment that is missing', (to: string) => rmSync(fileOf(to, '.seg'))],
    ['a torn end', (to: string) => truncateSync(fileOf(to, '.seg'), statSync(fileOf(to, '.seg')).size - 1)],
    ['bytes behind the end', (to: string) => writeFileSync(fileOf(to, '.seg'), 'more', { flag: 'a' })],
    ['a lost identity', (to: string) => rmSync(path.join(to, 'log.json'))],
    ['a changed byte in a manifest', (to: string) => changeFact(manifestsOf(to)[1] ?? '')],
    ['a changed byte in the note of the end', (to: string) => flip(path.join(to, 'durable'), 300)],
    ["a replica's note that was added", (to: string) => writeFileSync(path.join(to, 'replica.json'), '{"position":1}')],
    ['a segment that was added', (to: string) => writeFileSync(path.join(to, '0000000000000066.seg'), '')],
  ])('refuses %s, with the place, and leaves nothing', async (_, damage) => {
    const { to, place } = await backup();
    damage(to);
    await expect(restoreLog(to, place)).rejects.toBeInstanceOf(BackupDamaged);
    expect(() => readdirSync(path.dirname(place))).toThrow('ENOENT');
  });

  it("names the changed file of a replica's backup, also after a later backup was interrupted", async () => {
    const { dir, log, to } = await logOf(30);
    const note = (position: number) => JSON.stringify({ format: 'chancery-replica', place: 'offset 7', position });
    writeFileSync(path.join(dir, 'replica.json'), note(30));
    await backupLog(dir, to);
    await appendThings(log, 30, 30);
    writeFileSync(path.join(dir, 'replica.json'), note(31));
    const disk = faultyDisk();
    disk.beforeChange = (operation) => {
      if (operation === 'rename' && existsSync(path.join(to, 'replica.json.tmp'))) throw new Error('killed');
    };
    await expect(backupLog(dir, to, { disk })).rejects.toThrow('killed');
    const place = path.join(temporaryDirectory(), 'log');
    for (const content of [note(31), note(30)]) {
      writeFileSync(path.join(to, 'replica.json'), content.replace('offset 7', 'offset 8'));
      await expect(restoreLog(to, place)).rejects.toThrow(/is damaged: replica\.json: it has \d+ bytes with SHA-256/);
      writeFileSync(path.join(to, 'replica.json'), content);
      await restoreLog(to, place);
      rmSync(place, { recursive: true });
    }
    rmSync(path.join(to, 'replica.json'));
    await expect(restoreLog(to, place)).rejects.toThrow(/is damaged: replica\.json: it is missing/);
  });

  it('refuses a backup without its note, with a changed one, and of the earlier version', async () => {
    const { to, place } = await backup();
    const file = path.join(to, 'backup.json');
    const text = readFileSync(file, 'utf8');
    for (let at = 0; at < text.length; at += 13) {
      flip(file, at);
      await expect(restoreLog(to, place)).rejects.toThrow(/backup\.json/);
      writeFileSync(file, text);
    }
    writeFileSync(file, '{"format":"chancery-backup","version":1,"log":"x","position":65}');
    await expect(restoreLog(to, place)).rejects.toThrow(/is of an earlier version: back up into an empty folder/);
    rmSync(file);
    await expect(restoreLog(to, place)).rejects.toThrow(/backup\.json is missing/);
    expect(existsSync(path.dirname(place))).toBe(false);
  });

  it('refuses a place in the backup', async () => {
    const { to } = await backup();
    const before = readdirSync(to);
    await expect(restoreLog(to, path.join(to, 'a', 'log'))).rejects.toThrow(/is in the backup/);
    expect(readdirSync(to)).toEqual(before);
  });

  it('leaves nothing at the place of the log when it is interrupted, and begins again', async () => {
    const { to, place } = await backup();
    for (let change = 1; change < 60; change += 7) {
      const disk = faultyDisk();
      let changes = 0;
      disk.beforeChange = () => {
        if (++changes >= change) throw new Error('killed');
      };
      await expect(restoreLog(to, place, { disk })).rejects.toThrow('killed');
      expect(readdirSync(path.dirname(place))).toEqual([]);
    }
    mkdirSync(`${place}.restoring`);
    writeFileSync(path.join(`${place}.restoring`, 'log.json'), 'half');
    await restoreLog(to, place);
    expect(readdirSync(path.dirname(place))).toEqual(['log']);
    expect(await eventsIn(place)).toHaveLength(65);
  });
});
