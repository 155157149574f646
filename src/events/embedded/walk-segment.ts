/** Walks all frames of a closed segment, in whichever form it is, in small steps. */
import type { Disk } from './disk.ts';
import type { FrameRun } from './frame-run.ts';
import type { ReadableSegment } from './log-reader.ts';
import { openBlocks } from './open-blocks.ts';
import { walkBlocks } from './walk-blocks.ts';

/** As `walkBlocks`. */
export async function* walkSegment(
  log: { readonly disk: Disk; readonly dir: string; readonly mark: number },
  segment: ReadableSegment,
  last: number,
): AsyncGenerator<FrameRun> {
  const blocks = await openBlocks(log.disk, log.dir, segment.name, log.mark, segment.places);
  try {
    yield* walkBlocks(blocks, log.mark, segment, last);
  } finally {
    blocks.close();
  }
}
