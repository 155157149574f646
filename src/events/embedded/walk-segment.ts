/** Walks all frames of a closed segment, in whichever form it is, in small steps. */
import type { FrameRun } from './frame-run.ts';
import type { LogFiles } from './log-files.ts';
import type { ReadableSegment } from './log-reader.ts';
import { openBlocks } from './open-blocks.ts';
import { walkBlocks } from './walk-blocks.ts';

/** As `walkBlocks`. */
export async function* walkSegment(log: LogFiles, segment: ReadableSegment, last: number): AsyncGenerator<FrameRun> {
  const blocks = await openBlocks(log.disk, log.dir, segment.name, log.mark, segment.places);
  try {
    yield* walkBlocks(blocks, log.mark, segment, last);
  } finally {
    blocks.close();
  }
}
