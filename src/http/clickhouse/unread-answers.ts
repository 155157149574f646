/**
 * Complete answers that their clients have not read yet. They use no place of an active query, and their total size is
 * limited: an answer that is not read in time, or whose bytes are needed for a newer one, is cut off.
 */
export interface UnreadLimits {
  /** Limit of all answers together. A single one may be larger. */
  readonly bytes: number;
  /** Time limit of one answer. */
  readonly ms: number;
}

interface Unread {
  readonly bytes: number;
  abort(): void;
}

export class UnreadAnswers {
  readonly #limits: UnreadLimits;
  /** The oldest first. */
  readonly #answers = new Set<Unread>();
  #bytes = 0;

  constructor(limits: UnreadLimits) {
    this.#limits = limits;
  }

  /** @param send resolves when the client has read the answer or is gone. @param abort makes `send` settle soon */
  async during(bytes: number, abort: () => void, send: () => Promise<void>): Promise<void> {
    const unread: Unread = { bytes, abort };
    for (const older of this.#answers) {
      if (this.#bytes + bytes <= this.#limits.bytes) break;
      this.#remove(older);
      older.abort();
    }
    this.#answers.add(unread);
    this.#bytes += bytes;
    const late = setTimeout(abort, this.#limits.ms);
    try {
      await send();
    } finally {
      clearTimeout(late);
      this.#remove(unread);
    }
  }

  #remove(unread: Unread): void {
    if (this.#answers.delete(unread)) this.#bytes -= unread.bytes;
  }
}
