/** Frames between the gateway and a plugin: four bytes with the length, most significant first, then JSON in UTF-8. */

import { BoundedJson, type JsonBounds } from './json-bounds.ts';

export const HEADER_BYTES = 4;

export class FrameError extends Error {
  override readonly name = 'FrameError';
}

/** @throws FrameError for a message that is too large, or beyond the bounds */
export function encodeFrame(message: object, maxBytes: number, bounds?: JsonBounds): Buffer {
  const text = JSON.stringify(message);
  const length = Buffer.byteLength(text);
  if (length > maxBytes) throw new FrameError(`a message of ${length} bytes is larger than ${maxBytes}`);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + length);
  frame.writeUInt32BE(length, 0);
  frame.write(text, HEADER_BYTES);
  const problem = bounds && new BoundedJson(bounds).problemIn(frame.subarray(HEADER_BYTES));
  if (problem !== undefined) throw new FrameError(`a message ${problem}`);
  return frame;
}

/** Divides bytes into frames. Holds at most one incomplete frame and the piece that was pushed last. */
export class FrameReader {
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];
  #held = 0;
  /** Of the frame whose header was read. */
  #length: number | undefined;
  readonly #bounds: JsonBounds | undefined;
  #json: BoundedJson | undefined;
  /** Bytes of this frame that `#json` has followed. */
  #followed = 0;

  constructor(maxBytes: number, bounds?: JsonBounds) {
    this.#maxBytes = maxBytes;
    this.#bounds = bounds;
  }

  /** The contents of the frames that are now complete. @throws FrameError for a frame that is too large, beyond the bounds, or no JSON */
  *push(piece: Buffer): Generator<unknown> {
    this.#pieces.push(piece);
    this.#held += piece.length;
    for (;;) {
      if (this.#length === undefined) {
        if (this.#held < HEADER_BYTES) return;
        this.#length = this.#take(HEADER_BYTES).readUInt32BE(0);
        if (this.#length > this.#maxBytes) {
          throw new FrameError(`a frame of ${this.#length} bytes is larger than ${this.#maxBytes}`);
        }
        this.#json = this.#bounds && new BoundedJson(this.#bounds);
        this.#followed = 0;
      }
      this.#follow(this.#length);
      if (this.#held < this.#length) return;
      const content = this.#take(this.#length);
      this.#length = undefined;
      yield parsed(content);
    }
  }

  /** The bytes of the frame that arrived last. They are in the last piece. */
  #follow(length: number): void {
    const last = this.#pieces.at(-1);
    if (this.#json === undefined || last === undefined) return;
    const start = last.length - (this.#held - this.#followed);
    const end = last.length - Math.max(0, this.#held - length);
    const problem = this.#json.problemIn(last.subarray(start, end));
    if (problem !== undefined) throw new FrameError(`a frame ${problem}`);
    this.#followed += end - start;
  }

  #take(length: number): Buffer {
    const joined = this.#pieces.length === 1 ? (this.#pieces[0] ?? Buffer.alloc(0)) : Buffer.concat(this.#pieces);
    const rest = joined.subarray(length);
    this.#pieces = rest.length === 0 ? [] : [rest];
    this.#held = rest.length;
    return joined.subarray(0, length);
  }
}

function parsed(content: Buffer): unknown {
  try {
    return JSON.parse(content.toString());
  } catch {
    throw new FrameError('a frame holds no JSON');
  }
}
