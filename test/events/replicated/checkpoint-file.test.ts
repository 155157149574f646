import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { nodeDisk } from '../../../src/events/embedded/disk.ts';
import { type Checkpoint, readCheckpoint, writeCheckpoint } from '../../../src/events/replicated/checkpoint-file.ts';
import { temporaryFolder } from '../../support/replicas.ts';

const checkpoint: Checkpoint = {
  engine: 'kafka',
  log: '0123456789abcdef',
  place: '8:0123abcd',
  position: 7,
  numbers: { counted: 9, writers: [['fedcba9876543210', 4, 8]] },
};

describe('the checkpoint of a replica', () => {
  let dir: string;
  let file: string;
  beforeEach(async () => {
    dir = await temporaryFolder();
    file = path.join(dir, 'replica.json');
    await writeCheckpoint(nodeDisk, dir, checkpoint);
  });
  afterEach(() => rm(dir, { recursive: true }));

  const changed = async (change: (text: string) => string): Promise<Checkpoint | undefined> => {
    await writeFile(file, change((await readFile(file)).toString()));
    return readCheckpoint(nodeDisk, dir);
  };

  it('is read as it was written, also without a log and a place', async () => {
    expect(readCheckpoint(nodeDisk, dir)).toEqual(checkpoint);
    const empty = { ...checkpoint, log: undefined, place: undefined, position: 0 };
    await writeCheckpoint(nodeDisk, dir, empty);
    expect(readCheckpoint(nodeDisk, dir)).toEqual(empty);
  });

  it.each([
    ['another place', '8:0123abcd', '12:0123abcd'],
    ['a place without its check', '8:0123abcd', '8'],
    ['another log', '0123456789abcdef', '0123456789abcdee'],
    ['another position', '"position":7', '"position":6'],
    ['another number of a writer', '"fedcba9876543210",4', '"fedcba9876543210",5'],
    ['another version', '"version":2', '"version":1'],
    ['no checksum', /,"sha256":"\w+"/, ''],
  ])('is ignored with %s', async (_, from, to) => {
    expect(await changed((text) => text.replace(from, to))).toBeUndefined();
  });

  it('is ignored, or says the same, with any bit changed', async () => {
    const whole = await readFile(file);
    for (let at = 0; at < whole.length; at++) {
      const bytes = Buffer.from(whole);
      bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << (at % 8)), at);
      await writeFile(file, bytes);
      expect([undefined, checkpoint]).toContainEqual(readCheckpoint(nodeDisk, dir));
    }
  });

  it('is accepted without a checksum as earlier versions wrote it', async () => {
    const { format, ...earlier } = { format: 'chancery-replica', version: 1, ...checkpoint };
    await writeFile(file, JSON.stringify({ format, ...earlier }));
    expect(readCheckpoint(nodeDisk, dir)).toEqual(checkpoint);
  });
});
