/**
 * Bounds of the JSON that a plugin sends, besides its size: without them parsing and validating 4 MiB of brackets takes
 * seconds, in which the gateway serves no request.
 */

export interface JsonBounds {
  readonly depth: number;
  /** Values in objects and arrays, at all depths. */
  readonly values: number;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Follows one JSON text, piece by piece as it arrives: no step takes longer than its piece. */
export class BoundedJson {
  readonly #bounds: JsonBounds;
  #depth = 0;
  #values = 0;
  #isString = false;
  #isEscaped = false;

  constructor(bounds: JsonBounds) {
    this.#bounds = bounds;
  }

  /** What is beyond the bounds, as the end of a sentence; undefined when nothing is. Bytes that are no JSON may pass. */
  problemIn(piece: Uint8Array): string | undefined {
    const { depth: maxDepth, values: maxValues } = this.#bounds;
    let [depth, values, isString, isEscaped] = [this.#depth, this.#values, this.#isString, this.#isEscaped];
    for (const byte of piece) {
      if (isString) {
        if (isEscaped) isEscaped = false;
        else if (byte === BACKSLASH) isEscaped = true;
        else if (byte === QUOTE) isString = false;
      } else if (byte === QUOTE) isString = true;
      else if (byte === COMMA) values++;
      else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
        values++;
        depth++;
        if (depth > maxDepth) return `is nested more than ${maxDepth} deep`;
      } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) depth--;
      if (values > maxValues) return `has more than ${maxValues} values`;
    }
    [this.#depth, this.#values, this.#isString, this.#isEscaped] = [depth, values, isString, isEscaped];
    return undefined;
  }
}
