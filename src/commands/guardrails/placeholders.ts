/**
 * The placeholders of one exchange: each stands for a value that no provider may see. A value has one placeholder, also
 * in later turns; no placeholder occurs in a text of the request.
 */

/** One value and its placeholder, as it is recorded. */
export interface RecordedPlaceholder {
  readonly placeholder: string;
  readonly value: string;
}

export class Placeholders {
  readonly #byValue = new Map<string, string>();
  readonly #byPlaceholder = new Map<string, string>();
  readonly #nextNumbers = new Map<string, number>();
  readonly #reserved = new Set<string>();

  /** @param recorded of the earlier turns, the newest last */
  constructor(recorded: Iterable<RecordedPlaceholder> = []) {
    for (const { placeholder, value } of recorded) {
      if (this.#byPlaceholder.has(placeholder)) continue;
      this.#byPlaceholder.set(placeholder, value);
      this.#byValue.set(value, placeholder);
    }
  }

  /** Keeps texts of the form of a placeholder from becoming one: they would be replaced in the answer. */
  reserve(text: string): void {
    if (!text.includes('<')) return;
    for (const [found] of text.matchAll(formOfPlaceholder)) this.#reserved.add(found);
  }

  /** @param entity upper case, for example `EMAIL` */
  placeholderOf(entity: string, value: string): string {
    const known = this.#byValue.get(value);
    if (known !== undefined) return known;
    let number = this.#nextNumbers.get(entity) ?? 1;
    while (this.#isTaken(`<${entity}_${number}>`)) number += 1;
    this.#nextNumbers.set(entity, number + 1);
    const placeholder = `<${entity}_${number}>`;
    this.#byValue.set(value, placeholder);
    this.#byPlaceholder.set(placeholder, value);
    return placeholder;
  }

  valueOf(placeholder: string): string | undefined {
    return this.#byPlaceholder.get(placeholder);
  }

  get size(): number {
    return this.#byPlaceholder.size;
  }

  /** All of them, in the order in which they were given out. */
  recorded(): RecordedPlaceholder[] {
    return Array.from(this.#byPlaceholder, ([placeholder, value]) => ({ placeholder, value }));
  }

  #isTaken(placeholder: string): boolean {
    return this.#byPlaceholder.has(placeholder) || this.#reserved.has(placeholder);
  }
}

/** Entities have at most 40 characters, numbers at most 9 digits. */
const formOfPlaceholder = /<[A-Z][A-Z0-9_]{0,39}_[0-9]{1,9}>/g;
export const longestPlaceholder = 52;
