import { type Disk, isMissing } from './disk.ts';
import { LogCorrupted } from './log-errors.ts';
import { readManifest } from './manifest.ts';
import { RawBlocks } from './raw-blocks.ts';
import { SealedBlocks } from './sealed-blocks.ts';
import { rewrittenFile, type SegmentPlace, segmentFile } from './segment.ts';
import type { SegmentBlocks } from './segment-blocks.ts';
import { unpackLater } from './zstd.ts';

/**
 * Opens the segment by name, in whichever form it is: it may be compressed and its first form removed at any moment.
 * @param places where frames begin, as far as known
 */
export async function openBlocks(
  disk: Disk,
  dir: string,
  name: string,
  mark: number,
  places: readonly SegmentPlace[],
): Promise<SegmentBlocks> {
  try {
    return new RawBlocks(disk, disk.open(segmentFile(dir, name, 'seg'), 'read'), mark, places);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  try {
    const manifest = readManifest(disk, dir, name);
    return new SealedBlocks(disk, disk.open(segmentFile(dir, name, 'zst'), 'read'), name, manifest, unpackLater);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  try {
    return new RawBlocks(disk, disk.open(rewrittenFile(dir, name), 'read'), mark, places);
  } catch (error) {
    throw isMissing(error) ? new LogCorrupted(name, 0, 'its files are missing', error) : error;
  }
}
