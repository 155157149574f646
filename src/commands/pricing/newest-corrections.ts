/**
 * What exchanges cost by the newest corrections, for one pass through the log. So many are kept as they are, and of the
 * others only that there are some: memory is bounded, and whoever asks looks into the stream then.
 */
import type { StreamName } from '../../events/event.ts';
import type { UsageCost } from './pricing.ts';
import { SeenStreams } from './seen-streams.ts';

export type Costs = Pick<UsageCost, 'inputCost' | 'outputCost' | 'totalCost' | 'priceSource'>;

/** What an exchange costs until now, and the end of its stream. */
export interface LastWord {
  readonly costs: Costs;
  readonly revision: bigint;
}

/** Some 30 MB. */
const MAX_KEPT = 100_000;

export class NewestCorrections {
  readonly #kept = new Map<StreamName, LastWord>();
  readonly #maxKept: number;
  #others: SeenStreams | undefined;

  constructor(maxKept = MAX_KEPT) {
    this.#maxKept = maxKept;
  }

  /** Called in the log's order: a later correction takes the place of an earlier one. */
  note(stream: StreamName, { costs, revision }: LastWord): void {
    if (this.#kept.size >= this.#maxKept && !this.#kept.has(stream)) {
      this.#others ??= new SeenStreams();
      this.#others.add(stream);
      return;
    }
    const { inputCost, outputCost, totalCost, priceSource } = costs;
    this.#kept.set(stream, { costs: { inputCost, outputCost, totalCost, priceSource }, revision });
  }

  /** Undefined: it was never corrected. */
  of(stream: StreamName): LastWord | 'unsure' | undefined {
    return this.#kept.get(stream) ?? (this.#others?.mayHave(stream) ? 'unsure' : undefined);
  }
}
