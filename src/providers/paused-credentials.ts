/**
 * Credentials of a provider that are paused for a model after a 429 with `Retry-After`. Providers' limits are per
 * credential and model, so other models and other credentials stay in use.
 */

/** A longer `Retry-After` pauses for this long: the provider may raise the limit earlier. */
export const MAX_PAUSE_MS = 5 * 60_000;
/** Maximum number of remembered models. Beyond it the oldest entry is dropped, and its model is called again. */
export const MAX_MODELS = 1000;
const MAX_MODEL_LENGTH = 512;

export class PausedCredentials {
  readonly #count: number;
  readonly #now: () => number;
  /** For each model, when the pause of each credential ends. */
  readonly #until = new Map<string, Float64Array>();

  /**
   * @param count of credentials, which are numbered from 0
   * @param now milliseconds of a monotonic clock
   */
  constructor(count: number, now: () => number = () => performance.now()) {
    this.#count = count;
    this.#now = now;
  }

  /** @param ms values above `MAX_PAUSE_MS` are reduced to it */
  pause(credential: number, model: string, ms: number): void {
    if (!(ms > 0) || model === '' || model.length > MAX_MODEL_LENGTH) return;
    let until = this.#until.get(model);
    if (until === undefined) {
      this.#makeRoom();
      until = new Float64Array(this.#count);
      this.#until.set(model, until);
    }
    until[credential] = this.#now() + Math.min(ms, MAX_PAUSE_MS);
  }

  isPaused(credential: number, model: string): boolean {
    return (this.#until.get(model)?.[credential] ?? 0) > this.#now();
  }

  /** Milliseconds until a credential may be used for the model; 0 when one may be used now. */
  waitMs(model: string): number {
    const until = this.#until.get(model);
    if (until === undefined) return 0;
    const wait = Math.min(...until) - this.#now();
    return Math.max(0, wait);
  }

  #makeRoom(): void {
    if (this.#until.size < MAX_MODELS) return;
    const now = this.#now();
    for (const [model, until] of this.#until) if (until.every((end) => end <= now)) this.#until.delete(model);
    if (this.#until.size < MAX_MODELS) return;
    for (const model of this.#until.keys()) {
      this.#until.delete(model);
      return;
    }
  }
}
