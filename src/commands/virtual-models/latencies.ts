/** The recent latencies of models. */
import type { Target } from '../model-request/target.ts';

/** The first byte of a stream comes long before a whole answer, so the two are measured separately. */
export type AnswerKind = 'stream' | 'whole';

/** Weight of the newest latency in the expected one: the last five answers make up four fifths of it. */
const NEWEST = 0.3;

/** Milliseconds that a failed call counts as, at least. */
export const FAILED_MS = 10_000;

export class Latencies {
  readonly #known = new WeakMap<object, Map<string, { stream?: number; whole?: number }>>();

  /** Expected milliseconds to the first byte; undefined when nothing is known. */
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
