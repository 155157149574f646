/** One step of archiving: reads a closed segment once, and checks, indexes and compresses it in the same pass. */
import { frameHeaderBytes, readFrameHeader } from '../frame.ts';
import { LogCorrupted } from '../log-errors.ts';
import type { LogFiles } from '../log-files.ts';
import type { Manifest } from '../manifest.ts';
import { RawBlocks } from '../raw-blocks.ts';
import { SealedBlocks } from '../sealed-blocks.ts';
import { segmentFile } from '../segment.ts';
import type { SegmentBlocks } from '../segment-blocks.ts';
import { categoriesOf, SegmentStreams, type StreamCategories } from '../segment-streams.ts';
import { walkBlocks } from '../walk-blocks.ts';
import { unpackNow } from '../zstd.ts';
import { indexSegment } from './index-segment.ts';
import type { Pace } from './pace.ts';
import { SealedFile } from './sealed-file.ts';

export interface ArchiveTask {
  readonly name: string;
  /** Positions of the segment's first and last event. */
  readonly first: number;
  readonly last: number;
  /** Given when the segment is compressed already. */
  readonly manifest?: Manifest;
  /** Whether to enter it in the stream index, and whether to compress it. With neither it is only checked. */
  readonly index: boolean;
  readonly seal: boolean;
}

/**
 * Runs on the calling thread, and uses the thread pool only where `log.disk` does.
 * @throws LogCorrupted when the segment is damaged, which is then not changed; IndexUnusable; the errors of the disk,
 *   of SQLite and of `pace`. Incomplete work is undone, or is done again by the next step.
 */
export async function archiveSegment(log: LogFiles, task: ArchiveTask, pace: Pace): Promise<StreamCategories> {
  const { disk, dir, mark } = log;
  const streams = new SegmentStreams();
  const blocks = blocksOf(log, task);
  let sealed: SealedFile | undefined;
  try {
    if (task.seal) sealed = await SealedFile.create(disk, dir, task.name);
    for await (const run of walkBlocks(blocks, mark, task, task.last)) {
      streams.noteRun(run);
      sealed?.add(run);
      await pace();
    }
    if (sealed !== undefined) checkNoneBehind(log, task.name, sealed.rawBytes);
    const categories = categoriesOf(streams);
    if (task.index) await indexSegment(log, task, streams, categories, pace);
    const finished = sealed?.finish(task, categories, mark, pace);
    sealed = undefined;
    await finished;
    return categories;
  } finally {
    blocks.close();
    await sealed?.abandon();
  }
}

/** Compression removes the frames at the end: events of another writer must not be removed with them. */
function checkNoneBehind({ disk, dir, mark }: LogFiles, name: string, bytes: number): void {
  const fd = disk.open(segmentFile(dir, name, 'seg'), 'read');
  try {
    // a killed writer leaves zeros there, which it had laid out for further frames
    const buffer = Buffer.alloc(frameHeaderBytes);
    const read = disk.read(fd, buffer, 0, frameHeaderBytes, bytes);
    if (typeof readFrameHeader(buffer, 0, read, mark) === 'string') return;
    throw new LogCorrupted(name, bytes, 'events lie behind the end of the segment');
  } finally {
    disk.close(fd);
  }
}

function blocksOf({ disk, dir, mark }: LogFiles, { name, manifest }: ArchiveTask): SegmentBlocks {
  if (manifest === undefined) return new RawBlocks(disk, disk.open(segmentFile(dir, name, 'seg'), 'read'), mark, []);
  const fd = disk.open(segmentFile(dir, name, 'zst'), 'read');
  return new SealedBlocks(disk, fd, name, manifest, async (packed, rawLength) => unpackNow(packed, rawLength));
}
