import type { Disk } from './disk.ts';
import { framePrefix, readFrameHeader } from './frame.ts';
import { segmentFile } from './segment.ts';

const tailBytes = 256 * 1024;

/**
 * Whether the end of an uncompressed segment has a whole frame whose last event has that position. False also when that
 * frame is too large to be seen at one glance: then the segment must be scanned.
 */
export function endsWithPosition(
  { disk, dir, mark }: { readonly disk: Disk; readonly dir: string; readonly mark: number },
  name: string,
  last: number,
): boolean {
  const fd = disk.open(segmentFile(dir, name, 'seg'), 'read');
  try {
    const size = disk.size(fd);
    const buffer = Buffer.allocUnsafeSlow(Math.min(size, tailBytes));
    const end = disk.read(fd, buffer, 0, buffer.length, size - buffer.length);
    const prefix = framePrefix(mark);
    for (let at = buffer.lastIndexOf(prefix); at !== -1; at = at === 0 ? -1 : buffer.lastIndexOf(prefix, at - 1)) {
      const frame = readFrameHeader(buffer, at, end, mark);
      if (typeof frame !== 'string' && frame.last === last) return frame.end <= end;
    }
    return false;
  } finally {
    disk.close(fd);
  }
}
