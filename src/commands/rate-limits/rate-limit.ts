/** Commands and events of the rate limits of one subject: stream `rate-limit-<scope>:<subject>`. */
import { rateLimitRemoved, rateLimitReset, rateLimitSet } from '../../events/catalogue/budget.ts';
import { type EventContext, type NewEvent, type StreamName, streamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { type Authority, bindingValue, type ValuesByAdministrator, withValue } from '../access/authority.ts';
import { type Decider, resetLimits } from '../handle-command.ts';
import { rateLimitPeriodLabel } from '../period.ts';
import { type Refusal, refusals } from '../refusal.ts';

export interface RateLimitSubject {
  readonly scope: 'user_path' | 'provider' | 'model';
  readonly subject: string;
}

/** Null when not limited. At least one of the two is set. */
export interface RateLimits {
  readonly maxRequests: number | null;
  readonly maxTokens: number | null;
}

/** The limits of a subject for one period. */
interface PeriodLimits {
  /** Undefined when there are none. */
  readonly current: (RateLimits & { readonly source: 'manual' | 'config' }) | undefined;
  /** The limits that administrators set. */
  readonly words: ValuesByAdministrator<RateLimits>;
}

/** The limits of a subject by the seconds of their period, 0 for concurrent requests; including removed ones. */
export type SubjectRateLimits = ReadonlyMap<number, PeriodLimits>;

/** A limit as the configuration declares it. */
export type DeclaredRateLimit = RateLimits & { readonly periodSeconds: number };

export type RateLimitCommand = { readonly of: RateLimitSubject; readonly context: EventContext } & (
  | ({ readonly do: 'set'; readonly periodSeconds: number; readonly authority: Authority } & RateLimits)
  | { readonly do: 'remove'; readonly periodSeconds: number; readonly authority: Authority }
  | { readonly do: 'reset'; readonly periodSeconds: number; readonly authority: Authority }
  /** All limits that the configuration declares for the subject; those declared before are removed. */
  | { readonly do: 'declare'; readonly limits: readonly DeclaredRateLimit[] }
);

const none: PeriodLimits = { current: undefined, words: [] };

export function rateLimitStream({ scope, subject }: RateLimitSubject): StreamName {
  return streamName('rate-limit', `${scope}:${subject}`);
}

/** Empties the window of each rate limit. */
export function resetAllRateLimits(
  limits: Iterable<RateLimitSubject & { readonly periodSeconds: number }>,
  context: EventContext,
  log: EventLog,
) {
  return resetLimits(limits, rateLimitStream, (limit) => rateLimitReset.create(limit, context), log);
}

export const rateLimitDecider: Decider<SubjectRateLimits, RateLimitCommand> = {
  initial: new Map(),
  dependsOn: 'its stream',
  decide(command, state) {
    const { of, context } = command;
    if (command.do === 'declare') return declare(of, command.limits, state, context);
    const { periodSeconds, authority } = command;
    const { current: existing, words } = state.get(periodSeconds) ?? none;
    const name = `${of.subject} ${rateLimitPeriodLabel(periodSeconds)}`;
    const bound = bindingValue(words, authority);
    if (command.do === 'reset') {
      if (existing === undefined) return refusals.notFound('rate limit', name, 'rate_limit_not_found');
      if (bound !== undefined) return tooLoose(name, bound);
      return [rateLimitReset.create({ ...of, periodSeconds }, context)];
    }
    if (existing?.source === 'config') return refusals.rateLimitManaged(name);
    if (command.do === 'remove') {
      if (existing === undefined) return refusals.notFound('rate limit', name, 'rate_limit_not_found');
      if (bound !== undefined) return tooLoose(name, bound);
      return [rateLimitRemoved.create({ ...of, periodSeconds }, context)];
    }
    const { maxRequests, maxTokens } = command;
    if (existing !== undefined && isSame(existing, command)) return [];
    if (bound !== undefined && !isWithin(bound, command)) return tooLoose(name, bound);
    return [rateLimitSet.create({ ...of, periodSeconds, maxRequests, maxTokens, source: 'manual' }, context)];
  },
  evolve(state, event) {
    const next = new Map(state);
    const wordsOf = (periodSeconds: number, limits: RateLimits | undefined) =>
      withValue(state.get(periodSeconds)?.words, event.context.actor, limits);
    if (event.type === rateLimitSet.type) {
      const { periodSeconds, maxRequests, maxTokens, source } = rateLimitSet.data.parse(event.data);
      const words = wordsOf(periodSeconds, { maxRequests, maxTokens });
      next.set(periodSeconds, { current: { maxRequests, maxTokens, source }, words });
    } else if (event.type === rateLimitRemoved.type) {
      const { periodSeconds } = rateLimitRemoved.data.parse(event.data);
      next.set(periodSeconds, { current: undefined, words: wordsOf(periodSeconds, undefined) });
    }
    return next;
  },
};

/** Whether the requested limits admit no more than the bound. */
function isWithin(bound: RateLimits, requested: RateLimits): boolean {
  const within = (most: number | null, value: number | null) => most === null || (value !== null && value <= most);
  return within(bound.maxRequests, requested.maxRequests) && within(bound.maxTokens, requested.maxTokens);
}

function tooLoose(name: string, { maxRequests, maxTokens }: RateLimits): Refusal {
  const limits = [
    ...(maxRequests === null ? [] : [`${maxRequests} requests`]),
    ...(maxTokens === null ? [] : [`${maxTokens} tokens`]),
  ];
  return refusals.setByHigherAdministrator(`The rate limit ${name}`, limits.join(' and '));
}

function isSame(one: RateLimits, other: RateLimits): boolean {
  return one.maxRequests === other.maxRequests && one.maxTokens === other.maxTokens;
}

function declare(
  of: RateLimitSubject,
  declared: readonly DeclaredRateLimit[],
  state: SubjectRateLimits,
  context: EventContext,
): NewEvent[] {
  const declaredLimits = new Map(declared.map(({ periodSeconds, ...limits }) => [periodSeconds, limits]));
  const gone = [...state].filter(
    ([seconds, { current }]) => current?.source === 'config' && !declaredLimits.has(seconds),
  );
  const changed = [...declaredLimits].filter(([seconds, limits]) => {
    const existing = state.get(seconds)?.current;
    return existing?.source !== 'config' || !isSame(existing, limits);
  });
  return [
    ...gone.map(([periodSeconds]) => rateLimitRemoved.create({ ...of, periodSeconds }, context)),
    ...changed.map(([periodSeconds, limits]) =>
      rateLimitSet.create({ ...of, periodSeconds, ...limits, source: 'config' }, context),
    ),
  ];
}
