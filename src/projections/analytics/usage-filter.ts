/** The filter of usage reports, as SQL conditions on the table `usage` under the name `u`. */
import type { UserPath } from '../../events/event.ts';
import { allOf, between, type Conditions, equal, inSubtree, ofSessions, searchFunction } from './conditions.ts';

/** Whether usage answered from a cache of the gateway is counted. */
export const cacheModes = ['uncached', 'cached', 'all'] as const;
export type CacheMode = (typeof cacheModes)[number];

export interface UsageFilter {
  /** Milliseconds since the epoch; `until` is exclusive. */
  readonly from: number;
  readonly until: number;
  readonly subtree?: UserPath | undefined;
  readonly keyId?: string | undefined;
  readonly model?: string | undefined;
  /** Name or type of the provider. */
  readonly provider?: string | undefined;
  readonly label?: string | undefined;
  readonly sessionId?: string | undefined;
  /** A part of the model, the provider, the request's id or the session's, in upper or lower case. */
  readonly search?: string | undefined;
}

export interface Question {
  readonly sql: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

export interface PageOf {
  readonly limit: number;
  readonly offset: number;
}

/** SQL for the rows of the figures. */
export const counted: Readonly<Record<CacheMode, string>> = {
  uncached: "u.cache_type = ''",
  cached: "u.cache_type != ''",
  all: 'true',
};

/** The rows of a filter, from FROM on. */
export function ofRows(filter: UsageFilter): Question {
  const { sql, parameters } = usageConditions(filter, 'u.at');
  return { sql: `FROM $db.usage AS u WHERE ${sql}`, parameters };
}

/** @param time the expression that is compared with the range */
export function usageConditions(filter: UsageFilter, time: string): Conditions {
  const { label, provider, search } = filter;
  return allOf([
    between(time, filter.from, filter.until),
    inSubtree('u.user_path', filter.subtree),
    equal('u.auth_key_id', 'key_id', filter.keyId),
    equal('u.model', 'model', filter.model),
    provider === undefined
      ? undefined
      : ['u.provider = {provider: String} OR u.provider_type = {provider: String}', { provider }],
    label === undefined ? undefined : ['has(u.labels, {label: String})', { label }],
    ofSessions('u.', filter.sessionId === undefined ? undefined : [filter.sessionId]),
    search === undefined
      ? undefined
      : [
          ['model', 'provider', 'provider_type', 'request_id', 'provider_id', 'session_id']
            .map((column) => `${searchFunction(search)}(u.${column}, {search: String}) > 0`)
            .join(' OR '),
          { search },
        ],
  ]);
}
