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

  readonly #earlier: number;

  /**
   * @param recorded of the earlier turns. Where turns that ran at the same time gave one placeholder to two values, the
   * second value gets another.
   */
  constructor(recorded: Iterable<RecordedPlaceholder> = []) {
    const twice: RecordedPlaceholder[] = [];
    for (const one of recorded) {
      if (this.#byValue.has(one.value)) continue;
      if (this.#byPlaceholder.has(one.placeholder)) {
        twice.push(one);
        continue;
      }
      this.#byPlaceholder.set(one.placeholder, one.value);
      this.#byValue.set(one.value, one.placeholder);
    }
    this.#earlier = this.size;
    for (const { placeholder, value } of twice) this.placeholderOf(entityOf(placeholder), value);
  }

  /** Keeps texts of the form of a placeholder from becoming one: they would be replaced in the answer. */
  reserve(text: string): void {
    if (!text.includes('<')) return;
    for (const [found] of text.matchAll(formOfPlaceholder)) this.#reserved.add(found);
  }

  /**
   * @param entity upper case, for example `EMAIL`
   * @throws Error beyond `mostPlaceholders` values
   */
  placeholderOf(entity: string, value: string): string {
    const known = this.#byValue.get(value);
    if (known !== undefined) return known;
    if (this.size >= mostPlaceholders) throw new Error(`the request has more than ${mostPlaceholders} values to hide`);
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

  /** Those that were not recorded in earlier turns. */
  added(): RecordedPlaceholder[] {
    return this.recorded().slice(this.#earlier);
  }

  #isTaken(placeholder: string): boolean {
    return this.#byPlaceholder.has(placeholder) || this.#reserved.has(placeholder);
  }
}

/** Values of one exchange, those of earlier turns included. */
export const mostPlaceholders = 10_000;

/** Entities have at most 40 characters, numbers at most 9 digits. */
const formOfPlaceholder = /<[A-Z][A-Z0-9_]{0,39}_[0-9]{1,9}>/g;
export const longestPlaceholder = 52;

function entityOf(placeholder: string): string {
  return placeholder.slice(1, placeholder.lastIndexOf('_'));
}
