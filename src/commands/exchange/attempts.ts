/** Asks a provider until there is an answer or no hope of one. Every attempt is told in events. */
import { attemptFailed, attemptStarted } from '../../events/catalogue/exchange.ts';
import type { FailureKind } from '../../providers/provider.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { type AttemptEnd, type AttemptOptions, type FailedAttempt, nothingYet } from './attempt.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import { attemptOnce } from './one-attempt.ts';
import type { Plan, Relay } from './relay.ts';
import { type RetryPolicy, retryDelay } from './retry-policy.ts';

export interface AttemptsOptions extends AttemptOptions {
  readonly plan: Plan;
  /** Calls made already, of an exchange that is taken up again or asked another target before. */
  readonly attemptsBefore: number;
  readonly kind: 'primary' | 'failover';
  readonly retry: RetryPolicy;
  /** Whether somebody else is asked after this failure: then it is not tried again here. Nobody is, when left out. */
  readonly movesOn?: ((refused: Refused) => boolean) | undefined;
  readonly breaker: CircuitBreaker;
  /** Told of what an attempt has spent that failed. */
  spent(relay: Relay, attempt: number): void;
  /** `durable` when the provider may be called only after the request is on disk. */
  readonly recordBeforeCall: 'written' | 'durable';
  readonly random: () => number;
  /** Resolves after the wait, or at once when the signal is aborted. */
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>;
}

export interface Refused {
  readonly kind: 'refused';
  readonly refusal: Refusal;
  readonly attempts: number;
  readonly reason?: 'upload_failed';
  /** The provider's last one; undefined when it gave none. */
  readonly status?: number | undefined;
  /** How it failed to give one; undefined also when it was not asked at all, its circuit breaker being open. */
  readonly failure?: FailureKind | undefined;
  /** The request cannot be made again: its body came in pieces, and is gone. */
  readonly spent?: boolean;
}

export type Outcome = AttemptEnd | Refused;

/** @throws LogUnavailable */
export async function attempts(options: AttemptsOptions): Promise<Outcome> {
  try {
    return await attemptUntilAnswered(options);
  } catch (error) {
    // What failed was not the provider. A probe that ends without a word would keep the breaker shut for ever.
    options.breaker.abandoned();
    throw error;
  }
}

async function attemptUntilAnswered(options: AttemptsOptions): Promise<Outcome> {
  const { record, target, client, breaker } = options;
  const { provider } = target;
  let plan = options.plan;
  let kind: 'primary' | 'failover' | 'retry' | 'translation' = options.kind;
  let tries = 0;
  const openForMs = breaker.refusal();
  if (openForMs !== undefined) {
    const refusal = refusals.circuitOpen(provider.name, Math.ceil(openForMs / 1000));
    return { kind: 'refused', refusal, attempts: options.attemptsBefore };
  }
  for (let attempt = options.attemptsBefore + 1; ; attempt++) {
    tries += 1;
    record.note(
      attemptStarted.create(
        {
          attempt,
          kind,
          provider: provider.name,
          providerType: provider.type,
          model: target.model || undefined,
          dialect: plan.dialect,
        },
        record.context,
      ),
    );
    await record.flush(options.recordBeforeCall);
    const outcome = await attemptOnce(options, plan, attempt);
    if (outcome.kind === 'upload_failed') {
      breaker.abandoned();
      return { kind: 'refused', refusal: outcome.refusal, attempts: attempt, reason: 'upload_failed' };
    }
    if (outcome.kind !== 'failed') {
      if (outcome.kind === 'abandoned') breaker.abandoned();
      else if (outcome.kind === 'broken') breaker.failed();
      else breaker.succeeded();
      return outcome;
    }

    const { refusal, status, failure, body } = outcome;
    const other = status === undefined ? undefined : await plan.instead?.(status, refusal.code);
    const stopped = client.ended.aborted || failure?.kind === 'aborted';
    const refused: Refused = {
      kind: 'refused',
      refusal,
      attempts: attempt,
      status,
      failure: failure?.kind,
      spent: 'repeatable' in plan && !plan.repeatable,
    };
    const movesOn = other !== undefined || stopped || (!refused.spent && options.movesOn?.(refused) === true);
    const retryInMs = movesOn ? undefined : delayAfter(outcome, plan, tries, options);
    record.note(
      attemptFailed.create(
        { attempt, status, code: refusal.code, message: refusal.message, retryInMs, durationMs: record.elapsed() },
        record.context,
        options.keepBodies ? body : undefined,
      ),
    );
    if (outcome.spent !== undefined) options.spent(outcome.spent, attempt);
    if (stopped) {
      breaker.abandoned();
      const unasked = failure?.kind !== 'aborted';
      return { kind: 'abandoned', rest: [], attempt, plan, relay: plan.relay(), received: nothingYet(), unasked };
    }
    if (other !== undefined) {
      breaker.succeeded();
      plan = other;
      kind = 'translation';
      tries = 0;
      continue;
    }
    if (retryInMs === undefined) {
      if (outcome.senseless) breaker.failed();
      else breaker.ended(status);
      return refused;
    }
    await options.wait(retryInMs, client.ended);
    if (client.ended.aborted) {
      breaker.abandoned();
      return { kind: 'abandoned', rest: [], attempt, plan, relay: plan.relay(), received: nothingYet(), unasked: true };
    }
    kind = 'retry';
  }
}

/** The wait before the same is asked again; undefined when it is not. */
function delayAfter(failed: FailedAttempt, plan: Plan, tries: number, options: AttemptsOptions): number | undefined {
  if (failed.senseless || ('repeatable' in plan && !plan.repeatable)) return undefined;
  const { status, failure, retryAfterMs } = failed;
  const attempt = { attempt: tries, status, transport: failure?.kind, retryAfterMs };
  return retryDelay(attempt, options.retry, options.random);
}
