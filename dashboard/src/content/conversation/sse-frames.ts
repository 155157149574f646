/** A recorded stream as frames: WHATWG HTML, "Server-sent events", "Interpreting an event stream". */
import type { Sliced } from '../sliced.ts';

export interface StreamFrame {
  readonly event: string | undefined;
  /** The lines of the data, joined with line feeds. */
  readonly data: string;
  /** Index in the text of the first character of the frame and of the first one after it. */
  readonly start: number;
  readonly end: number;
}

const LINES_BETWEEN_YIELDS = 1_000;

/** Every frame with data. A last frame without an empty line after it is a frame too: the stream broke off there. */
export function* readFrames(text: string): Sliced<StreamFrame[]> {
  const frames: StreamFrame[] = [];
  const lineBreak = /\r\n|\n|\r/g;
  let event: string | undefined;
  let data: string[] = [];
  let at = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  let start = at;
  const finish = (end: number) => {
    if (data.length > 0) frames.push({ event, data: data.join('\n'), start, end });
    event = undefined;
    data = [];
    start = end;
  };
  for (let lines = 1; at < text.length; lines += 1) {
    if (lines % LINES_BETWEEN_YIELDS === 0) yield;
    lineBreak.lastIndex = at;
    const found = lineBreak.exec(text);
    const end = found?.index ?? text.length;
    const next = found === null ? text.length : lineBreak.lastIndex;
    if (end === at) finish(next);
    else {
      const colon = text.indexOf(':', at);
      const nameEnd = colon < 0 || colon > end ? end : colon;
      const name = text.slice(at, nameEnd);
      if (name === 'data' || name === 'event') {
        const valueStart = nameEnd + (text[nameEnd + 1] === ' ' ? 2 : 1);
        const value = text.slice(Math.min(valueStart, end), end);
        if (name === 'data') data.push(value);
        else event = value;
      }
    }
    at = next;
  }
  finish(text.length);
  return frames;
}

/** Whether a recorded answer is a stream and not JSON. */
export function looksLikeStream(text: string): boolean {
  return /^\ufeff?\s*(?:data|event|id|retry|call)?:/.test(text.slice(0, 200));
}
