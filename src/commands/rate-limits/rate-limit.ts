/** What may happen to the rate limits of one subject: stream `rate-limit-<scope>:<subject>`. */
import { rateLimitRemoved, rateLimitReset, rateLimitSet } from '../../events/catalogue/rate-limit.ts';
import type { EventContext, NewEvent, StreamName } from '../../events/event.ts';
import { streamName } from '../../events/event.ts';
import type { Decider } from '../handle-command.ts';
import { rateLimitPeriodLabel } from '../period.ts';
import { refusals } from '../refusal.ts';

export interface RateLimitSubject {
  readonly scope: 'user_path' | 'provider' | 'model';
  readonly subject: string;
}

/** Null: not limited. At least one of the two is. */
export interface RateLimits {
  readonly maxRequests: number | null;
  readonly maxTokens: number | null;
}

/** The limits of a subject, by the seconds of their period; 0 for what is under way at the same time. */
export type SubjectRateLimits = ReadonlyMap<number, RateLimits & { readonly source: 'manual' | 'config' }>;

/** A limit as the configuration declares it. */
export type DeclaredRateLimit = RateLimits & { readonly periodSeconds: number };

export type RateLimitCommand = { readonly of: RateLimitSubject; readonly context: EventContext } & (
  | ({ readonly do: 'set'; readonly periodSeconds: number } & RateLimits)
  | { readonly do: 'remove'; readonly periodSeconds: number }
  | { readonly do: 'reset'; readonly periodSeconds: number }
  /** All that the configuration declares for the subject: nothing else is declared any more. */
  | { readonly do: 'declare'; readonly limits: readonly DeclaredRateLimit[] }
);

export function rateLimitStream({ scope, subject }: RateLimitSubject): StreamName {
  return streamName('rate-limit', `${scope}:${subject}`);
}

export const rateLimitDecider: Decider<SubjectRateLimits, RateLimitCommand> = {
  initial: new Map(),
  decide(command, state) {
    const { of, context } = command;
    if (command.do === 'declare') return declare(of, command.limits, state, context);
    const { periodSeconds } = command;
    const existing = state.get(periodSeconds);
    const name = `${of.subject} ${rateLimitPeriodLabel(periodSeconds)}`;
    if (command.do === 'reset') {
      if (existing === undefined) return refusals.notFound('rate limit', name, 'rate_limit_not_found');
      return [rateLimitReset.create({ ...of, periodSeconds }, context)];
    }
    if (existing?.source === 'config') return refusals.rateLimitManaged(name);
    if (command.do === 'remove') {
      if (existing === undefined) return refusals.notFound('rate limit', name, 'rate_limit_not_found');
      return [rateLimitRemoved.create({ ...of, periodSeconds }, context)];
    }
    const { maxRequests, maxTokens } = command;
    if (existing !== undefined && isSame(existing, command)) return [];
    return [rateLimitSet.create({ ...of, periodSeconds, maxRequests, maxTokens, source: 'manual' }, context)];
  },
  evolve(state, event) {
    const next = new Map(state);
    if (event.type === rateLimitSet.type) {
      const { periodSeconds, maxRequests, maxTokens, source } = rateLimitSet.data.parse(event.data);
      next.set(periodSeconds, { maxRequests, maxTokens, source });
    } else if (event.type === rateLimitRemoved.type) {
      next.delete(rateLimitRemoved.data.parse(event.data).periodSeconds);
    }
    return next;
  },
};

function isSame(one: RateLimits, other: RateLimits): boolean {
  return one.maxRequests === other.maxRequests && one.maxTokens === other.maxTokens;
}

function declare(
  of: RateLimitSubject,
  declared: readonly DeclaredRateLimit[],
  state: SubjectRateLimits,
  context: EventContext,
): NewEvent[] {
  const wanted = new Map(declared.map(({ periodSeconds, ...limits }) => [periodSeconds, limits]));
  const gone = [...state].filter(([seconds, { source }]) => source === 'config' && !wanted.has(seconds));
  const changed = [...wanted].filter(([seconds, limits]) => {
    const existing = state.get(seconds);
    return existing?.source !== 'config' || !isSame(existing, limits);
  });
  return [
    ...gone.map(([periodSeconds]) => rateLimitRemoved.create({ ...of, periodSeconds }, context)),
    ...changed.map(([periodSeconds, limits]) =>
      rateLimitSet.create({ ...of, periodSeconds, ...limits, source: 'config' }, context),
    ),
  ];
}
