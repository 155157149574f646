/** How long models have let their callers wait of late. */
import type { Target } from '../model-request/target.ts';

/** A stream begins long before an answer that comes whole is there, so the two are kept apart. */
export type AnswerKind = 'stream' | 'whole';

/** The share of the newest in what is expected next: after five answers four fifths of it are theirs. */
const NEWEST = 0.3;

/** What one that fails counts as, at the least. */
export const FAILED_MS = 10_000;

export class Latencies {
  readonly #known = new WeakMap<object, Map<string, { stream?: number; whole?: number }>>();

  /** Milliseconds to the first byte as they are to be expected; undefined when nothing is known. */
  expected({ provider, model }: Target, kind: AnswerKind): number | undefined {
    return this.#known.get(provider)?.get(model)?.[kind];
  }

  observe({ provider, model }: Target, kind: AnswerKind, ms: number): void {
    let models = this.#known.get(provider);
    if (models === undefined) {
      models = new Map();
      this.#known.set(provider, models);
    }
    let known = models.get(model);
    if (known === undefined) {
      known = {};
      models.set(model, known);
    }
    const before = known[kind];
    known[kind] = before === undefined ? ms : before + NEWEST * (ms - before);
  }
}
