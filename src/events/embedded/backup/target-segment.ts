/** What a backup's folder has of a segment already, compared with the log. */
import { createHash } from 'node:crypto';
import path from 'node:path';
import { fileSize } from '../disk.ts';
import { LogCorrupted } from '../log-errors.ts';
import type { LogFiles } from '../log-files.ts';
import { type Manifest, readManifest } from '../manifest.ts';
import { type ScannedSegment, scanSegment } from '../scan-segment.ts';
import { segmentFile } from '../segment.ts';
import { walkBlocks } from '../walk-blocks.ts';
import { BackupRefused } from './backup-refused.ts';
import { openSealedFile, type SourceSegment } from './source-segments.ts';

/** `equal`: nothing to copy. `older`: the beginning of it. `damaged`: files that cannot be read. */
export type TargetState = 'absent' | 'equal' | 'older' | 'damaged';

/**
 * @param quick compares compressed segments by their manifests and sizes, without reading them
 * @throws BackupRefused when the folder has other events, or more of them
 */
export async function compareTarget(target: LogFiles, source: SourceSegment, quick: boolean): Promise<TargetState> {
  const files = target.disk.list(target.dir);
  const has = (kind: 'seg' | 'zst' | 'json') =>
    files.includes(path.basename(segmentFile(target.dir, source.name, kind)));
  if (has('seg')) return compareRaw(target, source);
  if (has('zst') && has('json')) return compareSealed(target, source, quick);
  return has('zst') || has('json') ? 'damaged' : 'absent';
}

async function compareSealed(target: LogFiles, source: SourceSegment, quick: boolean): Promise<TargetState> {
  const { disk, dir } = target;
  let manifest: Manifest;
  try {
    manifest = readManifest(disk, dir, source.name);
  } catch (error) {
    if (error instanceof LogCorrupted) return 'damaged';
    throw error;
  }
  const { sealed } = source;
  const sameManifest = sealed !== undefined && sealed.manifest.sha256 === manifest.sha256;
  if (sameManifest && quick) {
    return fileSize(disk, segmentFile(dir, source.name, 'zst')) === manifest.compressedBytes ? 'equal' : 'damaged';
  }
  if (!(await isSealedSound(target, source.name, manifest))) return 'damaged';
  if (sameManifest || (sealed === undefined && (await hashOf(source, target.mark)) === manifest.sha256)) return 'equal';
  throw otherEvents(dir, source.name);
}

/** Whether the compressed segment has the frames and the hash that its manifest says. @param file default: its usual one */
export async function isSealedSound(
  { disk, dir, mark }: LogFiles,
  name: string,
  manifest: Manifest,
  file = segmentFile(dir, name, 'zst'),
): Promise<boolean> {
  const segment = openSealedFile(disk, file, name, manifest);
  try {
    const isWhole = segment.sealed !== undefined && disk.size(segment.sealed.fd) === manifest.compressedBytes;
    return isWhole && (await hashOf(segment, mark)) === manifest.sha256;
  } catch (error) {
    if (error instanceof LogCorrupted) return false;
    throw error;
  } finally {
    segment.close();
  }
}

async function hashOf(segment: SourceSegment, mark: number): Promise<string> {
  const hash = createHash('sha256');
  for await (const run of walkBlocks(segment.blocks, mark, segment, segment.last)) {
    hash.update(run.buffer.subarray(run.start, run.end));
  }
  return hash.digest('hex');
}

async function compareRaw(target: LogFiles, source: SourceSegment): Promise<TargetState> {
  const { disk, dir, mark } = target;
  let found: ScannedSegment;
  try {
    found = scanSegment(disk, dir, mark, source.first);
  } catch (error) {
    if (error instanceof LogCorrupted) return 'damaged';
    throw error;
  }
  if (found.last > source.last) {
    throw new BackupRefused(
      `${dir} has events up to position ${found.last} in segment ${source.name}, the log up to ${source.last}: ` +
        'it is a backup of a later or another state of the log; use an empty folder',
    );
  }
  const fd = disk.open(segmentFile(dir, source.name, 'seg'), 'read');
  try {
    for await (const run of walkBlocks(source.blocks, mark, source, found.last)) {
      const length = run.end - run.start;
      const there = Buffer.allocUnsafeSlow(length);
      const read = await disk.readLater(fd, there, 0, length, run.offset);
      if (!there.subarray(0, read).equals(run.buffer.subarray(run.start, run.end))) {
        throw otherEvents(dir, source.name);
      }
    }
  } finally {
    disk.close(fd);
  }
  if (found.defect !== undefined) return 'damaged';
  return found.last === source.last && source.sealed === undefined ? 'equal' : 'older';
}

function otherEvents(dir: string, name: string): BackupRefused {
  return new BackupRefused(
    `${dir} has other events in segment ${name} than the log: the log or the backup was continued by itself; ` +
      'use an empty folder',
  );
}
