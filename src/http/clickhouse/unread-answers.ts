/**
 * Answers that are whole and on their way to their clients. They take no place from queries that run, and together they
 * are bounded: an answer that is not taken in time, or whose bytes are needed for a newer one, is broken off.
 */
export interface UnreadLimits {
  /** Of all answers together. One alone may be larger. */
  readonly bytes: number;
  /** For one answer. */
  readonly ms: number;
}

interface Unread {
  readonly bytes: number;
  breakOff(): void;
}

export class UnreadAnswers {
  readonly #limits: UnreadLimits;
  /** The oldest first. */
  readonly #answers = new Set<Unread>();
  #bytes = 0;

  constructor(limits: UnreadLimits) {
    this.#limits = limits;
  }

  /** @param send resolves when the client has taken the answer or is gone. @param breakOff makes it resolve or reject soon */
  async during(bytes: number, breakOff: () => void, send: () => Promise<void>): Promise<void> {
    const unread: Unread = { bytes, breakOff };
    for (const older of this.#answers) {
      if (this.#bytes + bytes <= this.#limits.bytes) break;
      this.#remove(older);
      older.breakOff();
    }
    this.#answers.add(unread);
    this.#bytes += bytes;
    const late = setTimeout(breakOff, this.#limits.ms);
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
