/** The rules of budgets and of rate limits. What they count is kept in `spend.ts` and by the component that counts. */
import type { z } from 'zod';
import { rateLimitRemoved, rateLimitReset, rateLimitSet } from '../events/catalogue/budget.ts';
import type { EventDefinition } from '../events/catalogue/define.ts';
import { isA, type Projection, savedAsItIs } from './projection.ts';

/** A user path, a label, a provider or a model. */
export interface LimitSubject<Scope extends string = string> {
  readonly scope: Scope;
  readonly subject: string;
}

/** One subject may have a rule for each period. */
export interface LimitName<Scope extends string = string> extends LimitSubject<Scope> {
  readonly periodSeconds: number;
}

interface LimitData extends LimitName {
  readonly source: 'manual' | 'config';
}

/** Milliseconds since the epoch. */
export interface LimitTimes {
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly lastResetAt?: number | undefined;
}

export interface LimitRules<Rule> {
  /** By `limitKey`. */
  readonly rules: Map<string, Rule & LimitTimes>;
  /** The newest revision of each stream that these came from, by its `subjectKey`. */
  readonly revisions: Map<string, string>;
  /** Counts the changes, so that a caller can detect whether the rules changed since its last read. */
  changes: number;
}

/** The events of one kind of limit. */
export interface LimitEvents<Data, Name> {
  readonly set: EventDefinition<string, z.ZodObject & z.ZodType<Data>>;
  readonly removed: EventDefinition<string, z.ZodObject & z.ZodType<Name>>;
  readonly reset: EventDefinition<string, z.ZodObject & z.ZodType<Name>>;
}

/** All limits of one subject are counted together, and are on one stream. */
export function subjectKey(scope: string, subject: string): string {
  return `${scope}:${subject}`;
}

/** `user_path:/team 86400`. */
export function limitKey({ scope, subject, periodSeconds }: LimitName): string {
  return `${subjectKey(scope, subject)} ${periodSeconds}`;
}

/** @param ruleOf the rule that an event sets */
export function limitsView<Data extends LimitData, Name extends LimitName, Rule extends LimitData>(
  name: string,
  { set, removed, reset }: LimitEvents<Data, Name>,
  ruleOf: (data: Data) => Rule,
): Required<Projection<LimitRules<Rule>>> {
  return {
    name,
    version: 1,
    filter: { types: [set.type, removed.type, reset.type] },
    initial: () => ({ rules: new Map(), revisions: new Map(), changes: 0 }),
    apply(state, event) {
      if (!isA(event, set) && !isA(event, removed) && !isA(event, reset)) return state;
      const { at } = event;
      const key = limitKey(event.data);
      const rule = state.rules.get(key);
      if (isA(event, set)) {
        const { createdAt = at, lastResetAt } = rule ?? {};
        state.rules.set(key, { ...ruleOf(event.data), createdAt, updatedAt: at, lastResetAt });
      } else if (isA(event, removed)) {
        state.rules.delete(key);
      } else if (rule !== undefined) {
        state.rules.set(key, { ...rule, lastResetAt: at });
      }
      state.revisions.set(subjectKey(event.data.scope, event.data.subject), String(event.revision));
      state.changes += 1;
      return state;
    },
    ...savedAsItIs<LimitRules<Rule>>(),
  };
}

export type RateLimitRule = z.infer<typeof rateLimitSet.data>;

export const rateLimitsView = limitsView(
  'rate-limits',
  { set: rateLimitSet, removed: rateLimitRemoved, reset: rateLimitReset },
  (data): RateLimitRule => data,
);
