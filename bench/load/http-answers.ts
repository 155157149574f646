/**
 * A minimal HTTP/1.1 client that finds the end of each answer: status line, `Content-Length` or chunked body.
 * Written for the load generator, which must not take the processor from what it measures.
 */

export interface AnswerEvents {
  onHead(status: number): void;
  /** A piece of the body, without its framing. The bytes are only valid during the call. */
  onBody(buffer: Buffer, from: number, to: number): void;
  /** The answer is complete. */
  onEnd(): void;
}

const HEAD_END = Buffer.from('\r\n\r\n');
const LINE_END = Buffer.from('\r\n');

type State = 'head' | 'sized' | 'chunked';

export class HttpAnswers {
  readonly #events: AnswerEvents;
  #state: State = 'head';
  /** Bytes of the sized body still to come. */
  #left = 0;
  /** The beginning of something whose end has not come yet. */
  #rest: Buffer | undefined;

  constructor(events: AnswerEvents) {
    this.#events = events;
  }

  /** `bytes` may be used again afterwards. @throws Error when they are not HTTP/1.1 answers with a length */
  take(bytes: Buffer): void {
    let buffer = bytes;
    if (this.#rest !== undefined) {
      buffer = Buffer.concat([this.#rest, bytes]);
      this.#rest = undefined;
    }
    let at = 0;
    while (at < buffer.length) {
      const next =
        this.#state === 'head'
          ? this.#head(buffer, at)
          : this.#state === 'sized'
            ? this.#sized(buffer, at)
            : this.#chunk(buffer, at);
      if (next === undefined) {
        this.#rest = Buffer.from(buffer.subarray(at));
        return;
      }
      at = next;
    }
  }

  #head(buffer: Buffer, at: number): number | undefined {
    const end = buffer.indexOf(HEAD_END, at);
    if (end === -1) return undefined;
    const head = buffer.toString('latin1', at, end);
    const status = Number(head.slice(9, 12));
    if (!head.startsWith('HTTP/1.1 ') || !(status >= 200)) throw new Error(`not an answer: ${head.slice(0, 40)}`);
    this.#events.onHead(status);
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    if (length !== undefined) {
      this.#left = Number(length);
      if (this.#left === 0) this.#end();
      else this.#state = 'sized';
    } else if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
      this.#state = 'chunked';
    } else {
      throw new Error('an answer with neither a length nor chunks');
    }
    return end + HEAD_END.length;
  }

  #sized(buffer: Buffer, at: number): number {
    const to = Math.min(buffer.length, at + this.#left);
    this.#left -= to - at;
    this.#events.onBody(buffer, at, to);
    if (this.#left === 0) this.#end();
    return to;
  }

  #chunk(buffer: Buffer, at: number): number | undefined {
    const lineEnd = buffer.indexOf(LINE_END, at);
    if (lineEnd === -1) return undefined;
    const size = Number.parseInt(buffer.toString('latin1', at, lineEnd), 16);
    if (Number.isNaN(size)) throw new Error(`not a chunk size: ${buffer.toString('latin1', at, lineEnd).slice(0, 40)}`);
    const start = lineEnd + LINE_END.length;
    const end = start + size;
    if (buffer.length < end + LINE_END.length) return undefined;
    if (size > 0) this.#events.onBody(buffer, start, end);
    else this.#end();
    return end + LINE_END.length;
  }

  #end(): void {
    this.#state = 'head';
    this.#events.onEnd();
  }
}
