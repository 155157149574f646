/** The facts about a sealed segment, stored beside it as JSON. */

import { crc32 } from 'node:zlib';
import { z } from 'zod';
import type { Disk } from './disk.ts';
import { LogCorrupted } from './log-errors.ts';
import { segmentFile } from './segment.ts';

// The file of a manifest: JSON whose last member is the CRC-32 of the text without that member. Loads no zod.

/** An earlier version wrote none. */
const checksum = /,"crc32":(\d+)\}\s*$/;

export function manifestText(manifest: object): string {
  const text = JSON.stringify(manifest);
  return `${text.slice(0, -1)},"crc32":${crc32(text)}}\n`;
}

/** @throws LogCorrupted */
export function parseManifestText(text: string, name: string): unknown {
  const said = checksum.exec(text);
  if (said !== null && crc32(`${text.slice(0, said.index)}}`) !== Number(said[1])) {
    throw new LogCorrupted(name, 0, 'its manifest does not have the hash that it says');
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new LogCorrupted(name, 0, 'its manifest cannot be read', error);
  }
}

const count = z.number().int().nonnegative();

const manifestSchema = z.object({
  format: z.literal('chancery-segment'),
  version: z.literal(1),
  /** Positions of the first and last event. */
  first: count,
  last: count,
  /** When its first and last batch were closed, milliseconds since the epoch. */
  firstAt: z.number(),
  lastAt: z.number(),
  rawBytes: count,
  compressedBytes: count,
  /** Of the uncompressed bytes, in hex. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /**
   * For each category: how many streams have events here, how many of these have their first event here (not in older
   * manifests), and the greatest of their names.
   */
  categories: z.record(z.string(), z.object({ streams: count, begun: count.optional(), greatest: z.string() })),
  /** Independently compressed blocks of whole frames, each ending where the next one begins. */
  blocks: z.array(z.object({ position: count, offset: count, at: count })),
});

/** `offset` is the block's place in the uncompressed segment, `at` its place in the compressed file. */
export type Manifest = z.infer<typeof manifestSchema>;

/** @throws LogCorrupted, also when it is the manifest of another segment; what the file system throws, for example ENOENT */
export function readManifest(disk: Disk, dir: string, name: string): Manifest {
  const manifest = manifestIn(disk, segmentFile(dir, name, 'json'), name);
  if (manifest.first === Number(name)) return manifest;
  throw new LogCorrupted(name, 0, `its manifest is that of the segment that begins with position ${manifest.first}`);
}

/** As `readManifest`, of whichever segment it is. */
export function manifestIn(disk: Disk, file: string, name: string): Manifest {
  const parsed = parseManifestText(disk.readFile(file).toString(), name);
  try {
    return manifestSchema.parse(parsed);
  } catch (error) {
    throw new LogCorrupted(name, 0, 'its manifest cannot be read', error);
  }
}
