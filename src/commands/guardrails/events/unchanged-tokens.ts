/**
 * Log probabilities of a streamed text. They repeat it token by token, so they are written with the text that they
 * belong to, up to the first change of the text.
 */
import { isObject } from '../../../json/is-object.ts';

interface HeldTokens {
  /** Where their text ends. */
  readonly end: number;
  readonly entries: readonly unknown[];
}

export class UnchangedTokens {
  /** The given text that was not written. */
  #awaited = '';
  #given = 0;
  #written = 0;
  #isChanged = false;
  #held: HeldTokens[] = [];
  #ready: unknown[] = [];

  /** @param entries the log probabilities of the text; of others nothing is kept */
  given(text: string, entries: readonly unknown[]): void {
    if (this.#isChanged) return;
    this.#awaited += text;
    this.#given += text.length;
    if (entries.length > 0) this.#held.push({ end: this.#given, entries });
  }

  written(text: string): void {
    if (this.#isChanged) return;
    if (!this.#awaited.startsWith(text)) {
      this.#isChanged = true;
      this.#awaited = '';
      this.#held = [];
      return;
    }
    this.#awaited = this.#awaited.slice(text.length);
    this.#written += text.length;
    while (this.#held[0] !== undefined && this.#held[0].end <= this.#written) {
      this.#ready.push(...this.#held[0].entries);
      this.#held.shift();
    }
  }

  /** Those of the text that was written since the last call. */
  take(): readonly unknown[] {
    if (this.#ready.length === 0) return [];
    const ready = this.#ready;
    this.#ready = [];
    return ready;
  }
}

/** The log probabilities when their tokens are exactly the text; none otherwise. */
export function matchingTokens(text: string, entries: unknown): readonly unknown[] {
  if (text === '' || !Array.isArray(entries) || entries.length === 0) return [];
  return entries.map(tokenIn).join('') === text || bytesIn(entries) === text ? entries : [];
}

function tokenIn(entry: unknown): string {
  return isObject(entry) && typeof entry['token'] === 'string' ? entry['token'] : '';
}

/** A character can consist of several tokens. */
function bytesIn(entries: readonly unknown[]): string {
  const bytes = entries.flatMap((entry) => (isObject(entry) && Array.isArray(entry['bytes']) ? entry['bytes'] : []));
  return Buffer.from(bytes).toString();
}
