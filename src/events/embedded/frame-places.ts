/** A stream's places in a segment as bytes: pairs of frame offset and first revision, as differences, in LEB128. */

export function encodeFramePlaces(frames: readonly number[]): Uint8Array {
  const bytes: number[] = [];
  let offset = 0;
  let revision = 0;
  for (let index = 0; index < frames.length; index += 2) {
    const nextOffset = frames[index] ?? 0;
    const nextRevision = frames[index + 1] ?? 0;
    pushNumber(bytes, nextOffset - offset);
    pushNumber(bytes, nextRevision - revision);
    offset = nextOffset;
    revision = nextRevision;
  }
  return Uint8Array.from(bytes);
}

export function decodeFramePlaces(bytes: Uint8Array): number[] {
  const frames: number[] = [];
  const latest = [0, 0];
  let value = 0;
  let factor = 1;
  for (const byte of bytes) {
    value += (byte & 0x7f) * factor;
    factor *= 128;
    if (byte >= 0x80) continue;
    const which = frames.length % 2;
    latest[which] = (latest[which] ?? 0) + value;
    frames.push(latest[which] ?? 0);
    value = 0;
    factor = 1;
  }
  return frames;
}

/** Not with bit operations: revisions may go past 2^32. */
function pushNumber(bytes: number[], number: number): void {
  let rest = number;
  while (rest >= 128) {
    bytes.push((rest % 128) | 0x80);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
}
