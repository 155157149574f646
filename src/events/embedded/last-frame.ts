import { framePrefix, readFrameHeader } from './frame.ts';
import type { LogFiles } from './log-files.ts';
import { segmentFile } from './segment.ts';

const tailBytes = 256 * 1024;

/**
 * Where in an uncompressed segment the frame ends whose last event has that position. Undefined when there is none in the
 * segment's end, also when that frame is too large for one read: then the segment must be scanned.
 */
export function endOfPosition(
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
