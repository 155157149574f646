/** The request to one target, whose answer guardrails evaluate. */
import type { ModelRequest } from '../../model-request/model-request.ts';
import type { ParsedRequest } from '../../model-request/parsed-request.ts';
import type { Target } from '../../model-request/target.ts';
import type { Refusal } from '../../refusal.ts';
import type { PastAttempt } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { Plan } from '../plan.ts';
import type { Relay } from '../relay.ts';
import { GuardedRelay, type GuardedRelayParts } from './guarded-relay.ts';

/** The plan with guarded relays, also where another plan replaces it. */
export function planWithGuard(plan: Plan<Relay>, parts: Omit<GuardedRelayParts, 'unguarded' | 'attempt'>): Plan {
  const guarded = {
    isGuarded: true as const,
    relay: (attempt: number) => new GuardedRelay({ ...parts, attempt, unguarded: plan.relay(attempt) }),
    instead: (refusal: Refusal) => plan.instead?.(refusal)?.then((other) => planWithGuard(other, parts)),
  };
  // A forwarded JSON answer is evaluated before any of it is sent.
  return plan.kind === 'forward' ? { ...plan, ...guarded, readsWhole: true } : { ...plan, ...guarded };
}

/** The facts of the attempt that the client's answer states. */
export function pastAttempt({
  parsedRequest,
  request,
  target: { provider, model },
  record,
  historyReplayed,
}: {
  readonly parsedRequest: ParsedRequest;
  readonly request: Pick<ModelRequest, 'headers'>;
  readonly target: Target;
  readonly record: Pick<ExchangeRecord, 'id' | 'createdAt'>;
  readonly historyReplayed: boolean;
}): PastAttempt {
  const { id: exchangeId, createdAt } = record;
  return {
    ...{
      parsedRequest,
      clientHeaders: request.headers,
      exchangeId,
      createdAt,
      provider,
      providerType: provider.type,
      model,
    },
    ...{ dialect: 'chat', historyReplayed, now: () => Math.floor(Date.now() / 1000) },
  };
}
