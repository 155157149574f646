/**
 * Finds what can still be read of a damaged log, to accept the rest as lost. The unit is a frame; of a compressed segment
 * a block that cannot be unpacked. The segment is then written again without them: as segments that end before each lost
 * position and begin after it, so that readers find what they find where a segment is missing.
 */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { removeIndexFile } from './archive/index-file.ts';
import { type Disk, datasync, isMissing, syncDirectory, writeFully } from './disk.ts';
import { framePrefix, readFrame } from './frame.ts';
import { credible, type KnownOfLog } from './inspect-segments.ts';
import { LogCorrupted, type MissingPart } from './log-errors.ts';
import type { Losses, PositionRange } from './losses.ts';
import { type Manifest, readManifest } from './manifest.ts';
import { categoriesOf, type LogFiles, SegmentStreams, segmentFile, segmentName, segmentsIn } from './segment.ts';
import { unpackedBlocks } from './zstd.ts';

/** Frames that follow each other. */
interface Piece {
  readonly first: number;
  last: number;
  readonly bytes: Buffer[];
}

/** What can be read of a segment. */
class Content {
  readonly pieces: Piece[] = [];
  /** The first defect at each position, by the position that was expected there. */
  readonly defects = new Map<number, string>();
  /** The greatest durable position in the headers of the frames. */
  durable = 0;
  readonly streams = new SegmentStreams();
  next: number;
  #mark: number;

  constructor(first: number, mark: number) {
    this.next = first;
    this.#mark = mark;
  }

  /** @param offset of the bytes in the segment @param until position at which the next segment begins */
  read(bytes: Buffer, offset: number, until: number, file: string): void {
    let at = 0;
    while (at < bytes.length && this.next < until) {
      const frame = readFrame(bytes, at, bytes.length, this.#mark);
      if (typeof frame !== 'string' && frame.first >= until) return;
      if (typeof frame !== 'string' && frame.first >= this.next) {
        if (frame.first > this.next) this.noteDefect(`${file} at byte ${offset + at}: positions are missing`);
        this.streams.noteFrame(bytes, frame, offset + at);
        const piece = this.pieces.at(-1);
        const whole = bytes.subarray(at, frame.end);
        if (piece?.last === frame.first - 1) {
          piece.last = frame.last;
          piece.bytes.push(whole);
        } else this.pieces.push({ first: frame.first, last: frame.last, bytes: [whole] });
        this.durable = Math.max(this.durable, frame.durable);
        this.next = frame.last + 1;
        at = frame.end;
        continue;
      }
      const defect = typeof frame === 'string' ? frame : `it continues at position ${frame.first}`;
      this.noteDefect(`${file} at byte ${offset + at}: ${defect}`);
      at = this.#nextFrame(bytes, at + 1);
    }
  }

  noteDefect(what: string): void {
    if (!this.defects.has(this.next)) this.defects.set(this.next, what);
  }

  #nextFrame(bytes: Buffer, from: number): number {
    const prefix = framePrefix(this.#mark);
    for (let at = bytes.indexOf(prefix, from); at !== -1; at = bytes.indexOf(prefix, at + 1)) {
      const frame = readFrame(bytes, at, bytes.length, this.#mark);
      if (typeof frame !== 'string' && frame.first >= this.next) return at;
    }
    return bytes.length;
  }

  /** Ranges that defects have taken, up to `last` at the end. */
  lost(last: number): { readonly positions: PositionRange; readonly what: string }[] {
    return [...this.defects].flatMap(([first, what]) => {
      const behind = this.pieces.find((piece) => piece.first > first);
      const range = { first, last: behind === undefined ? last : behind.first - 1 };
      return range.last < range.first ? [] : [{ positions: range, what }];
    });
  }
}

export interface DamagedSegment {
  readonly first: number;
  /** Position at which the next segment begins. */
  readonly until: number;
  /** What is lost and was not accepted before, and files that are made again without loss. */
  readonly parts: readonly MissingPart[];
}

export interface Damage {
  /** The segments to be written again, in order. */
  readonly segments: readonly DamagedSegment[];
  /** Positions that are in no segment, between two of them and at the end, and were not accepted as lost. */
  readonly absent: readonly PositionRange[];
}

/** Reads the whole log, and changes nothing. */
export function findDamage(log: LogFiles, known: KnownOfLog): Damage {
  const segments = segmentsIn(log.disk.list(log.dir));
  const firsts = [...segments.keys()];
  const suspects: (() => DamagedSegment | undefined)[] = [];
  const absent: PositionRange[] = [];
  const indexed = credible(known.indexed, log);
  let acknowledged = Math.max(known.durable ?? 0, known.seen?.position ?? 0, ...indexed.values());
  let reached = 0;
  for (const [at, first] of firsts.entries()) {
    const until = firsts[at + 1] ?? Number.POSITIVE_INFINITY;
    const { content, manifest, tableDefect } = readableContent(log, first, until);
    noteAbsent(absent, reached + 1, known.losses.lastBefore(first));
    reached = content.defects.size === 0 || !Number.isFinite(until) ? content.next - 1 : until - 1;
    acknowledged = Math.max(acknowledged, content.durable);
    // without the note it is not known which frames behind damage had been acknowledged: all of them are kept
    if (known.durable === undefined) acknowledged = Math.max(acknowledged, content.next - 1);
    if (tableDefect !== undefined) acknowledged = Math.max(acknowledged, content.next - 1);
    if (content.defects.size === 0 && tableDefect === undefined) continue;
    for (const { bytes } of content.pieces) bytes.length = 0;
    suspects.push(() => {
      const isRaw = segments.get(first)?.has('seg') === true;
      const unknown = isRaw ? 0 : Math.max(manifest?.last ?? 0, indexed.get(first) ?? 0, content.next - 1);
      const end = Number.isFinite(until) ? known.losses.lastBefore(until) : unknown;
      const lost = content.lost(end).filter(({ positions }) => positions.first <= acknowledged || !isRaw);
      if (lost.length === 0 && tableDefect === undefined) return undefined;
      const fresh = lost.filter(({ positions }) => !isAccepted(known.losses, positions));
      const parts: MissingPart[] = fresh.map(({ positions, what }) => ({ positions, files: [what] }));
      if (tableDefect !== undefined && lost.length === 0) parts.push({ files: [tableDefect] });
      return { first, until, parts };
    });
  }
  const end = known.losses.lostUntil(reached + 1) ?? reached;
  noteAbsent(absent, end + 1, acknowledged);
  return { segments: suspects.flatMap((judge) => judge() ?? []), absent };
}

function noteAbsent(absent: PositionRange[], first: number, last: number): void {
  if (first <= last) absent.push({ first, last });
}

function isAccepted(losses: Losses, { first, last }: PositionRange): boolean {
  return (losses.lostUntil(first) ?? 0) >= last;
}

interface Readable {
  readonly content: Content;
  readonly manifest?: Manifest | undefined;
  /** Why a compressed segment is written again although nothing of it may be lost. */
  readonly tableDefect?: string | undefined;
}

function readableContent(log: LogFiles, first: number, until: number): Readable {
  const { disk, dir, mark } = log;
  const name = segmentName(first);
  const content = new Content(first, mark);
  const frames = wholeFile(disk, segmentFile(dir, name, 'seg'));
  if (frames !== undefined) {
    content.read(frames, 0, until, `${name}.seg`);
    return { content };
  }
  let manifest: Manifest | undefined;
  let tableDefect: string | undefined;
  try {
    manifest = readManifest(disk, dir, name);
  } catch (error) {
    if (isMissing(error)) tableDefect = `${name}.json`;
    else if (error instanceof LogCorrupted) tableDefect = `${name}.json, which cannot be read`;
    else throw error;
  }
  const packed = wholeFile(disk, segmentFile(dir, name, 'zst'));
  // the inspection names a missing file
  if (packed === undefined) return { content };
  const hash = createHash('sha256');
  const blocks: Manifest['blocks'] = [];
  let rawBytes = 0;
  for (const block of unpackedBlocks(packed)) {
    if (block.raw === undefined) {
      content.noteDefect(`${name}.zst at byte ${block.at}: a compressed block cannot be unpacked`);
      continue;
    }
    blocks.push({ position: content.next, offset: rawBytes, at: block.at });
    content.read(block.raw, rawBytes, until, `${name}.zst, unpacked,`);
    hash.update(block.raw);
    rawBytes += block.raw.length;
  }
  if (content.next <= (manifest?.last ?? 0)) content.noteDefect(`the end of ${name}.zst`);
  if (manifest !== undefined && content.defects.size === 0) {
    const found = { first, last: content.next - 1, rawBytes, compressedBytes: packed.length, blocks };
    const { first: _first, last, rawBytes: bytes, compressedBytes, blocks: said } = manifest;
    const isTrue =
      isDeepStrictEqual({ first: _first, last, rawBytes: bytes, compressedBytes, blocks: said }, found) &&
      hash.digest('hex') === manifest.sha256 &&
      hasCategories(manifest, content.streams);
    if (!isTrue) tableDefect = `${name}.json, which does not describe its segment`;
  }
  return { content, manifest, tableDefect };
}

/** An earlier version did not count how many streams begin in a segment. */
function hasCategories({ categories }: Manifest, streams: SegmentStreams): boolean {
  const found = Object.entries(categoriesOf(streams)).map(([category, { begun, ...rest }]) => {
    const counted = categories[category]?.begun === undefined ? {} : { begun };
    return [category, { ...rest, ...counted }];
  });
  return isDeepStrictEqual({ ...categories }, Object.fromEntries(found));
}

function wholeFile(disk: Disk, file: string): Buffer | undefined {
  let fd: number;
  try {
    fd = disk.open(file, 'read');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  try {
    const bytes = Buffer.allocUnsafeSlow(disk.size(fd));
    return bytes.subarray(0, disk.read(fd, bytes, 0, bytes.length, 0));
  } finally {
    disk.close(fd);
  }
}

/**
 * Writes the segments again without what is lost, and keeps the damaged files beside them as `.damaged`. After an
 * interruption at any step the log opens, or is refused and this can be repeated.
 * @param record records the loss: called when every part behind a lost position is in a segment of its own
 */
export async function writeAgain(
  log: LogFiles,
  damaged: readonly DamagedSegment[],
  record: () => Promise<void>,
): Promise<void> {
  const { disk, dir } = log;
  for (const { first, until } of damaged) {
    for (const piece of readableContent(log, first, until).content.pieces) {
      if (piece.first !== first) await replaceSegment(disk, dir, piece);
    }
  }
  await record();
  // it has the places of the segments before
  await removeIndexFile(dir);
  for (const { first } of damaged) {
    const name = segmentName(first);
    // in front of the segments that were made above
    const until = [...segmentsIn(disk.list(dir)).keys()].find((other) => other > first) ?? Number.POSITIVE_INFINITY;
    const [piece] = readableContent(log, first, until).content.pieces;
    const frames = wholeFile(disk, segmentFile(dir, name, 'seg'));
    if (frames !== undefined) await writeFile(disk, `${segmentFile(dir, name, 'seg')}.damaged`, [frames]);
    if (piece?.first === first) await replaceSegment(disk, dir, piece);
    else if (frames !== undefined) disk.remove(segmentFile(dir, name, 'seg'));
    for (const kind of ['json', 'zst'] as const) {
      const file = segmentFile(dir, name, kind);
      if (wholeFile(disk, file) !== undefined) disk.rename(file, `${file}.damaged`);
    }
    await syncDirectory(disk, dir);
  }
}

async function replaceSegment(disk: Disk, dir: string, { first, bytes }: Piece): Promise<void> {
  const file = segmentFile(dir, segmentName(first), 'seg');
  await writeFile(disk, `${file}.tmp`, bytes);
  disk.rename(`${file}.tmp`, file);
  await syncDirectory(disk, dir);
}

async function writeFile(disk: Disk, file: string, bytes: readonly Buffer[]): Promise<void> {
  await disk.removeLater(file);
  const fd = disk.open(file, 'create');
  try {
    let at = 0;
    for (const one of bytes) {
      writeFully(disk, fd, one, 0, one.length, at);
      at += one.length;
    }
    await datasync(disk, fd);
  } finally {
    disk.close(fd);
  }
}
