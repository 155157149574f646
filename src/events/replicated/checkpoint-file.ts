/**
 * A replica's note of how far it has read its engine. Reading goes on there after a restart. The note may be behind the
 * replica's events, never ahead of them; without it reading begins at the engine's beginning, with the same result. Its
 * checksum finds a note that was changed; it is then ignored.
 */
import { createHash } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import { type Disk, isMissing, replaceFile } from '../embedded/disk.ts';
import { replicaFile } from '../embedded/writer-lock.ts';
import type { EnginePlace } from './engine.ts';
import type { SavedNumbers } from './writer-numbers.ts';

export interface Checkpoint {
  /** The name of the engine. */
  readonly engine: string;
  /** Which log it is; undefined before its first append was read. */
  readonly log: string | undefined;
  /** Undefined at the engine's beginning. */
  readonly place: EnginePlace | undefined;
  /** Position of the last event before that place. */
  readonly position: number;
  readonly numbers: SavedNumbers;
  /** The replica stopped because it may not have what is on the engine; see `HistoryDoubt`. */
  readonly inDoubt?: boolean;
}

const fileSchema = z.object({
  format: z.literal('chancery-replica'),
  /** From 2 on with a checksum. */
  version: z.union([z.literal(1), z.literal(2)]),
  engine: z.string(),
  log: z.string().optional(),
  place: z.string().optional(),
  position: z.number().int().min(0),
  numbers: z.object({
    counted: z.number().int().min(0),
    writers: z.array(z.tuple([z.string(), z.number(), z.number()])),
  }),
  inDoubt: z.boolean().optional(),
  /** Of everything before it; missing in notes of earlier versions. */
  sha256: z.string().optional(),
});

/** @returns undefined when there is none, or none that can be relied on: a power cut may have left it empty */
export function readCheckpoint(disk: Disk, dir: string): Checkpoint | undefined {
  let text: string;
  try {
    text = disk.readFile(path.join(dir, replicaFile)).toString();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  try {
    const { version, sha256, inDoubt, ...rest } = fileSchema.parse(JSON.parse(text));
    const { engine, log, place, position, numbers } = rest;
    const checkpoint = { engine, log, place, position, numbers, ...(inDoubt && { inDoubt }) };
    return sha256 === (version === 1 ? undefined : checksumOf(checkpoint)) ? checkpoint : undefined;
  } catch {
    return undefined;
  }
}

function checksumOf({ engine, log, place, position, numbers, inDoubt }: Checkpoint): string {
  const content = JSON.stringify({ engine, log, place, position, numbers, inDoubt });
  return createHash('sha256').update(content).digest('hex');
}

export async function writeCheckpoint(disk: Disk, dir: string, checkpoint: Checkpoint): Promise<void> {
  const content = { format: 'chancery-replica', version: 2, ...checkpoint, sha256: checksumOf(checkpoint) };
  await replaceFile(disk, path.join(dir, replicaFile), Buffer.from(`${JSON.stringify(content)}\n`));
}
