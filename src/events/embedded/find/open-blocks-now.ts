import { isMissing } from '../disk.ts';
import { LogCorrupted } from '../log-errors.ts';
import type { LogFiles } from '../log-files.ts';
import type { Manifest } from '../manifest.ts';
import { parseManifestText } from '../manifest-text.ts';
import { RawBlocks } from '../raw-blocks.ts';
import { SealedBlocks } from '../sealed-blocks.ts';
import { segmentFile } from '../segment.ts';
import type { SegmentBlocks } from '../segment-blocks.ts';
import { unpackNow } from '../zstd.ts';

/**
 * As `openBlocks`, for a thread of its own: uses neither the thread pool nor zod. Of the manifest only the
 * checksum is checked; the frames that it points to are checked.
 */
export function openBlocksNow({ disk, dir, mark }: LogFiles, name: string): SegmentBlocks {
  try {
    return new RawBlocks(disk, disk.open(segmentFile(dir, name, 'seg'), 'read'), mark, []);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  try {
    const manifest = parseManifestText(disk.readFile(segmentFile(dir, name, 'json')).toString(), name) as Manifest;
    const fd = disk.open(segmentFile(dir, name, 'zst'), 'read');
    return new SealedBlocks(disk, fd, name, manifest, async (packed, rawLength) => unpackNow(packed, rawLength));
  } catch (error) {
    throw new LogCorrupted(name, 0, 'its files are missing, or its manifest cannot be read', error);
  }
}
