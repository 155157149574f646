import { createHash } from 'node:crypto';
import type { Disk } from '../disk.ts';
import { readFrame } from '../frame.ts';
import type { Manifest } from '../manifest.ts';
import { unpackNow } from '../zstd.ts';
import type { Pace } from './pace.ts';

/**
 * Reads a compressed segment back, block by block, and compares it with what was compressed: size, hash, the number of
 * frames and the positions in them.
 * @param frames the number of frames
 * @throws Error when anything differs
 */
export async function verifySealed(
  { disk, mark }: { readonly disk: Disk; readonly mark: number },
  file: string,
  manifest: Manifest,
  frames: number,
  pace: Pace,
): Promise<void> {
  const wrong = (what: string, cause?: unknown) =>
    new Error(`${file} was not written as it should: ${what}`, { cause });
  const { blocks, rawBytes, compressedBytes } = manifest;
  const hash = createHash('sha256');
  const fd = disk.open(file, 'read');
  try {
    if (disk.size(fd) !== compressedBytes) throw wrong(`${disk.size(fd)} bytes instead of ${compressedBytes}`);
    let next = manifest.first;
    let found = 0;
    for (const [index, { at, offset }] of blocks.entries()) {
      const length = (blocks[index + 1]?.at ?? compressedBytes) - at;
      const raw = await unpack(length, (blocks[index + 1]?.offset ?? rawBytes) - offset, at);
      hash.update(raw);
      for (let start = 0; start < raw.length; found++) {
        const frame = readFrame(raw, start, raw.length, mark);
        if (typeof frame === 'string' || frame.first !== next) throw wrong(`no frame for position ${next}`);
        next = frame.last + 1;
        start = frame.end;
      }
      await pace();
    }
    if (found !== frames || next - 1 !== manifest.last) throw wrong(`${found} frames instead of ${frames}`);
    if (hash.digest('hex') !== manifest.sha256) throw wrong('its content has another hash');
  } finally {
    disk.close(fd);
  }

  async function unpack(length: number, rawLength: number, at: number): Promise<Buffer> {
    try {
      const packed = Buffer.allocUnsafeSlow(length);
      const read = await disk.readLater(fd, packed, 0, length, at);
      return unpackNow(packed.subarray(0, read), rawLength);
    } catch (error) {
      throw wrong(`the block at byte ${at} cannot be unpacked`, error);
    }
  }
}
