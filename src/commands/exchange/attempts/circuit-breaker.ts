/**
 * One breaker per provider and model: after `failureThreshold` failed calls in a row, or when more than half of at
 * least 20 calls of the last minute failed, it opens, refuses for `openMs`, then lets single probes through until
 * `successThreshold` of them have succeeded.
 * An open breaker refuses only what the failed calls have in common: when all of them were of one caller, or of one
 * body, it lets the calls of others and with other bodies pass. One that succeeds closes it, because the provider is
 * not at fault; one that fails extends it.
 * A call holds a permit, which belongs to the state in which it was given. When the breaker has changed its state
 * since, the end of the call has no effect: it does not describe the provider's current state.
 */
import type { Refusal } from '../../refusal.ts';
import type { Outcome } from '../plan.ts';

export interface CircuitBreakerPolicy {
  readonly enabled: boolean;
  readonly failureThreshold: number;
  readonly successThreshold: number;
  readonly openMs: number;
  /** Whether an answer with this status counts as a failure of the provider. */
  readonly isFailure: (status: number) => boolean;
}

/** Who calls, and with what. */
export interface CalledBy {
  readonly caller: string | undefined;
  /** A digest of the request's body; undefined when it is not known. */
  body(): string | undefined;
}

/** A call that no other can be told from. */
const anyCall: CalledBy = { caller: undefined, body: () => undefined };

export type CircuitState = 'closed' | 'open' | 'half_open';

/** `neutral`: the call does not count as a success or a failure of the provider. */
export type Verdict = 'succeeded' | 'failed' | 'neutral';

/** The permit of one call, from its first attempt to its last. */
export interface CircuitPermit {
  /** Only the first end counts. */
  end(verdict: Verdict): void;
}

type Permission =
  | { readonly permit: CircuitPermit }
  /** No call may be made now; `waitMs` is the time in milliseconds until the next try. */
  | { readonly permit: undefined; readonly waitMs: number };

/** How long to wait, in milliseconds, while a probe is running. */
const PROBE_WAIT_MS = 1000;

const WINDOW_MS = 60_000;
/** A share of fewer calls says nothing. */
const SHARE_OF = 20;
const FAILED_SHARE = 0.5;
/** The calls that a window holds; older ones are left out. */
const MAX_WINDOW = 200;

interface Ended {
  readonly at: number;
  readonly failed: boolean;
  readonly caller: string | undefined;
  readonly body: string | undefined;
}

/**
 * Whether more than half of the calls failed, also when the caller, and the body, with the most failures is left out;
 * a single caller or a single body cannot be left out.
 */
function mostFailed(calls: readonly Ended[]): boolean {
  const failsMostly = (some: readonly Ended[]) =>
    some.length === 0 || some.filter(({ failed }) => failed).length > some.length * FAILED_SHARE;
  return (
    failsMostly(calls) &&
    (['caller', 'body'] as const).every((by) => {
      const worst = mostFrequent(calls.filter(({ failed }) => failed).map((call) => call[by]));
      return failsMostly(calls.filter((call) => call[by] !== undefined && call[by] !== worst));
    })
  );
}

function mostFrequent<Value>(values: readonly Value[]): Value | undefined {
  const counts = new Map<Value, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].reduce<readonly [Value, number] | undefined>(
    (most, one) => (most === undefined || one[1] > most[1] ? one : most),
    undefined,
  )?.[0];
}

/** What failed calls have in common: one caller, one body, or neither. A second value shows that it is not common. */
class InCommon {
  readonly #callers = new Set<string | undefined>();
  readonly #bodies = new Set<string | undefined>();

  add({ caller, body }: Pick<Ended, 'caller' | 'body'>): void {
    if (this.#callers.size < 2) this.#callers.add(caller);
    if (this.#bodies.size < 2) this.#bodies.add(body);
  }

  hasCaller(caller: string | undefined): boolean {
    return this.#callers.size !== 1 || this.#callers.has(caller);
  }

  hasBody(body: () => string | undefined): boolean {
    return this.#bodies.size !== 1 || this.#bodies.has(body());
  }
}

/** Beyond it, the breaker of the model that was called first is dropped; an open one only when all are open. */
const MAX_MODELS = 1000;
const MAX_MODEL_LENGTH = 512;

/** The breakers of one provider, by model. */
export class CircuitBreakers {
  readonly #create: (model: string) => CircuitBreaker;
  readonly #byModel = new Map<string, CircuitBreaker>();

  constructor(create: (model: string) => CircuitBreaker) {
    this.#create = create;
  }

  of(model: string): CircuitBreaker {
    const name = model.slice(0, MAX_MODEL_LENGTH);
    let found = this.#byModel.get(name);
    if (found === undefined) {
      if (this.#byModel.size >= MAX_MODELS) this.#makeRoom();
      found = this.#create(name);
      this.#byModel.set(name, found);
    }
    return found;
  }

  /** Whether a call may be refused now. */
  refuses(model: string, caller: string | undefined): boolean {
    return this.#byModel.get(model.slice(0, MAX_MODEL_LENGTH))?.refuses(caller) ?? false;
  }

  /** The state of the model that is worst off. */
  get state(): CircuitState {
    const states = new Set([...this.#byModel.values()].map(({ state }) => state));
    return states.has('open') ? 'open' : states.has('half_open') ? 'half_open' : 'closed';
  }

  /** The models whose breakers are not closed. */
  get notClosed(): readonly string[] {
    return [...this.#byModel].filter(([, { state }]) => state !== 'closed').map(([model]) => model);
  }

  #makeRoom(): void {
    const first = [...this.#byModel].find(([, { state }]) => state === 'closed') ?? [...this.#byModel][0];
    if (first !== undefined) this.#byModel.delete(first[0]);
  }
}

export class CircuitBreaker {
  readonly policy: CircuitBreakerPolicy;
  readonly #now: () => number;
  readonly #onChange: (state: CircuitState, failures: number) => void;
  #state: CircuitState = 'closed';
  /** Incremented by each change of the state. */
  #generation = 0;
  #failures = 0;
  /** Of the failures in a row, or of those that opened it. */
  #failed = new InCommon();
  #window: Ended[] = [];
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

  /** Whether a call of this caller may be refused now. It takes no permit. */
  refuses(caller?: string): boolean {
    if (this.#state === 'closed' || !this.#failed.hasCaller(caller)) return false;
    return this.#state === 'open' ? this.#openForMs() > 0 : this.#probe !== undefined;
  }

  /** Every permit must be ended: until the permit of a probe is ended, no other call is let through. */
  enter(call: CalledBy = anyCall): Permission {
    if (this.#state !== 'closed' && !(this.#failed.hasCaller(call.caller) && this.#failed.hasBody(call.body))) {
      return { permit: this.#permit(call, true) };
    }
    if (this.#state === 'open') {
      const waitMs = this.#openForMs();
      if (waitMs > 0) return { permit: undefined, waitMs };
      this.#successes = 0;
      this.#change('half_open');
    }
    if (this.#probe !== undefined) return { permit: undefined, waitMs: PROBE_WAIT_MS };
    const permit = this.#permit(call, false);
    if (this.#state === 'half_open') this.#probe = permit;
    return { permit };
  }

  /** @param isOther whether the call has nothing in common with the failed ones of an open breaker */
  #permit(call: CalledBy, isOther: boolean): CircuitPermit {
    const generation = this.#generation;
    let isOver = false;
    return {
      end: (verdict) => {
        if (isOver) return;
        isOver = true;
        if (generation !== this.#generation) return;
        if (verdict !== 'neutral') this.#note(verdict === 'failed', call);
        if (isOther) {
          this.#endedOther(verdict, call);
          return;
        }
        // In half-open state there is one permit at a time, so this is the end of the probe.
        this.#probe = undefined;
        if (verdict === 'failed') this.#countFailure(call);
        else if (verdict === 'succeeded' && (this.#failures > 0 || this.#state === 'half_open')) this.#countSuccess();
      },
    };
  }

  #endedOther(verdict: Verdict, { caller, body }: CalledBy): void {
    if (verdict === 'failed') this.#failed.add({ caller, body: body() });
    else if (verdict === 'succeeded') this.#close();
  }

  #note(failed: boolean, { caller, body }: CalledBy): void {
    const at = this.#now();
    while ((this.#window[0]?.at ?? at) <= at - WINDOW_MS || this.#window.length >= MAX_WINDOW) this.#window.shift();
    // Digests are computed while something fails.
    const isKnown = failed || this.#window.some((call) => call.failed);
    this.#window.push({ at, failed, caller, body: isKnown ? body() : undefined });
  }

  #countSuccess(): void {
    if (this.#state === 'half_open') {
      this.#successes += 1;
      this.#failures = 0;
      if (this.#successes >= this.policy.successThreshold) this.#close();
    } else {
      this.#failures = 0;
      this.#failed = new InCommon();
    }
  }

  #close(): void {
    this.#failures = 0;
    this.#failed = new InCommon();
    this.#window = [];
    this.#change('closed');
  }

  #countFailure({ caller, body }: CalledBy): void {
    if (!this.policy.enabled) return;
    this.#failures += 1;
    this.#failed.add({ caller, body: body() });
    if (this.#state === 'closed' && this.#failures < this.policy.failureThreshold) {
      const enough = this.#window.length >= Math.max(SHARE_OF, this.policy.failureThreshold);
      if (!enough || !mostFailed(this.#window)) return;
      this.#failed = new InCommon();
      for (const call of this.#window) if (call.failed) this.#failed.add(call);
    }
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

// How the end of a call counts for the circuit breaker of its provider. Pure, and the only place that decides it.

/** The provider limits a caller (429: see `PausedCredentials`), or does not have the operation (501). */
const NEUTRAL_STATUSES = new Set([429, 501]);

/**
 * `failed`: the provider gave no answer, a malformed one, or one whose status the policy names. A status below 500
 * that the policy does not name is `succeeded`: the provider works, and the request was at fault.
 */
export function verdictOf(outcome: Outcome, { isFailure }: Pick<CircuitBreakerPolicy, 'isFailure'>): Verdict {
  switch (outcome.kind) {
    case 'whole':
    case 'streamed':
    case 'blocked':
      return 'succeeded';
    case 'abandoned':
      return 'neutral';
    case 'broken':
      return ofBrokenStream(outcome.refusal);
    case 'refused': {
      const { status, failure, isMalformed, reason } = outcome;
      if (reason !== undefined || failure === 'aborted') return 'neutral';
      if (status !== undefined && NEUTRAL_STATUSES.has(status)) return 'neutral';
      // The length of an answer depends on the request, not on the provider's health.
      if (failure === 'too_large') return 'neutral';
      return isMalformed || status === undefined || isFailure(status) ? 'failed' : 'succeeded';
    }
  }
}

/** A stream may also report after its start that the request was at fault, or that a limit was reached. */
function ofBrokenStream({ status, code }: Refusal): Verdict {
  if (NEUTRAL_STATUSES.has(status) || code === 'answer_too_large' || code === 'answer_too_long') return 'neutral';
  return status < 500 ? 'succeeded' : 'failed';
}
