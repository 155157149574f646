/**
 * One breaker per provider: after `failureThreshold` exhausted exchanges in a row it opens, refuses for `openMs`, then
 * lets single probes through until `successThreshold` of them succeeded.
 */

export interface CircuitBreakerPolicy {
  readonly enabled: boolean;
  readonly failureThreshold: number;
  readonly successThreshold: number;
  readonly openMs: number;
  /** Whether an answer with this status counts as a failure of the provider. */
  readonly isFailure: (status: number) => boolean;
}

export type CircuitState = 'closed' | 'open' | 'half_open';

export class CircuitBreaker {
  readonly #policy: CircuitBreakerPolicy;
  readonly #now: () => number;
  readonly #onChange: (state: CircuitState, failures: number) => void;
  #state: CircuitState = 'closed';
  #failures = 0;
  #successes = 0;
  #openedAt = 0;
  #probing = false;

  constructor(
    policy: CircuitBreakerPolicy,
    now: () => number,
    onChange: (state: CircuitState, failures: number) => void,
  ) {
    this.#policy = policy;
    this.#now = now;
    this.#onChange = onChange;
  }

  get state(): CircuitState {
    return this.#state;
  }

  /** Whether a call would be refused now. Asking takes nothing away from those who call. */
  get refuses(): boolean {
    if (this.#state === 'closed' || !this.#policy.enabled) return false;
    return this.#state === 'open' ? this.#openedAt + this.#policy.openMs > this.#now() : this.#probing;
  }

  /** Undefined when a call may be made, else the milliseconds after which to ask again. */
  refusal(): number | undefined {
    if (this.#state === 'closed' || !this.#policy.enabled) return undefined;
    const wait = this.#openedAt + this.#policy.openMs - this.#now();
    if (this.#state === 'open') {
      if (wait > 0) return wait;
      this.#change('half_open');
      this.#successes = 0;
    } else if (this.#probing) {
      return 1000;
    }
    this.#probing = true;
    return undefined;
  }

  succeeded(): void {
    this.#failures = 0;
    if (this.#state === 'closed') return;
    this.#probing = false;
    this.#successes += 1;
    if (this.#successes >= this.#policy.successThreshold) this.#change('closed');
  }

  failed(): void {
    if (!this.#policy.enabled) return;
    this.#failures += 1;
    this.#probing = false;
    if (this.#state === 'half_open' || (this.#state === 'closed' && this.#failures >= this.#policy.failureThreshold)) {
      this.#openedAt = this.#now();
      this.#change('open');
    }
  }

  /** The provider's last word was this error status, or no answer at all. */
  ended(status: number | undefined): void {
    if (status === undefined || this.#policy.isFailure(status)) this.failed();
    else this.succeeded();
  }

  /** The call ended without saying anything about the provider, for example because the client left. */
  abandoned(): void {
    this.#probing = false;
  }

  #change(state: CircuitState): void {
    this.#state = state;
    this.#onChange(state, this.#failures);
  }
}
