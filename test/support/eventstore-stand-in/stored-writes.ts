/**
 * The file of the stand-in: one frame per write, so that a write is in it completely or not at all.
 *
 *     0  u32 bytes after this field    4  u32 CRC-32 of everything after this field    8  f64 created, milliseconds
 *    16  u32 bytes of the JSON         20  JSON: stream, first revision, and of each event id, type, content type, sizes
 *        then metadata and data of each event
 */
import { crc32 } from 'node:zlib';

export interface ProposedEvent {
  readonly id: string;
  readonly type: string;
  readonly contentType: string;
  readonly metadata: Uint8Array;
  readonly data: Uint8Array;
}

export interface StoredEvent extends ProposedEvent {
  readonly stream: string;
  readonly revision: number;
  /** Commit and prepare position alike. */
  readonly position: number;
  readonly created: number;
}

interface FrameHead {
  readonly stream: string;
  readonly revision: number;
  readonly events: readonly (readonly [
    id: string,
    type: string,
    contentType: string,
    metadata: number,
    data: number,
  ])[];
}

const fixedBytes = 20;

export function encodeWrite(
  stream: string,
  revision: number,
  events: readonly ProposedEvent[],
  created: number,
): Buffer {
  const head: FrameHead = {
    stream,
    revision,
    events: events.map((event) => {
      return [event.id, event.type, event.contentType, event.metadata.length, event.data.length] as const;
    }),
  };
  const json = Buffer.from(JSON.stringify(head));
  const fixed = Buffer.alloc(fixedBytes);
  const frame = Buffer.concat([fixed, json, ...events.flatMap(({ metadata, data }) => [metadata, data])]);
  frame.writeUInt32LE(frame.length - 4, 0);
  frame.writeDoubleLE(created, 8);
  frame.writeUInt32LE(json.length, 16);
  frame.writeUInt32LE(crc32(frame.subarray(8)), 4);
  return frame;
}

/** Length of the frame at the place; undefined when it is not whole or damaged. */
export function frameLength(bytes: Buffer, at: number): number | undefined {
  if (bytes.length - at < fixedBytes) return undefined;
  const end = at + 4 + bytes.readUInt32LE(at);
  if (end > bytes.length) return undefined;
  return crc32(bytes.subarray(at + 8, end)) === bytes.readUInt32LE(at + 4) ? end - at : undefined;
}

/** @param position of the frame in the file. Event k of a write has the position of the frame plus k. */
export function decodeWrite(frame: Buffer, position: number): StoredEvent[] {
  const jsonBytes = frame.readUInt32LE(16);
  const created = frame.readDoubleLE(8);
  const head: FrameHead = JSON.parse(frame.toString('utf8', fixedBytes, fixedBytes + jsonBytes));
  let at = fixedBytes + jsonBytes;
  return head.events.map(([id, type, contentType, metadataBytes, dataBytes], index) => {
    const metadata = frame.subarray(at, at + metadataBytes);
    const data = frame.subarray(at + metadataBytes, at + metadataBytes + dataBytes);
    at += metadataBytes + dataBytes;
    const revision = head.revision + index;
    return {
      id,
      type,
      contentType,
      metadata,
      data,
      stream: head.stream,
      revision,
      position: position + index,
      created,
    };
  });
}
