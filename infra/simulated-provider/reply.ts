import type { JsonObject } from './json.ts';

/** The kind of a frame in an answer: faults select frames by it. */
export type FrameKind = 'open' | 'delta' | 'finish' | 'usage' | 'done';

/** One server-sent event with its blank line, or one line of a stream of JSON lines. */
export interface Frame {
  readonly kind: FrameKind;
  readonly text: string;
}

type Headers = Readonly<Record<string, string>>;

export interface JsonReply {
  readonly status: number;
  readonly json: object;
  readonly headers?: Headers;
}

export interface StreamReply {
  readonly status: 200;
  readonly frames: Iterable<Frame> | AsyncIterable<Frame>;
  readonly headers?: Headers;
}

/** Not JSON: audio, a file, plain text. */
export interface BytesReply {
  readonly status: number;
  readonly bytes: Buffer;
  readonly contentType: string;
  readonly headers?: Headers;
}

export type Reply = JsonReply | StreamReply | BytesReply;

export const DONE: Frame = { kind: 'done', text: 'data: [DONE]\n\n' };

export function dataFrame(kind: FrameKind, data: object): Frame {
  return { kind, text: `data: ${JSON.stringify(data)}\n\n` };
}

/** An event whose name is the `type` of its data. */
export function namedFrame(kind: FrameKind, data: JsonObject & { type: string }): Frame {
  return { kind, text: `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n` };
}
