/**
 * What usages cost by their newest corrections, for one pass through the log. So many are kept as they are, and of the
 * others only that there are some: memory is bounded, and whoever asks looks into the stream then.
 */
import type { UsageCost } from './pricing.ts';
import { SeenNames } from './seen-names.ts';

export type KnownCosts = Pick<UsageCost, 'inputCost' | 'outputCost' | 'totalCost' | 'priceSource'>;

/** What a usage costs until now, and the end of its stream. */
export interface LastWord {
  readonly costs: KnownCosts;
  readonly revision: bigint;
}

/** Some 30 MB. */
const MAX_KEPT = 100_000;

export class NewestCorrections {
  readonly #kept = new Map<string, LastWord>();
  readonly #maxKept: number;
  #others: SeenNames | undefined;

  constructor(maxKept = MAX_KEPT) {
    this.#maxKept = maxKept;
  }

  /** Called in the log's order: a later correction takes the place of an earlier one. @param usage its id */
  note(usage: string, { costs, revision }: LastWord): void {
    if (this.#kept.size >= this.#maxKept && !this.#kept.has(usage)) {
      this.#others ??= new SeenNames();
      this.#others.add(usage);
      return;
    }
    const { inputCost, outputCost, totalCost, priceSource } = costs;
    this.#kept.set(usage, { costs: { inputCost, outputCost, totalCost, priceSource }, revision });
  }

  /** Undefined: it was never corrected. */
  of(usage: string): LastWord | 'unsure' | undefined {
    return this.#kept.get(usage) ?? (this.#others?.mayHave(usage) ? 'unsure' : undefined);
  }
}
