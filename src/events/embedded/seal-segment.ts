/** Compresses a closed segment. Whatever is interrupted, the segment stays readable in one form or the other. */
import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { zstdCompress } from 'node:zlib';
import { type Disk, datasync, replaceFile, writeFully } from './disk.ts';
import type { Manifest } from './manifest.ts';
import { type Segment, segmentFile } from './segment.ts';
import { walkSegment } from './walk-segment.ts';

const compress = promisify(zstdCompress);

/** For each millisecond of sealing so many are left to others: it is never urgent, and appends are. */
const restFactor = 3;
/** The least that zlib takes. */
const smallestChunkBytes = 64;

/**
 * @param last position of the segment's last event
 * @param signal stops it between two blocks; it then rejects, and leaves nothing behind that matters
 * @throws LogCorrupted when the segment is damaged: it is then left as it is
 */
export async function sealSegment(
  log: { readonly disk: Disk; readonly dir: string; readonly mark: number },
  segment: Segment,
  last: number,
  categories: Manifest['categories'],
  signal?: AbortSignal,
): Promise<void> {
  const { disk, dir } = log;
  const target = segmentFile(dir, segment.name, 'zst');
  const temporary = `${target}.tmp`;
  await disk.removeLater(temporary);
  const fd = disk.open(temporary, 'create');
  const hash = createHash('sha256');
  const blocks: Manifest['blocks'] = [];
  let rawBytes = 0;
  let compressedBytes = 0;
  let firstAt = Number.NaN;
  let lastAt = Number.NaN;
  try {
    for await (const run of walkSegment(log, segment, last)) {
      const began = performance.now();
      const raw = run.buffer.subarray(run.start, run.end);
      hash.update(raw);
      const compressed = await compress(raw, { chunkSize: Math.max(raw.length, smallestChunkBytes) });
      writeFully(disk, fd, compressed, 0, compressed.length, compressedBytes);
      blocks.push({ position: run.frames[0]?.first ?? 0, offset: run.offset, at: compressedBytes });
      if (Number.isNaN(firstAt)) firstAt = run.frames[0]?.at ?? 0;
      lastAt = run.frames.at(-1)?.at ?? 0;
      rawBytes += raw.length;
      compressedBytes += compressed.length;
      await delay((performance.now() - began) * restFactor, undefined, { signal });
    }
    await datasync(disk, fd);
  } catch (error) {
    await disk.removeLater(temporary);
    throw error;
  } finally {
    disk.close(fd);
  }
  const manifest: Manifest = {
    format: 'chancery-segment',
    version: 1,
    first: segment.first,
    last,
    firstAt,
    lastAt,
    rawBytes,
    compressedBytes,
    sha256: hash.digest('hex'),
    categories,
    blocks,
  };
  disk.rename(temporary, target);
  await replaceFile(disk, segmentFile(dir, segment.name, 'json'), Buffer.from(`${JSON.stringify(manifest)}\n`));
  // both are on disk under their names: only now may the frames themselves go
  await disk.removeLater(segmentFile(dir, segment.name, 'seg'));
}
