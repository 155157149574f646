/** Finds frames of a second writer behind the place where the log continues in another segment. */
import { frameHeaderBytes, readFrameHeader } from './frame.ts';
import type { LogFiles } from './log-files.ts';
import type { WrittenRange } from './scan-segment.ts';
import { segmentFile, segmentName } from './segment.ts';

/**
 * The frames of an uncompressed segment from that byte on. None when there is no whole frame there, or when its writer is
 * not known, or is the one that wrote the next segment: a repair left those, and the events are in both.
 */
export function surplusFrames(log: LogFiles, name: string, from: number, following: number): WrittenRange | undefined {
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
