/** Recent calls of models: the share that failed in the last minute, and latencies. */
import type { Target } from '../model-request/routing-types.ts';

/** Milliseconds for which a call counts. */
const ERROR_WINDOW_MS = 60_000;
const SLICE_MS = 5_000;
const SLICES = ERROR_WINDOW_MS / SLICE_MS;
/** Fewer calls count as this many, so that one failure alone is not a rate of 1. */
const MIN_CALLS = 5;

/** The calls of one model, counted by slices of time. A slice is reused after the window. */
class CallWindow {
  readonly #slices: { slot: number; calls: number; failures: number }[] = [];

  note(isFailure: boolean, now: number): void {
    const slot = Math.floor(now / SLICE_MS);
    const place = slot % SLICES;
    const known = this.#slices[place];
    const slice = known?.slot === slot ? known : { slot, calls: 0, failures: 0 };
    slice.calls += 1;
    if (isFailure) slice.failures += 1;
    this.#slices[place] = slice;
  }

  rate(now: number): number {
    const oldest = Math.floor(now / SLICE_MS) - SLICES + 1;
    let calls = 0;
    let failures = 0;
    for (const slice of this.#slices) {
      if (slice === undefined || slice.slot < oldest) continue;
      calls += slice.calls;
      failures += slice.failures;
    }
    return failures / Math.max(calls, MIN_CALLS);
  }
}

export class ErrorRates {
  readonly #now: () => number;
  readonly #known = new WeakMap<object, Map<string, CallWindow>>();

  /** @param now milliseconds that never run backwards */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** From 0 to 1; 0 when no call is known. */
  of({ provider, model }: Target): number {
    return this.#known.get(provider)?.get(model)?.rate(this.#now()) ?? 0;
  }

  note({ provider, model }: Target, isFailure: boolean): void {
    let models = this.#known.get(provider);
    if (models === undefined) {
      models = new Map();
      this.#known.set(provider, models);
    }
    let window = models.get(model);
    if (window === undefined) {
      window = new CallWindow();
      models.set(model, window);
    }
    window.note(isFailure, this.#now());
  }
}

// The recent latencies of models.

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
