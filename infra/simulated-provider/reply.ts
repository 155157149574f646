/** Where in an answer a frame stands: faults address frames by it. */
export type FrameKind = 'open' | 'delta' | 'finish' | 'usage' | 'done';

/** One server-sent event, with its blank line. */
export interface Frame {
  readonly kind: FrameKind;
  readonly text: string;
}

export interface JsonReply {
  readonly status: number;
  readonly json: object;
}

export interface StreamReply {
  readonly status: 200;
  readonly frames: Iterable<Frame>;
}

export type Reply = JsonReply | StreamReply;

export const DONE: Frame = { kind: 'done', text: 'data: [DONE]\n\n' };

export function dataFrame(kind: FrameKind, data: object): Frame {
  return { kind, text: `data: ${JSON.stringify(data)}\n\n` };
}
