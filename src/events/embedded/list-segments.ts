/** The files of a log while it is written, from their names and sizes: neither events nor manifests are read. */
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { isMissing } from './disk.ts';
import { segmentFile, segmentName, segmentsIn } from './segment.ts';

export interface ListedSegment {
  /** Position of its first event. */
  readonly first: number;
  /** Whether it is compressed. */
  readonly sealed: boolean;
  /** Size of its files. */
  readonly bytes: number;
}

/** In the order of positions. Sizes of compressed segments are kept for the next call. */
export function segmentLister(dir: string): () => Promise<readonly ListedSegment[]> {
  const sealedBytes = new Map<number, number>();

  async function sizeOf(first: number, kinds: ReadonlySet<string>): Promise<ListedSegment | undefined> {
    // Both exist for a moment, before the uncompressed one is removed.
    const sealed = kinds.has('zst') && kinds.has('json');
    const known = sealed ? sealedBytes.get(first) : undefined;
    if (known !== undefined) return { first, sealed, bytes: known };
    try {
      const { size } = await stat(segmentFile(dir, segmentName(first), sealed ? 'zst' : 'seg'));
      if (sealed) sealedBytes.set(first, size);
      return { first, sealed, bytes: size };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  return async () => {
    const found = segmentsIn(await readdir(path.resolve(dir)));
    const listed: ListedSegment[] = [];
    for (const [first, kinds] of found) {
      const segment = await sizeOf(first, kinds);
      if (segment !== undefined) listed.push(segment);
    }
    return listed;
  };
}
