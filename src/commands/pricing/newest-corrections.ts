/**
 * The cost of usages by their newest corrections, for one pass through the log. A limited number is kept; for further
 * ones only a probabilistic set is kept, so that memory is bounded, and the caller then has to read the stream.
 */
import type { UsageCost } from './pricing.ts';
import { SeenNames } from './seen-names.ts';

export type KnownCosts = Pick<UsageCost, 'inputCost' | 'outputCost' | 'totalCost' | 'priceSource'>;

/** The current cost of a usage, and the last revision of its stream. */
export interface LastWord {
  readonly costs: KnownCosts;
  readonly revision: bigint;
}

/** About 30 MB. */
const MAX_KEPT = 100_000;

export class NewestCorrections {
  readonly #kept = new Map<string, LastWord>();
  readonly #maxKept: number;
  #others: SeenNames | undefined;

  constructor(maxKept = MAX_KEPT) {
    this.#maxKept = maxKept;
  }

  /** Called in the log's order: a later correction replaces an earlier one. @param usage its id */
  note(usage: string, { costs, revision }: LastWord): void {
    if (this.#kept.size >= this.#maxKept && !this.#kept.has(usage)) {
      this.#others ??= new SeenNames();
      this.#others.add(usage);
      return;
    }
    const { inputCost, outputCost, totalCost, priceSource } = costs;
    this.#kept.set(usage, { costs: { inputCost, outputCost, totalCost, priceSource }, revision });
  }

  /** Undefined when the usage was never corrected; `unsure` when its stream has to be read. */
  of(usage: string): LastWord | 'unsure' | undefined {
    return this.#kept.get(usage) ?? (this.#others?.mayHave(usage) ? 'unsure' : undefined);
  }
}
