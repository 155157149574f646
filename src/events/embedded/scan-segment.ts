/** Reads the frames of an uncompressed segment at its opening, and classifies a defect at its end. */
import type { Disk } from './disk.ts';
import { type BatchFrame, frameHeaderBytes, framePrefix, readFrame, readFrameHeader } from './frame.ts';
import { LogCorrupted } from './log-errors.ts';
import { Segment, SegmentStreams, segmentFile } from './segment.ts';

const chunkBytes = 1024 * 1024;

export interface ScannedSegment {
  /** Everything up to the first defect, with its streams and places. */
  readonly segment: Segment;
  /** Position of its last event; one before its first when it has none. */
  readonly last: number;
  /** Of the file, without zeros at its end: the writer lays them out and overwrites them with frames. */
  readonly fileBytes: number;
  /** The defect at `segment.bytes`, when that is not the end of the file. */
  readonly defect: string | undefined;
  /** The writers of ranges of positions, in order. */
  readonly writers: readonly WrittenRange[];
}

/** Positions that one writer wrote one after the other. */
export interface WrittenRange {
  readonly writer: number;
  readonly first: number;
  readonly last: number;
}

/**
 * @param until position at which the next segment begins; later bytes are ignored
 * @throws LogCorrupted when whole frames are out of order
 */
export function scanSegment(
  disk: Disk,
  dir: string,
  mark: number,
  first: number,
  until = Number.POSITIVE_INFINITY,
): ScannedSegment {
  const segment = new Segment(first);
  const streams = new SegmentStreams();
  segment.streams = streams;
  const fd = disk.open(segmentFile(dir, segment.name, 'seg'), 'read');
  try {
    let fileBytes = disk.size(fd);
    let buffer = Buffer.allocUnsafeSlow(Math.min(chunkBytes, Math.max(fileBytes, frameHeaderBytes)));
    let chunkOffset = 0;
    let chunkEnd = 0;
    let next = first;
    let defect: string | undefined;
    const writers: WrittenRange[] = [];
    /** Offset of a defect for which the end of the file was read again. */
    let judgedAt = -1;
    let contentEnd = 0;
    while (segment.bytes < fileBytes && next < until) {
      const at = segment.bytes - chunkOffset;
      const frame = readFrame(buffer, at, chunkEnd, mark);
      if (frame === 'cut short' && chunkOffset + chunkEnd < fileBytes) {
        const header = readFrameHeader(buffer, at, chunkEnd, mark);
        const needed = typeof header === 'string' ? chunkBytes : Math.max(chunkBytes, header.end - at);
        const there = Math.min(needed, fileBytes - segment.bytes);
        if (buffer.length < there) buffer = Buffer.allocUnsafeSlow(there);
        chunkOffset = segment.bytes;
        chunkEnd = disk.read(fd, buffer, 0, there, chunkOffset);
        // the writer may have cut off the room that it had laid out
        if (chunkEnd < there) fileBytes = chunkOffset + chunkEnd;
        continue;
      }
      if (typeof frame === 'string') {
        if (judgedAt !== segment.bytes) {
          // A writer may have continued since this was read. The end is read first: before what lies there, a frame
          // must have been written here.
          judgedAt = segment.bytes;
          fileBytes = disk.size(fd);
          contentEnd = endWithoutZeros(disk, fd, segment.bytes, fileBytes);
          const wanted = Math.min(buffer.length, fileBytes - segment.bytes);
          chunkOffset = segment.bytes;
          chunkEnd = disk.read(fd, buffer, 0, wanted, chunkOffset);
          if (chunkEnd < wanted) fileBytes = chunkOffset + chunkEnd;
          contentEnd = Math.min(contentEnd, fileBytes);
          continue;
        }
        fileBytes = contentEnd;
        if (fileBytes > segment.bytes) defect = frame;
        break;
      }
      if (frame.first !== next) {
        throw new LogCorrupted(segment.name, segment.bytes, `it continues at position ${frame.first}, not ${next}`);
      }
      noteWriter(writers, frame);
      segment.notePlace(next, segment.bytes);
      streams.noteFrame(buffer, frame, segment.bytes);
      segment.bytes += frame.end - at;
      next = frame.last + 1;
    }
    segment.durableBytes = segment.bytes;
    segment.visibleBytes = segment.bytes;
    return { segment, last: next - 1, fileBytes, defect, writers };
  } finally {
    disk.close(fd);
  }
}

/** Start of the zeros at the end of the file, but not before `from`. */
function endWithoutZeros(disk: Disk, fd: number, from: number, fileBytes: number): number {
  const buffer = Buffer.allocUnsafeSlow(Math.min(chunkBytes, fileBytes - from));
  let end = fileBytes;
  while (end > from) {
    const start = Math.max(from, end - buffer.length);
    const read = disk.read(fd, buffer, 0, end - start, start);
    const last = lastNonZero(buffer, read);
    if (last >= 0) return start + last + 1;
    end = start;
  }
  return from;
}

function lastNonZero(buffer: Buffer, length: number): number {
  let at = length - 1;
  while (at >= 0 && buffer[at] === 0) at--;
  return at;
}

function noteWriter(ranges: WrittenRange[], { writer, first, last }: BatchFrame): void {
  const latest = ranges.at(-1);
  if (latest?.writer === writer) ranges[ranges.length - 1] = { ...latest, last };
  else ranges.push({ writer, first, last });
}

export interface LaterFrames {
  /** Whether any whole frame lies after the defect. */
  readonly found: boolean;
  /** The greatest durable position in the headers of these frames; 0 for none. */
  readonly durable: number;
}

/** Looks for whole frames with positions from `position` on, behind the defect at `from`. */
export function findLaterFrames(
  disk: Disk,
  dir: string,
  mark: number,
  name: string,
  from: number,
  position: number,
): LaterFrames {
  const fd = disk.open(segmentFile(dir, name, 'seg'), 'read');
  try {
    const buffer = Buffer.allocUnsafeSlow(disk.size(fd) - from);
    const end = disk.read(fd, buffer, 0, buffer.length, from);
    const prefix = framePrefix(mark);
    let found = false;
    let durable = 0;
    for (let at = buffer.indexOf(prefix, 1); at !== -1 && at < end; ) {
      const frame = readFrame(buffer, at, end, mark);
      const whole = typeof frame !== 'string' && frame.first >= position;
      if (whole) {
        found = true;
        durable = Math.max(durable, frame.durable);
      }
      at = buffer.indexOf(prefix, whole ? frame.end : at + 1);
    }
    return { found, durable };
  } finally {
    disk.close(fd);
  }
}
