import { indexedSegments } from '../archive/indexed-segments.ts';
import type { Disk } from '../disk.ts';
import { LogIncomplete } from '../log-errors.ts';
import { ReadOnlyLog } from '../read-only-log.ts';
import { rewrittenIn } from '../segment.ts';
import { Watermark, watermarkFile } from '../watermark.ts';

/**
 * Position of the last event on disk. Without a writer every whole batch counts, like for the next writer. Frames up to
 * there are final: they are only moved when their segment is compressed.
 * @throws LogIncomplete, LogCorrupted
 */
export async function durableEnd(disk: Disk, dir: string, mark: number): Promise<number> {
  // before the note: what is in the index was on disk when it was entered
  const indexed = Math.max(0, ...indexedSegments(dir, mark).values());
  const noted = notedEnd(disk, dir, mark);
  if (noted === undefined) throw new LogIncomplete(dir, [{ files: [watermarkFile] }]);
  // frames behind the note move when the next writer finishes an interrupted repair
  const end = rewrittenIn(disk.list(dir)).length > 0 ? noted : Math.max(noted, await visibleEnd(disk, dir));
  if (indexed > end) throw new LogIncomplete(dir, [{ positions: { first: end + 1, last: indexed }, files: [] }]);
  return end;
}

function notedEnd(disk: Disk, dir: string, mark: number): number | undefined {
  const watermark = Watermark.openForReading(disk, dir, mark);
  const position = watermark?.read();
  watermark?.close();
  return position;
}

async function visibleEnd(disk: Disk, dir: string): Promise<number> {
  const log = await ReadOnlyLog.open(dir, { disk });
  const position = log.visible();
  await log.close();
  return position;
}
