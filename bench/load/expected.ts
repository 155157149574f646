/** Checks piece by piece that an answer is complete, at very low cost. */

export interface Expected {
  /** The body, byte by byte. */
  readonly body?: string;
  /** Its length, where some of its bytes differ from answer to answer. */
  readonly length?: number;
  /** Its end, without white space. */
  readonly end?: string;
  /** A text in its last 4 KB. */
  readonly has?: string;
}

const TAIL = 4096;

export class BodyCheck {
  readonly #expected: Expected;
  readonly #body: Buffer | undefined;
  readonly #keepsTail: boolean;
  #length = 0;
  #differs = false;
  #tail: Buffer[] = [];

  constructor(expected: Expected) {
    this.#expected = expected;
    this.#body = expected.body === undefined ? undefined : Buffer.from(expected.body);
    this.#keepsTail = expected.end !== undefined || expected.has !== undefined;
  }

  /** The bytes of the body so far. */
  get length(): number {
    return this.#length;
  }

  reset(): void {
    this.#length = 0;
    this.#differs = false;
    if (this.#keepsTail) this.#tail = [];
  }

  /** `buffer` may be used again by the caller afterwards. */
  take(buffer: Buffer, from: number, to: number): void {
    const body = this.#body;
    if (body !== undefined && !this.#differs) {
      const end = this.#length + to - from;
      this.#differs = end > body.length || body.compare(buffer, from, to, this.#length, end) !== 0;
    }
    this.#length += to - from;
    if (this.#keepsTail) this.#keep(buffer.subarray(Math.max(from, to - TAIL), to));
  }

  #keep(piece: Buffer): void {
    this.#tail.push(Buffer.from(piece));
    if (this.#tail.length > 64) this.#tail = [Buffer.concat(this.#tail).subarray(-TAIL)];
  }

  /** The defect of a body that has ended; undefined when it is complete. */
  fault(): string | undefined {
    const { length, end, has } = this.#expected;
    if (this.#length === 0) return 'an empty answer';
    if (this.#body !== undefined) {
      if (this.#differs) return 'a body that differs from the expected one';
      if (this.#length !== this.#body.length) return `a body of ${this.#length} bytes for ${this.#body.length}`;
    }
    if (length !== undefined && this.#length !== length) return `a body of ${this.#length} bytes for ${length}`;
    if (!this.#keepsTail) return undefined;
    const tail = Buffer.concat(this.#tail).subarray(-TAIL).toString('utf8');
    if (end !== undefined && !tail.trimEnd().endsWith(end)) return `a body that does not end in ${end}`;
    return has !== undefined && !tail.includes(has) ? `a body without ${has}` : undefined;
  }
}
