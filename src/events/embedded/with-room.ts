/** @returns the buffer if it has room for this many bytes behind those in use, else a larger one with these bytes */
export function withRoom(buffer: Buffer, used: number, bytes: number): Buffer {
  const needed = used + bytes;
  if (needed <= buffer.length) return buffer;
  const larger = Buffer.allocUnsafeSlow(Math.max(needed, buffer.length * 2));
  buffer.copy(larger, 0, 0, used);
  return larger;
}
