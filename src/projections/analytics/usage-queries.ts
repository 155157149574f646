/** SQL queries of the usage reports. Costs are nano-dollars, and every 64-bit number comes as text. */

import type { UserPath } from '../../events/event.ts';
import {
  allOf,
  between,
  type Conditions,
  equal,
  inSubtree,
  isAtQuarterHour,
  ofSessions,
  searchFunction,
} from './conditions.ts';

/** Queries of the usage log: recorded usage, row by row, and its later corrections. */
const texts = [
  ...(['exchange_id', 'request_id', 'user_path', 'session_id', 'provider', 'provider_type', 'model'] as const),
  ...(['endpoint', 'cache_type', 'source', 'input_tokens', 'output_tokens', 'total_tokens'] as const),
  ...(['cached_input_tokens', 'cache_write_input_tokens', 'reasoning_tokens', 'input_cost', 'output_cost'] as const),
  ...(['total_cost', 'saved_cost', 'price_source', 'caveat', 'raw', 'provider_id'] as const),
  ...(['estimated_input_tokens', 'estimated_output_tokens'] as const),
];
const counts = ['input_priced', 'output_priced', 'priced', 'saved_priced', 'estimated'] as const;
const rowColumns = [...texts, ...counts, 'labels'];

/** 64-bit numbers are text. `raw` is JSON, or empty. */
export type UsageRow = Readonly<Record<(typeof texts)[number] | 'usage_id', string>> &
  Readonly<Record<(typeof counts)[number], number>> & {
    /** Microseconds since the epoch. */
    readonly at_micros: string;
    readonly labels: readonly string[];
  };

/** Recorded usage, newest first, without later corrections. */
export function usageRows(filter: UsageFilter, mode: CacheMode, { limit, offset }: PageOf): Question {
  const { sql, parameters } = ofRows(filter);
  return {
    sql: `SELECT toString(u.usage_id) AS usage_id, toUnixTimestamp64Micro(u.at) AS at_micros,
      ${rowColumns.map((column) => `u.${column} AS ${column}`).join(', ')}
      ${sql} AND u.kind = 'recorded' AND ${counted[mode]}
      ORDER BY u.at DESC, u.position DESC LIMIT {limit: UInt32} OFFSET {offset: UInt32}`,
    parameters: { ...parameters, limit, offset },
  };
}

/** One row: `total`. */
export function countUsageRows(filter: UsageFilter, mode: CacheMode): Question {
  const { sql, parameters } = ofRows(filter);
  return { sql: `SELECT count() AS total ${sql} AND u.kind = 'recorded' AND ${counted[mode]}`, parameters };
}

/** Differences to the recorded values; `price_source` and `caveat` are those of the newest correction. */
export type CorrectionRow = Readonly<Record<CorrectedColumn, string>>;
type CorrectedColumn = 'usage_id' | keyof Costs | 'price_source' | 'caveat';
type Costs = Pick<Sums, 'input_cost' | 'output_cost' | 'total_cost' | 'input_priced' | 'output_priced' | 'priced'>;

/** Later corrections of these rows. They have the time of the usage that they correct. */
export function usageCorrections(rows: readonly UsageRow[]): Question {
  const times = rows.map(({ at_micros }) => Number(at_micros));
  return {
    sql: `SELECT toString(u.usage_id) AS usage_id, sum(u.input_cost) AS input_cost, sum(u.output_cost) AS output_cost,
      sum(u.total_cost) AS total_cost, sum(u.input_priced) AS input_priced, sum(u.output_priced) AS output_priced,
      sum(u.priced) AS priced, argMax(u.price_source, u.position) AS price_source, argMax(u.caveat, u.position) AS caveat
      FROM $db.usage AS u
      WHERE u.at >= fromUnixTimestamp64Micro({first: Int64}) AND u.at <= fromUnixTimestamp64Micro({last: Int64})
        AND u.kind = 'corrected' AND u.usage_id IN {ids: Array(UUID)}
      GROUP BY usage_id`,
    parameters: { first: Math.min(...times), last: Math.max(...times), ids: rows.map(({ usage_id }) => usage_id) },
  };
}

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
function usageConditions(filter: UsageFilter, time: string): Conditions {
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

const summed = [
  ...(['requests', 'input_tokens', 'output_tokens', 'total_tokens', 'cached_input_tokens'] as const),
  ...(['cache_write_input_tokens', 'input_cost', 'output_cost', 'total_cost'] as const),
  ...(['input_priced', 'output_priced', 'priced'] as const),
];
const saved = ['saved_cost', 'saved_priced'] as const;

/**
 * Sums. Costs are those of providers' answers: answers from a cache cost nothing. `…priced` is the number of requests
 * with a known cost.
 */
export type Sums = Readonly<Record<(typeof sumColumns)[number], string>>;
export const sumColumns = [
  ...summed,
  // Of answers from the cache, in every mode.
  ...(['local_cached_input_tokens', 'local_cached_output_tokens', 'cache_hits', 'saved_cost', 'saved_priced'] as const),
  'unpriced_requests' as const,
];
const isCost = (column: string) => column.endsWith('_cost') || column.endsWith('priced');

/** Columns of the answer, computed from the sums by kind of cache. */
function sums(mode: CacheMode): string {
  const cached = ['input', 'output'].map((kind) => `sumIf(u.${kind}_tokens, ${counted.cached})`);
  return [
    ...summed.map((column) => {
      return `${isCost(column) ? costSum(column, mode) : `sumIf(u.${column}, ${counted[mode]})`} AS ${column}`;
    }),
    `${cached[0]} AS local_cached_input_tokens`,
    `${cached[1]} AS local_cached_output_tokens`,
    `sumIf(u.requests, ${counted.cached}) AS cache_hits`,
    ...saved.map((column) => `sumIf(u.${column}, ${counted.cached}) AS ${column}`),
    `sumIf(u.requests, ${counted.uncached}) - sumIf(u.priced, ${counted.uncached}) AS unpriced_requests`,
  ].join(', ');
}

/** Answers from the cache cost nothing, which is known: sums of them alone are 0. Of both kinds, those of providers count. */
function costSum(column: string, mode: CacheMode): string {
  const isCount = column.endsWith('priced');
  const ofProviders = `sumIf(u.${column}, ${counted.uncached})`;
  const hits = `sumIf(u.requests, ${counted.cached})`;
  if (mode === 'uncached') return ofProviders;
  if (mode === 'cached') return isCount ? hits : '0';
  return isCount ? `${ofProviders} + if(sumIf(u.requests, ${counted.uncached}) = 0, ${hits}, 0)` : ofProviders;
}

/** Most groups in an answer: those with the most tokens are returned. */
const MOST_GROUPS = 5000;

/** The time of a row in the sums that ClickHouse keeps inside the table. */
const quarterHour = 'toStartOfFifteenMinutes(u.at)';

/**
 * Sums by group and by kind of cache. ClickHouse answers it from the sums by quarters of an hour (see `tables.ts`)
 * unless the filter or the groups need a column that those sums lack (label, session), or other times.
 * @param by names of groups, with their expressions
 */
function inner(filter: UsageFilter, by: Readonly<Record<string, string>>): Question {
  const { label, sessionId, search } = filter;
  const lacks = label !== undefined || sessionId !== undefined || search !== undefined || by['label_set'] !== undefined;
  const isSummed = !lacks && isAtQuarterHour(filter.from) && isAtQuarterHour(filter.until);
  const where = usageConditions(filter, isSummed ? quarterHour : 'u.at');
  const groups = Object.entries(by).map(([name, expression]) => `${expression} AS ${name}`);
  return {
    sql: `SELECT ${[...groups, 'u.cache_type AS cache_type', ...[...summed, ...saved].map((column) => `sum(u.${column}) AS ${column}`)].join(', ')}
      FROM $db.usage AS u WHERE ${where.sql}
      GROUP BY ${[...Object.keys(by), 'cache_type'].join(', ')}`,
    parameters: where.parameters,
  };
}

/** One row. */
export function usageTotals(filter: UsageFilter, mode: CacheMode): Question {
  const { sql, parameters } = inner(filter, {});
  return { sql: `SELECT ${sums(mode)} FROM (${sql}) AS u`, parameters };
}

export type DaySums = Sums & { readonly day: string };

/** A row for each day of that time zone with usage; oldest first. */
export function usageByDay(filter: UsageFilter, mode: CacheMode, timeZone: string): Question {
  const { sql, parameters } = inner(filter, { date: dateIn });
  return {
    sql: `SELECT toString(u.date) AS day, ${sums(mode)} FROM (${sql}) AS u GROUP BY day
      HAVING countIf(${counted[mode]}) > 0 ORDER BY day`,
    parameters: { ...parameters, time_zone: timeZone },
  };
}

const dateIn = `toDate(${quarterHour}, {time_zone: String})`;

export type ModelSums = Sums & { readonly model: string; readonly provider: string; readonly provider_type: string };

export function usageByModel(filter: UsageFilter, mode: CacheMode): Question {
  return grouped(filter, mode, { model: 'u.model', provider: 'u.provider', provider_type: 'u.provider_type' });
}

export type UserPathSums = Sums & { readonly user_path: string };

/** Callers without a user path count at `/`. */
export function usageByUserPath(filter: UsageFilter, mode: CacheMode): Question {
  return grouped(filter, mode, { user_path: 'u.user_path' });
}

/** `actor` is empty for managed keys. */
export type KeySums = Sums & { readonly auth_key_id: string; readonly actor: string };

/** Requests without a managed key count by their actor. The sums inside the table lack it, so rows are read. */
export function usageByKey(filter: UsageFilter, mode: CacheMode): Question {
  const { sql, parameters } = ofRows(filter);
  return {
    sql: `SELECT u.auth_key_id AS auth_key_id, if(auth_key_id = '', toString(u.actor), '') AS actor, ${sums(mode)}
      ${sql} GROUP BY auth_key_id, actor ORDER BY total_tokens DESC, auth_key_id, actor LIMIT ${MOST_GROUPS}`,
    parameters,
  };
}

export type LabelSums = Sums & { readonly label: string };

/** A request with several labels counts under each. Rows are first summed by their set of labels: sets recur. */
export function usageByLabel(filter: UsageFilter, mode: CacheMode): Question {
  const { sql, parameters } = inner(filter, { label_set: 'u.label_set' });
  return {
    sql: `SELECT arrayJoin(JSONExtract(toString(u.label_set), 'Array(String)')) AS label, ${sums(mode)} FROM (${sql}) AS u
      GROUP BY label ORDER BY total_tokens DESC, label LIMIT ${MOST_GROUPS}`,
    parameters,
  };
}

function grouped(filter: UsageFilter, mode: CacheMode, by: Readonly<Record<string, string>>): Question {
  const { sql, parameters } = inner(filter, by);
  const names = Object.keys(by).map((name) => `u.${name}`);
  return {
    sql: `SELECT ${Object.keys(by)
      .map((name) => `u.${name} AS ${name}`)
      .join(', ')}, ${sums(mode)} FROM (${sql}) AS u
      GROUP BY ${names.join(', ')} ORDER BY total_tokens DESC, ${names.join(', ')} LIMIT ${MOST_GROUPS}`,
    parameters,
  };
}

export type SessionSums = Sums & { readonly session_id: string; readonly user_path: string; readonly total: string };

/** Sessions of a user path, newest usage first; each row carries `total`, the number of all sessions. */
export function usageBySession(filter: UsageFilter, mode: CacheMode, { limit, offset }: PageOf): Question {
  const { sql, parameters } = ofRows(filter);
  return {
    sql: `SELECT u.session_id AS session_id, u.user_path AS user_path, ${sums(mode)}, count() OVER () AS total
      ${sql} AND u.session_id != '' AND ${counted[mode]}
      GROUP BY session_id, user_path
      ORDER BY max(u.at) DESC, session_id, user_path LIMIT {limit: UInt32} OFFSET {offset: UInt32}`,
    parameters: { ...parameters, limit, offset },
  };
}

/** One row, `total`: the number of sessions, for pages without a session row that carries it. */
export function countSessions(filter: UsageFilter, mode: CacheMode): Question {
  const { sql, parameters } = ofRows(filter);
  return {
    sql: `SELECT uniqExact(u.session_id, u.user_path) AS total
      ${sql} AND u.session_id != '' AND ${counted[mode]}`,
    parameters,
  };
}

export interface ThroughputRow {
  /** Seconds since the epoch at which the bucket begins. */
  readonly start: string;
  readonly input_tokens: string;
  readonly output_tokens: string;
  readonly prompt_cached_tokens: string;
  readonly locally_cached_tokens: string;
}

/** Tokens by time: those of providers, and separately those answered from a cache of the gateway. */
export function tokensByTime(times: { readonly from: number; readonly until: number }, seconds: number): Question {
  const time = between('u.at', times.from, times.until);
  const sum = (column: string) => `sumIf(u.${column}, ${counted.uncached})`;
  return {
    sql: `SELECT intDiv(toUnixTimestamp(u.at), {seconds: UInt32}) * {seconds: UInt32} AS start,
      ${sum('input_tokens')} AS input_tokens, ${sum('output_tokens')} AS output_tokens,
      ${sum('cached_input_tokens')} AS prompt_cached_tokens,
      sumIf(u.total_tokens, ${counted.cached}) AS locally_cached_tokens
      FROM $db.usage AS u WHERE ${time[0]} GROUP BY start`,
    parameters: { ...time[1], seconds },
  };
}

export type CacheDay = { readonly day: string } & Readonly<Record<CacheFigure, string>>;
export type CacheFigure =
  | 'hits'
  | 'exact_hits'
  | 'semantic_hits'
  | 'input_tokens'
  | 'output_tokens'
  | 'total_tokens'
  | 'saved_cost'
  | 'saved_priced';

/** Answers from the gateway's caches, by day of that time zone; oldest first. */
export function cacheByDay(filter: UsageFilter, timeZone: string): Question {
  const { sql, parameters } = inner(filter, { date: dateIn });
  return {
    sql: `SELECT toString(u.date) AS day, sum(u.requests) AS hits,
      sumIf(u.requests, u.cache_type = 'exact') AS exact_hits,
      sumIf(u.requests, u.cache_type = 'semantic') AS semantic_hits,
      sum(u.input_tokens) AS input_tokens, sum(u.output_tokens) AS output_tokens, sum(u.total_tokens) AS total_tokens,
      sum(u.saved_cost) AS saved_cost, sum(u.saved_priced) AS saved_priced
      FROM (${sql}) AS u WHERE ${counted.cached} GROUP BY day ORDER BY day`,
    parameters: { ...parameters, time_zone: timeZone },
  };
}
