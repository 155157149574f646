/** The segments of a log that is copied, in whichever form each is at the moment. Its writer may be running. */
import { type Disk, isMissing } from '../disk.ts';
import { LogCorrupted } from '../log-errors.ts';
import type { LogFiles } from '../log-files.ts';
import type { Losses } from '../losses.ts';
import { type Manifest, readManifest } from '../manifest.ts';
import { RawBlocks } from '../raw-blocks.ts';
import { SealedBlocks } from '../sealed-blocks.ts';
import { segmentFile, segmentName, segmentsIn } from '../segment.ts';
import type { SegmentBlocks } from '../segment-blocks.ts';
import { unpackLater } from '../zstd.ts';

/** One segment whose files are open: they stay readable when the writer replaces them. */
export interface SourceSegment {
  readonly name: string;
  readonly first: number;
  /** Position of the last event to copy. */
  readonly last: number;
  /** Present when it is compressed. */
  readonly sealed?: { readonly manifest: Manifest; readonly fd: number };
  readonly blocks: SegmentBlocks;
  close(): void;
}

export class SourceSegments {
  readonly #log: LogFiles;
  readonly #losses: Losses;
  /** Position of the last event to copy. */
  readonly #until: number;
  #firsts: number[] = [];

  constructor(log: LogFiles, losses: Losses, until: number) {
    this.#log = log;
    this.#losses = losses;
    this.#until = until;
    this.list();
  }

  /** Reads the directory again. */
  list(): void {
    const { disk, dir } = this.#log;
    this.#firsts = [...segmentsIn(disk.list(dir)).keys()].filter((first) => first <= this.#until);
  }

  has(first: number): boolean {
    return this.#firsts.includes(first);
  }

  /**
   * Opens the segment after that position.
   * @throws LogCorrupted, ENOENT: also when the writer has replaced a file since the directory was read
   */
  openAfter(position: number): SourceSegment {
    const at = this.#firsts.findIndex((one) => one > position);
    const first = this.#firsts[at] ?? this.#until + 1;
    const before = this.#losses.lastBefore(first);
    if (before !== position) {
      throw new LogCorrupted(segmentName(position + 1), 0, `positions ${position + 1} to ${before} are missing`);
    }
    const following = this.#firsts[at + 1];
    const end = following === undefined ? this.#until : this.#losses.lastBefore(following);
    return openRaw(this.#log, first, Math.min(end, this.#until)) ?? openSealed(this.#log, first, following, end);
  }
}

function openRaw({ disk, dir, mark }: LogFiles, first: number, last: number): SourceSegment | undefined {
  const name = segmentName(first);
  try {
    const blocks = new RawBlocks(disk, disk.open(segmentFile(dir, name, 'seg'), 'read'), mark, []);
    return { name, first, last, blocks, close: () => blocks.close() };
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** All of the segment: it was on disk as a whole before it was compressed. */
function openSealed({ disk, dir }: LogFiles, first: number, following: number | undefined, end: number): SourceSegment {
  const name = segmentName(first);
  const manifest = readManifest(disk, dir, name);
  if (manifest.first === first && manifest.last < end) {
    throw new LogCorrupted(name, manifest.rawBytes, `positions ${manifest.last + 1} to ${end} are missing after it`);
  }
  if (manifest.first !== first || (following !== undefined && manifest.last !== end)) {
    throw new LogCorrupted(name, 0, `its manifest says positions ${manifest.first} to ${manifest.last}`);
  }
  return openSealedFile(disk, segmentFile(dir, name, 'zst'), name, manifest);
}

/** @param file the compressed blocks that the manifest describes */
export function openSealedFile(disk: Disk, file: string, name: string, manifest: Manifest): SourceSegment {
  const fd = disk.open(file, 'read');
  const blocks = new SealedBlocks(disk, fd, name, manifest, unpackLater);
  const { first, last } = manifest;
  return { name, first, last, sealed: { manifest, fd }, blocks, close: () => blocks.close() };
}
