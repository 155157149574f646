/**
 * Finds out what segments a log has and where it ends, and whether anything that had been acknowledged is missing.
 * Changes nothing.
 */
import path from 'node:path';
import { fileSize } from './disk.ts';
import { frameHeaderBytes, framePrefix, readFrameHeader } from './frame.ts';
import { LogCorrupted, type MissingPart } from './log-errors.ts';
import type { Losses } from './losses.ts';
import { type Manifest, manifestIn, readManifest } from './manifest.ts';
import { firstInFrames, isOnTheWay, placeSegments } from './place-segments.ts';
import {
  findLaterFrames,
  type LaterFrames,
  type ScannedSegment,
  scanSegment,
  type WrittenRange,
} from './scan-segment.ts';
import { type LogFiles, Segment, segmentFile, segmentName, segmentsIn } from './segment.ts';

/** A list of missing files is cut off after so many. */
const namesShown = 8;

/** Facts about the log from outside its segments. */
export interface KnownOfLog {
  /** The last position noted to be on disk; undefined when the note is lost. */
  readonly durable: number | undefined;
  /** First and last position of the segments in the stream index; all of them were on disk when they were entered. */
  readonly indexed: ReadonlyMap<number, number>;
  readonly losses: Losses;
  /** Evidence that events up to there were on disk, from outside the folder of the log. */
  readonly seen?: SeenElsewhere | undefined;
}

export interface SeenElsewhere {
  readonly position: number;
  /** What was built from them, for the operator. */
  readonly by: string;
}

/** The incomplete end of the log. Later bytes were never acknowledged. */
export interface Tear {
  /** The segment that is torn; undefined when the log ends with the last closed one. */
  readonly scanned: ScannedSegment | undefined;
  /** Names of the segments after it, in order. */
  readonly later: readonly string[];
}

export interface Inspection {
  /** Segments that are wholly on disk, in order. */
  readonly closed: readonly Segment[];
  /** Those of them that are compressed. */
  readonly sealed: ReadonlySet<Segment>;
  /** The segments after those, up to the tear: what the last writer wrote may not all be on disk. */
  readonly end: readonly ScannedSegment[];
  readonly tear: Tear | undefined;
  /** Position of the last event. */
  readonly last: number;
  /** Position of the last event of each segment, by that of its first one. */
  readonly lasts: ReadonlyMap<number, number>;
  readonly missing: readonly MissingPart[];
  /** Files that an interrupted step left, full paths. */
  readonly leftovers: readonly string[];
  /** Files of compressed segments that cannot be read, full paths: without their other half, or with a wrong one. */
  readonly halves: readonly string[];
  /** Segments with events of another writer behind the place where the log continues in another segment. */
  readonly surplus: readonly Surplus[];
}

/** A compressed segment that lacks one of its files, or has one that cannot be its own. */
interface UnusableSegment {
  /** Those that are there, full paths. */
  readonly files: readonly string[];
  /** The missing or wrong part, for the operator. */
  readonly missing: string;
  /** Of the positions in it, as far as known. */
  readonly last: number;
}

export interface Surplus {
  readonly name: string;
  /** Where those events begin. */
  readonly from: number;
}

/** @throws LogCorrupted when events are damaged that had been acknowledged, and others follow */
export function inspectSegments(log: LogFiles, known: KnownOfLog): Inspection {
  const inspection = new SegmentInspection(log, known);
  if (!inspection.isMisplaced) return inspection.run();
  const { parts, disk } = placeSegments(log, known.losses);
  const placed = new SegmentInspection({ ...log, disk }, known).run();
  return { ...placed, missing: [...parts, ...placed.missing] };
}

class SegmentInspection {
  readonly #log: LogFiles;
  readonly #known: KnownOfLog;
  readonly #sealedFirsts = new Set<number>();
  readonly #leftovers: string[] = [];
  /** By the segment's first position. */
  readonly #halves = new Map<number, UnusableSegment>();
  readonly #missing: MissingPart[] = [];
  readonly #surplus: Surplus[] = [];
  readonly #end: ScannedSegment[] = [];
  readonly #lasts = new Map<number, number>();
  #tear: Tear | undefined;
  #last = 0;
  /** Evidence that events up to this position were on disk. */
  #acknowledged = 0;
  readonly #firsts: number[];
  /** Whether a file begins at another position than its name says. */
  isMisplaced = false;

  constructor(log: LogFiles, known: KnownOfLog) {
    this.#log = log;
    this.#known = { ...known, indexed: credible(known.indexed, log) };
    this.#acknowledged = Math.max(known.durable ?? 0, known.seen?.position ?? 0);
    for (const last of this.#known.indexed.values()) this.#acknowledged = Math.max(this.#acknowledged, last);
    this.#firsts = this.#listSegments();
  }

  run(): Inspection {
    const firsts = this.#firsts;
    const unsure = firsts.splice(this.#firstUnsure(firsts));
    for (const [at, first] of firsts.entries()) this.#lookAtClosed(first, firsts[at + 1] ?? unsure[0]);
    const closed = firsts.map(closedSegment);
    this.#lookAtEnd(unsure);
    this.#compareWriters();
    const reached = this.#known.losses.lostUntil(this.#last + 1) ?? this.#last;
    if (this.#acknowledged > reached) this.#noteMissing(reached + 1, this.#acknowledged);
    return {
      closed,
      sealed: new Set(closed.filter(({ first }) => this.#sealedFirsts.has(first))),
      end: this.#end,
      tear: this.#tear,
      last: this.#last,
      lasts: this.#lasts,
      missing: this.#missing,
      leftovers: this.#leftovers,
      halves: [...this.#halves.values()].flatMap(({ files }) => files),
      surplus: this.#surplus,
    };
  }

  /** First positions of the segments that exist in one complete form. Frames have precedence over compressed files. */
  #listSegments(): number[] {
    const { disk, dir } = this.#log;
    const files = disk.list(dir);
    for (const file of files) if (file.endsWith('.tmp')) this.#leftovers.push(path.join(dir, file));
    this.isMisplaced = files.some(isOnTheWay);
    const firsts: number[] = [];
    for (const [first, kinds] of segmentsIn(files)) {
      const name = segmentName(first);
      const compressed = (['json', 'zst'] as const).filter((kind) => kinds.has(kind));
      if (kinds.has('seg')) {
        if ((firstInFrames(this.#log, segmentFile(dir, name, 'seg')) ?? first) !== first) this.isMisplaced = true;
        this.#leftovers.push(...compressed.map((kind) => segmentFile(dir, name, kind)));
        firsts.push(first);
      } else {
        const unusable = this.#compressedDefect(first, compressed);
        if (unusable === undefined) {
          this.#sealedFirsts.add(first);
          firsts.push(first);
        } else {
          this.#halves.set(first, unusable);
          this.#acknowledged = Math.max(this.#acknowledged, unusable.last);
        }
      }
    }
    return firsts;
  }

  /** The defect of a compressed segment that its table and the size of its file show. */
  #compressedDefect(first: number, kinds: readonly ('json' | 'zst')[]): UnusableSegment | undefined {
    const { disk, dir } = this.#log;
    const name = segmentName(first);
    const files = kinds.map((kind) => segmentFile(dir, name, kind));
    const last = this.#known.indexed.get(first) ?? first;
    if (!kinds.includes('json')) return { files, missing: `${name}.json`, last };
    let manifest: Manifest;
    try {
      manifest = manifestIn(disk, segmentFile(dir, name, 'json'), name);
      if (manifest.first !== first) this.isMisplaced = true;
    } catch (error) {
      if (!(error instanceof LogCorrupted)) throw error;
      return { files, missing: `${name}.json, which cannot be read`, last };
    }
    if (!kinds.includes('zst')) return { files, missing: `${name}.zst`, last: manifest.last };
    const bytes = fileSize(disk, segmentFile(dir, name, 'zst'));
    if (bytes === manifest.compressedBytes) return undefined;
    const missing = `${name}.zst, which has ${bytes} bytes instead of ${manifest.compressedBytes}`;
    return { files, missing, last: manifest.last };
  }

  /**
   * Index of the first segment that may not have been wholly on disk when the writer ended: the one after the last
   * segment that is compressed or noted as durable to its end.
   */
  #firstUnsure(firsts: readonly number[]): number {
    const { durable = 0 } = this.#known;
    let index = firsts.length;
    while (index > 0) {
      const following = firsts[index];
      if (this.#sealedFirsts.has(firsts[index - 1] ?? 0)) break;
      if (following !== undefined && durable >= following - 1) break;
      index--;
    }
    return index;
  }

  #lookAtClosed(first: number, following: number | undefined): void {
    const before = this.#lastBefore(first);
    if (before > this.#last) this.#noteMissing(this.#last + 1, before);
    if (this.#known.losses.lostUntil(first) !== undefined) throw comeBack(first);
    this.#last = this.#lastOfClosed(first, following);
    this.#lasts.set(first, this.#last);
  }

  #lastOfClosed(first: number, following: number | undefined): number {
    const { disk, dir, mark } = this.#log;
    const name = segmentName(first);
    if (this.#sealedFirsts.has(first)) {
      const indexed = this.#known.indexed.get(first);
      return following !== undefined && indexed === following - 1 ? indexed : readManifest(disk, dir, name).last;
    }
    const wanted = following === undefined ? Number.POSITIVE_INFINITY : this.#known.losses.lastBefore(following);
    const seen = endOfPosition(this.#log, name, wanted);
    const scanned = seen === undefined ? scanSegment(disk, dir, mark, first, wanted + 1) : undefined;
    if (scanned?.defect !== undefined) throw new LogCorrupted(name, scanned.segment.bytes, scanned.defect);
    const { bytes, fileBytes } = seen ?? { bytes: scanned?.segment.bytes ?? 0, fileBytes: scanned?.fileBytes ?? 0 };
    if (bytes < fileBytes && following !== undefined) this.#lookAtSurplus(name, bytes, following);
    return scanned?.last ?? wanted;
  }

  #lookAtEnd(firsts: readonly number[]): void {
    const { disk, dir, mark } = this.#log;
    const { losses } = this.#known;
    for (const [at, first] of firsts.entries()) {
      const before = this.#lastBefore(first);
      if (before > this.#last) {
        // a power cut may lose the name of a file without acknowledged events and keep the name of a later one
        const { durable } = this.#laterFrames(firsts.slice(at));
        if (Math.max(durable, this.#acknowledged) <= this.#last) {
          this.#tear = { scanned: this.#end.at(-1), later: firsts.slice(at).map(segmentName) };
          return;
        }
        this.#noteMissing(this.#last + 1, before);
      }
      const lost = losses.lostUntil(first) !== undefined;
      const following = lost ? undefined : firsts[at + 1];
      const until = following === undefined ? undefined : losses.lastBefore(following) + 1;
      const scanned = scanSegment(disk, dir, mark, first, until);
      if (lost && scanned.segment.bytes > 0) throw comeBack(first);
      this.#end.push(scanned);
      this.#last = scanned.last;
      this.#lasts.set(first, scanned.last);
      const isShort = scanned.segment.bytes < scanned.fileBytes;
      if (isShort && following !== undefined && scanned.last + 1 === until) {
        this.#lookAtSurplus(scanned.segment.name, scanned.segment.bytes, following);
      }
      if (scanned.defect === undefined || scanned.last + 1 === until) continue;
      this.#tearIn(scanned, firsts.slice(at + 1));
      return;
    }
  }

  #tearIn(scanned: ScannedSegment, later: readonly number[]): void {
    const { segment, defect = '' } = scanned;
    const { found, durable } = this.#laterFrames(later, segment);
    const acknowledged = Math.max(durable, this.#acknowledged);
    // Whole frames behind a damaged one are no proof of damage: after a power cut a disk may have kept the later of two
    // writes that were never synced. The proof is that the damaged one had been acknowledged.
    if (found && (this.#known.durable === undefined || acknowledged > this.#last)) {
      throw new LogCorrupted(segment.name, segment.bytes, `${defect}, and whole batches of events follow`);
    }
    this.#tear = { scanned, later: later.map(segmentName) };
  }

  /** Frames behind the log's last whole frame: in `torn`, and in the segments that begin at `firsts`. */
  #laterFrames(firsts: readonly number[], torn?: Segment): LaterFrames {
    const { disk, dir, mark } = this.#log;
    const from = this.#last + 1;
    const found = firsts.map((first) => findLaterFrames(disk, dir, mark, segmentName(first), 0, from));
    if (torn !== undefined) found.push(findLaterFrames(disk, dir, mark, torn.name, torn.bytes, from));
    return { found: found.some((one) => one.found), durable: Math.max(0, ...found.map(({ durable }) => durable)) };
  }

  /** Position of the last event that should be before that segment. @throws LogCorrupted when there are later ones */
  #lastBefore(first: number): number {
    const before = this.#known.losses.lastBefore(first);
    if (before >= this.#last) return before;
    const reason = `it begins with position ${first}, and the segment before it has events up to ${this.#last}`;
    throw new LogCorrupted(segmentName(first), 0, reason);
  }

  #lookAtSurplus(name: string, from: number, following: number): void {
    const surplus = surplusFrames(this.#log, name, from, following);
    if (surplus === undefined) return;
    this.#surplus.push({ name, from });
    const files = [`${name}.seg from byte ${from} on`, `${segmentName(following)}.seg`];
    const reason = `two writers wrote the log at the same time: ${described(surplus)} follow the position where another writer continued`;
    this.#missing.push({ files, reason });
  }

  /** A writer opens the log after the previous writer, which then writes nothing more. */
  #compareWriters(): void {
    const ranges = this.#end.flatMap(({ writers }) => writers);
    if (ranges.every(({ writer }, at) => writer >= (ranges[at - 1]?.writer ?? 0))) return;
    const files = this.#end.map(({ segment }) => `${segment.name}.seg`);
    const reason = `two writers wrote the log at the same time: ${ranges.map(described).join(', ')}`;
    this.#missing.push({ files, reason });
  }

  #noteMissing(first: number, last: number): void {
    const files = this.#namesOfMissing(first, last);
    const { seen } = this.#known;
    if (seen?.position === last) files.push(`${seen.by} was built from them`);
    this.#missing.push({ positions: { first, last }, files });
  }

  /** The files that held the positions, as far as their names are known. */
  #namesOfMissing(first: number, last: number): string[] {
    const torn = this.#end.at(-1);
    if (torn?.defect !== undefined) return [`${torn.segment.name}.seg from byte ${torn.segment.bytes} on`];
    const firsts = new Set([first, ...this.#known.indexed.keys(), ...this.#halves.keys()]);
    const wereSealed = [...this.#sealedFirsts].some((other) => other > last);
    const names: string[] = [];
    for (const one of [...firsts].sort((a, b) => a - b)) {
      if (one < first || one > last) continue;
      const name = segmentName(one);
      const compressed = wereSealed || this.#known.indexed.has(one);
      names.push(this.#halves.get(one)?.missing ?? (compressed ? `${name}.zst and .json, or .seg` : `${name}.seg`));
    }
    const further = names.splice(namesShown).length;
    if (further > 0) names.push(`and ${further} more`);
    if (torn !== undefined && torn.segment.bytes > 0 && torn.last === first - 1) {
      names.push(`or the end of ${torn.segment.name}.seg, from byte ${torn.segment.bytes} on`);
    }
    return names;
  }
}

/**
 * The index is derived: one with a segment that reaches into the next one, or without an end, is damaged, and no evidence
 * that anything is missing.
 */
export function credible(indexed: KnownOfLog['indexed'], { disk, dir }: LogFiles): KnownOfLog['indexed'] {
  const firsts = [...new Set([...segmentsIn(disk.list(dir)).keys(), ...indexed.keys()])].toSorted((a, b) => a - b);
  const isDamaged = [...indexed].some(([first, last]) => {
    const following = firsts[firsts.indexOf(first) + 1];
    return last < first || (following !== undefined && last >= following);
  });
  return isDamaged ? new Map() : indexed;
}

function described({ writer, first, last }: WrittenRange): string {
  const who =
    writer === 0 ? 'an unknown writer' : `the writer that opened it at ${new Date(writer * 1000).toISOString()}`;
  return `positions ${first} to ${last} of ${who}`;
}

function comeBack(first: number): LogCorrupted {
  const reason = 'its positions were accepted as lost, but it exists';
  return new LogCorrupted(segmentName(first), 0, reason, undefined, 'Move its files out of the folder');
}

function closedSegment(first: number): Segment {
  const segment = new Segment(first);
  segment.visibleBytes = Number.POSITIVE_INFINITY;
  return segment;
}

const tailBytes = 256 * 1024;

/**
 * Where in an uncompressed segment the frame ends whose last event has that position. Undefined when there is none in the
 * segment's end, also when that frame is too large for one read: then the segment must be scanned.
 */
function endOfPosition(
  { disk, dir, mark }: LogFiles,
  name: string,
  last: number,
): { readonly bytes: number; readonly fileBytes: number } | undefined {
  const fd = disk.open(segmentFile(dir, name, 'seg'), 'read');
  try {
    const size = disk.size(fd);
    const buffer = Buffer.allocUnsafeSlow(Math.min(size, tailBytes));
    const end = disk.read(fd, buffer, 0, buffer.length, size - buffer.length);
    const prefix = framePrefix(mark);
    for (let at = buffer.lastIndexOf(prefix); at !== -1; at = at === 0 ? -1 : buffer.lastIndexOf(prefix, at - 1)) {
      const frame = readFrameHeader(buffer, at, end, mark);
      if (typeof frame === 'string' || frame.last !== last || frame.end > end) continue;
      return { bytes: size - buffer.length + frame.end, fileBytes: size };
    }
    return undefined;
  } finally {
    disk.close(fd);
  }
}

// Finds frames of a second writer behind the place where the log continues in another segment.

/**
 * The frames of an uncompressed segment from that byte on. None when there is no whole frame there, or when its writer is
 * not known, or is the one that wrote the next segment: a repair left those, and the events are in both.
 */
function surplusFrames(log: LogFiles, name: string, from: number, following: number): WrittenRange | undefined {
  const first = headerAt(log, name, from);
  if (first === undefined || first.writer === 0 || first.writer === headerAt(log, segmentName(following), 0)?.writer) {
    return undefined;
  }
  let { last, end: offset } = first;
  for (let next = headerAt(log, name, offset); next !== undefined; next = headerAt(log, name, offset)) {
    ({ last } = next);
    offset = next.end;
  }
  return { writer: first.writer, first: first.first, last };
}

interface Header {
  readonly writer: number;
  readonly first: number;
  readonly last: number;
  /** Offset in the file. */
  readonly end: number;
}

function headerAt({ disk, dir, mark }: LogFiles, name: string, offset: number): Header | undefined {
  const fd = disk.open(segmentFile(dir, name, 'seg'), 'read');
  try {
    const buffer = Buffer.alloc(frameHeaderBytes);
    const read = disk.read(fd, buffer, 0, frameHeaderBytes, offset);
    const header = readFrameHeader(buffer, 0, read, mark);
    if (typeof header === 'string' || offset + header.end > disk.size(fd)) return undefined;
    return { writer: header.writer, first: header.first, last: header.last, end: offset + header.end };
  } finally {
    disk.close(fd);
  }
}
