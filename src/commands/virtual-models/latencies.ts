/** The recent latencies of models. */
import type { Target } from '../model-request/target.ts';

/** The first byte of a stream comes long before a whole answer, so the two are measured separately. */
export type AnswerKind = 'stream' | 'whole';

/** Weight of the newest latency in the expected one: the last five answers make up four fifths of it. */
const NEWEST = 0.3;

/** Milliseconds after which a latency is too old for a route strategy. */
const RECENT_MS = 5 * 60_000;

/** Milliseconds that a failed call counts as, at least. */
export const FAILED_MS = 10_000;

interface Latency {
  readonly ms: number;
  /** When it was observed last. */
  readonly at: number;
}

export class Latencies {
  readonly #known = new WeakMap<object, Map<string, { stream?: Latency; whole?: Latency }>>();
  readonly #now: () => number;

  /** @param now milliseconds that never run backwards */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Expected milliseconds to the first byte; undefined when nothing is known. */
  expected({ provider, model }: Target, kind: AnswerKind): number | undefined {
    return this.#known.get(provider)?.get(model)?.[kind]?.ms;
  }

  /** The expected milliseconds, when the last observation is at most five minutes old. */
  recent({ provider, model }: Target, kind: AnswerKind): number | undefined {
    const known = this.#known.get(provider)?.get(model)?.[kind];
    return known === undefined || this.#now() - known.at > RECENT_MS ? undefined : known.ms;
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
    const before = known[kind]?.ms;
    known[kind] = { ms: before === undefined ? ms : before + NEWEST * (ms - before), at: this.#now() };
  }
}
