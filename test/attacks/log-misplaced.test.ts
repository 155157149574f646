/**
 * Segment files under names of other segments: copied, swapped, renamed, at random. The log is refused with the names, and
 * `log accept-loss` renames them and loses no position. `CHANCERY_TEST_SEED` repeats the choice.
 */
import { copyFileSync, cpSync, existsSync, readdirSync, renameSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { checkLog } from '../../src/events/embedded/check-log.ts';
import { nodeDisk } from '../../src/events/embedded/disk.ts';
import { EmbeddedLog, type EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { streamName } from '../../src/events/event.ts';
import { createChance, type Random } from '../crash/random.ts';
import { appendThings, openTestLog, readThings, temporaryDirectory, upTo } from '../events/log-files.ts';
import { seed } from '../support/seed.ts';

const count = 60;
const kinds = ['seg', 'zst', 'json'];

function names(dir: string): string[] {
  const files = readdirSync(dir).filter((file) => /^\d{16}\.(seg|json)$/.test(file));
  return files.map((file) => file.slice(0, 16)).toSorted();
}

function each(dir: string, from: string, to: string, change: (from: string, to: string) => void): void {
  for (const kind of kinds) {
    const file = path.join(dir, `${from}.${kind}`);
    if (existsSync(file)) change(file, path.join(dir, `${to}.${kind}`));
  }
}

const copy = (dir: string, from: string, to: string) => each(dir, from, to, copyFileSync);
const rename = (dir: string, from: string, to: string) => each(dir, from, to, renameSync);

/** Two different closed segments. */
function twoOf(dir: string, chance: Random): [string, string] {
  const closed = names(dir).slice(0, -1);
  const one = chance.between(0, closed.length - 1);
  const other = (one + chance.between(1, closed.length - 1)) % closed.length;
  return [closed[one] ?? '', closed[other] ?? ''];
}

const between = (name: string) => String(Number(name) + 2).padStart(16, '0');

const changes: [string, (dir: string, chance: Random) => void][] = [
  ['a copy behind the end', (dir, chance) => copy(dir, twoOf(dir, chance)[0], '0000000000009000')],
  ['a copy inside another segment', (dir, chance) => copy(dir, twoOf(dir, chance)[0], between(twoOf(dir, chance)[1]))],
  [
    'a copy inside the segment that was copied',
    (dir, chance) => {
      const [one] = twoOf(dir, chance);
      copy(dir, one, between(one));
    },
  ],
  [
    'two segments swapped',
    (dir, chance) => {
      const [one, other] = twoOf(dir, chance);
      rename(dir, one, 'away');
      rename(dir, other, one);
      for (const kind of kinds) {
        const away = path.join(dir, `away.${kind}`);
        if (existsSync(away)) renameSync(away, path.join(dir, `${other}.${kind}`));
      }
    },
  ],
  ['a segment renamed', (dir, chance) => rename(dir, twoOf(dir, chance)[0], '0000000000009000')],
  [
    'a segment in the place of another, which is behind the end',
    (dir, chance) => {
      const [one, other] = twoOf(dir, chance);
      rename(dir, other, '0000000000009000');
      rename(dir, one, other);
    },
  ],
];

const forms: [string, EmbeddedLogOptions][] = [
  ['compressed', { segmentBytes: 1_200, disk: nodeDisk }],
  ['uncompressed', { segmentBytes: 1_200, seal: false, disk: nodeDisk }],
];

it.each(forms.flatMap(([form, options]) => changes.map(([what, change]) => ({ form, options, what, change }))))(
  `$what ($form, seed ${seed}): refused with the names; accept-loss renames the files and loses nothing`,
  async ({ options, change }) => {
    const dir = temporaryDirectory('memory');
    const log = await EmbeddedLog.open(dir, options);
    await appendThings(log, 0, count);
    await log.settled();
    await log.close();
    expect(names(dir).length).toBeGreaterThan(6);
    change(dir, createChance(seed));

    const refusal = await EmbeddedLog.open(dir, options).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: 'log_incomplete' });
    const message = refusal instanceof Error ? refusal.message : '';
    expect(message).toMatch(/files named as segment \d{16} begin with position \d+: they are (segment \d{16}|foreign)/);
    expect(message).toContain('"chancery log accept-loss --reason TEXT" does it and loses no position');
    expect(message).not.toContain('missing');
    expect((await checkLog(dir)).problem?.reason).toMatch(/files named as segment/);

    const files = readdirSync(dir);
    const listed = await EmbeddedLog.findLoss(dir);
    expect(listed.flatMap(({ positions }) => positions ?? [])).toEqual([]);
    expect(listed.flatMap(({ renames }) => renames ?? []).length).toBeGreaterThan(0);
    expect(readdirSync(dir)).toEqual(files);

    // interrupted at each renaming, then once more
    for (let most = 0; most < 3; most++) {
      const interrupted = temporaryDirectory('memory');
      cpSync(dir, interrupted, { recursive: true });
      let left = most;
      const disk: typeof nodeDisk = {
        ...nodeDisk,
        rename: (from, to) => {
          if (left-- <= 0) throw new Error('the process ended here');
          nodeDisk.rename(from, to);
        },
      };
      const acceptLoss = { by: 'olga', reason: 'renamed', at: new Date(0) };
      await EmbeddedLog.open(interrupted, { ...options, disk, acceptLoss }).catch(() => {});
      await accepted(interrupted, options);
    }
    await accepted(dir, options);
    const again = await openTestLog(dir, options);
    expect(again.acceptedLoss).toBeUndefined();
    expect(await readThings(again)).toEqual(upTo(count));
    expect(await collectRevisions(again)).toEqual(upTo(count / 3));
  },
);

async function accepted(dir: string, options: EmbeddedLogOptions): Promise<void> {
  const acceptLoss = { by: 'olga', reason: 'renamed', at: new Date(0) };
  const log = await EmbeddedLog.open(dir, { ...options, acceptLoss });
  try {
    expect(log.acceptedLoss?.positions ?? []).toEqual([]);
    expect(await readThings(log)).toEqual(upTo(count));
    await log.settled();
  } finally {
    await log.close();
  }
  expect((await checkLog(dir)).problem).toBeUndefined();
}

async function collectRevisions(log: EmbeddedLog): Promise<number[]> {
  const revisions: number[] = [];
  for await (const { revision } of log.readStream(streamName('thing', '0'))) revisions.push(Number(revision));
  return revisions;
}
