/**
 * One breaker per provider: after `failureThreshold` failed calls in a row it opens, refuses for `openMs`, then lets
 * single probes through until `successThreshold` of them have succeeded.
 * A call holds a permit, which belongs to the state in which it was given. When the breaker has changed its state
 * since, the end of the call has no effect: it does not describe the provider's current state.
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

/** `neutral`: the call does not count as a success or a failure of the provider. */
export type Verdict = 'succeeded' | 'failed' | 'neutral';

/** The permit of one call, from its first attempt to its last. */
export interface CircuitPermit {
  /** Only the first end counts. */
  end(verdict: Verdict): void;
}

export type Permission =
  | { readonly permit: CircuitPermit }
  /** No call may be made now; `waitMs` is the time in milliseconds until the next try. */
  | { readonly permit: undefined; readonly waitMs: number };

/** How long to wait, in milliseconds, while a probe is running. */
const PROBE_WAIT_MS = 1000;

export class CircuitBreaker {
  readonly policy: CircuitBreakerPolicy;
  readonly #now: () => number;
  readonly #onChange: (state: CircuitState, failures: number) => void;
  #state: CircuitState = 'closed';
  /** Incremented by each change of the state. */
  #generation = 0;
  #failures = 0;
  #successes = 0;
  #openedAt = 0;
  #probe: CircuitPermit | undefined;

  constructor(
    policy: CircuitBreakerPolicy,
    now: () => number,
    onChange: (state: CircuitState, failures: number) => void,
  ) {
    this.policy = policy;
    this.#now = now;
    this.#onChange = onChange;
  }

  get state(): CircuitState {
    return this.#state;
  }

  /** Whether a call would be refused now. Reading it takes no permit. */
  get refuses(): boolean {
    if (this.#state === 'closed') return false;
    return this.#state === 'open' ? this.#openForMs() > 0 : this.#probe !== undefined;
  }

  /** Every permit must be ended: until the permit of a probe is ended, no other call is let through. */
  enter(): Permission {
    if (this.#state === 'open') {
      const waitMs = this.#openForMs();
      if (waitMs > 0) return { permit: undefined, waitMs };
      this.#successes = 0;
      this.#change('half_open');
    }
    if (this.#probe !== undefined) return { permit: undefined, waitMs: PROBE_WAIT_MS };
    const permit = this.#permit();
    if (this.#state === 'half_open') this.#probe = permit;
    return { permit };
  }

  #permit(): CircuitPermit {
    const generation = this.#generation;
    let isOver = false;
    return {
      end: (verdict) => {
        if (isOver) return;
        isOver = true;
        if (generation === this.#generation) this.#ended(verdict);
      },
    };
  }

  /** In half-open state there is one permit at a time, so this is the end of the probe. */
  #ended(verdict: Verdict): void {
    this.#probe = undefined;
    if (verdict === 'failed') this.#failed();
    else if (verdict === 'succeeded') this.#succeeded();
  }

  #succeeded(): void {
    this.#failures = 0;
    if (this.#state !== 'half_open') return;
    this.#successes += 1;
    if (this.#successes >= this.policy.successThreshold) this.#change('closed');
  }

  #failed(): void {
    if (!this.policy.enabled) return;
    this.#failures += 1;
    if (this.#state === 'closed' && this.#failures < this.policy.failureThreshold) return;
    this.#openedAt = this.#now();
    this.#change('open');
  }

  #openForMs(): number {
    return this.#openedAt + this.policy.openMs - this.#now();
  }

  #change(state: CircuitState): void {
    this.#state = state;
    this.#generation += 1;
    this.#onChange(state, this.#failures);
  }
}
