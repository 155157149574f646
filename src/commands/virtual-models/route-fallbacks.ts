/** Counts selections that a route strategy could not make, by strategy and reason. */

export type FallbackReason = 'not_loaded' | 'invalid_config' | 'late' | 'failed' | 'unknown_target';

export interface FallbackCount {
  readonly strategy: string;
  readonly reason: FallbackReason;
  readonly count: number;
}

/** Strategies beyond this many are counted together, as `other`. */
const MAX_STRATEGIES = 100;

export class RouteFallbacks {
  readonly #counts = new Map<string, Map<FallbackReason, number>>();

  note(strategy: string, reason: FallbackReason): void {
    const name = this.#counts.has(strategy) || this.#counts.size < MAX_STRATEGIES ? strategy : 'other';
    let counts = this.#counts.get(name);
    if (counts === undefined) {
      counts = new Map();
      this.#counts.set(name, counts);
    }
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }

  *[Symbol.iterator](): Iterator<FallbackCount> {
    for (const [strategy, counts] of this.#counts) {
      for (const [reason, count] of counts) yield { strategy, reason, count };
    }
  }
}
