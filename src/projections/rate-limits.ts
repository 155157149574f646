/** The rate limit rules. The counts of their windows are kept by the counting component. */
import { z } from 'zod';
import { rateLimitRemoved, rateLimitReset, rateLimitSet } from '../events/catalogue/budget.ts';
import { isA } from './known-event.ts';
import type { Projection } from './projection.ts';

const savedRule = z.object({
  scope: z.enum(['user_path', 'provider', 'model']),
  subject: z.string(),
  /** 0 limits concurrent requests. */
  periodSeconds: z.number(),
  /** Null: not limited. */
  maxRequests: z.number().nullable(),
  maxTokens: z.number().nullable(),
  source: z.enum(['manual', 'config']),
  /** Milliseconds since the epoch, like all times here. */
  createdAt: z.number(),
  updatedAt: z.number(),
  lastResetAt: z.number().optional(),
});

export type RateLimitRule = Readonly<z.infer<typeof savedRule>>;
export type RateLimitScope = RateLimitRule['scope'];

export interface RateLimitsState {
  readonly rules: Map<string, RateLimitRule>;
  /** The newest revision of each stream that these came from, by its scope and subject. */
  readonly revisions: Map<string, string>;
  /** Counts the changes, so that a caller can detect whether the rules changed since its last read. */
  changes: number;
}

/** The key of a rule in `rules`: `user_path:/team 60`. */
export function rateLimitKey(scope: RateLimitScope, subject: string, periodSeconds: number): string {
  return `${scope}:${subject} ${periodSeconds}`;
}

const savedRateLimits = z.object({
  rules: z.array(savedRule),
  revisions: z.array(z.tuple([z.string(), z.string()])),
});

export const rateLimitsView: Projection<RateLimitsState> = {
  name: 'rate-limits',
  version: 1,
  filter: { types: ['rate_limit.'] },
  initial: () => ({ rules: new Map(), revisions: new Map(), changes: 0 }),
  apply(state, event) {
    if (!isA(event, rateLimitSet) && !isA(event, rateLimitRemoved) && !isA(event, rateLimitReset)) return state;
    const { scope, subject, periodSeconds } = event.data;
    const key = rateLimitKey(scope, subject, periodSeconds);
    const rule = state.rules.get(key);
    if (isA(event, rateLimitSet)) {
      const { createdAt = event.at, lastResetAt } = rule ?? {};
      state.rules.set(key, { ...event.data, createdAt, updatedAt: event.at, lastResetAt });
    } else if (isA(event, rateLimitRemoved)) {
      state.rules.delete(key);
    } else if (rule !== undefined) {
      state.rules.set(key, { ...rule, lastResetAt: event.at });
    }
    state.revisions.set(`${scope}:${subject}`, String(event.revision));
    state.changes += 1;
    return state;
  },
  save: ({ rules, revisions }) => ({ rules: [...rules.values()], revisions: [...revisions] }),
  load(saved) {
    const { rules, revisions } = savedRateLimits.parse(saved);
    return {
      rules: new Map(rules.map((rule) => [rateLimitKey(rule.scope, rule.subject, rule.periodSeconds), rule])),
      revisions: new Map(revisions),
      changes: 0,
    };
  },
};

/** The newest revision of the stream that holds the rules of a subject; undefined when there never was one. */
export function rateLimitRevision(state: RateLimitsState, scope: RateLimitScope, subject: string): string | undefined {
  return state.revisions.get(`${scope}:${subject}`);
}
