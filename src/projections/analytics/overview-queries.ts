/**
 * SQL queries of the overview: requests and durations by time, usage by time, and the most active paths, keys and
 * models. Each reads its table once. Every 64-bit number comes as text, costs are nano-dollars.
 */
import type { UserPath } from '../../events/event.ts';
import { allOf, between, type Conditions, inSubtree, isAtQuarterHour } from './conditions.ts';
import type { Question } from './usage-queries.ts';

export interface OverviewOf {
  /** Milliseconds since the epoch: the period is from `from` (inclusive) to `until` (exclusive). */
  readonly from: number;
  readonly until: number;
  /** The period before it begins here, and ends at `from`. */
  readonly before: number;
  /** When each bucket of the period begins, in seconds since the epoch, ascending; the first at `from` or before. */
  readonly starts: readonly number[];
  readonly subtree: UserPath | undefined;
}

const isOk = 'e.status BETWEEN 200 AND 299';
/** Answered by a provider with success. */
const reached = `${isOk} AND e.attempt_count > 0 AND e.cache_type = '' AND e.replayed_from = ''`;

/** The median and the 95th percentile, within 0.8 %: the same for the same rows in any order. */
const percentiles = (value: string, condition: string) => `quantilesBFloat16If(0.5, 0.95)(${value}, ${condition})`;

export interface RequestSums {
  /** 1 for the period, 0 for the one before. */
  readonly current: number;
  /** Seconds since the epoch; 0 in the sums of a whole period, and for the period before. */
  readonly bucket: number;
  readonly provider: string;
  /** What the row sums: 0 one provider in a bucket, 1 a bucket, 3 a period, 7 everything. */
  readonly level: string;
  readonly requests: string;
  readonly ok: string;
  readonly client: string;
  readonly server: string;
  readonly reached: string;
  /** Milliseconds: of successful answers, of their first byte, and of those that a provider gave. */
  readonly duration: readonly [number | null, number | null];
  readonly first_byte: readonly [number | null, number | null];
  readonly provider_duration: readonly [number | null, number | null];
}

/**
 * A row for each period, each bucket of the current period, and each provider in a bucket; and one for everything. The
 * larger groups are merged from the smaller ones, so that each request is counted once.
 */
export function requestsByTime(of: OverviewOf): Question {
  const { sql, parameters } = inBothPeriods('e.at', of);
  return {
    sql: `SELECT ${isCurrent('e.at')} AS current, if(current, ${bucketOf('e.at')}, 0) AS bucket, e.provider AS provider,
      grouping(current, bucket, provider) AS level, sum(e.requests) AS requests, sumIf(e.requests, ${isOk}) AS ok,
      sumIf(e.requests, e.status BETWEEN 400 AND 499) AS client, sumIf(e.requests, e.status BETWEEN 500 AND 599) AS server,
      countIf(${reached}) AS reached, ${percentiles('e.duration_ms', isOk)} AS duration,
      ${percentiles('assumeNotNull(e.first_byte_ms)', `${isOk} AND isNotNull(e.first_byte_ms)`)} AS first_byte,
      ${percentiles('e.duration_ms', reached)} AS provider_duration
      FROM $db.exchanges AS e WHERE ${sql}
      GROUP BY current, bucket, provider WITH ROLLUP`,
    parameters,
  };
}

const tokens = ['input_tokens', 'output_tokens', 'total_tokens', 'cached_input_tokens'] as const;
const costs = ['total_cost', 'priced', 'saved_cost', 'saved_priced'] as const;
const summed = ['requests', ...tokens, ...costs] as const;

const sumOf = (column: string) => `sum(u.${column}) AS ${column}`;

/** Sums of usage by kind of cache. */
export type UsageSums = Readonly<Record<(typeof summed)[number], string>> & {
  readonly current: number;
  readonly bucket: number;
  readonly cache_type: string;
};

/** A row for each bucket of the period and each kind of cache, and likewise for the period before as one bucket. */
export function usageByTime(of: OverviewOf): Question {
  const time = usageTime(of);
  const { sql, parameters } = inBothPeriods(time, of);
  return {
    sql: `SELECT ${isCurrent(time)} AS current, if(current, ${bucketOf(time)}, 0) AS bucket, u.cache_type AS cache_type,
      ${summed.map(sumOf).join(', ')}
      FROM $db.usage AS u WHERE ${sql} GROUP BY current, bucket, cache_type`,
    parameters,
  };
}

export type Ranking = 'user_path' | 'key' | 'model';

/** The requests of one path, key or model, with its usage. */
export interface RankedSums {
  readonly ranking: Ranking;
  /** The path, the id of the key (empty without one), or the id of the model. */
  readonly name: string;
  /** Of a model. */
  readonly provider: string;
  readonly requests: string;
  readonly ok: string;
  readonly total_tokens: string;
  readonly total_cost: string;
  readonly priced: string;
  readonly saved_cost: string;
  readonly saved_priced: string;
  /** Answers from a cache, and those of providers. */
  readonly cache_hits: string;
  readonly answered: string;
}

/** Rows of a ranking. */
export const RANKED = 10;

/** Those with the most requests in the period, most first. */
export function mostActive(of: OverviewOf): Question {
  const time = usageTime(of);
  const exchanges = inPeriod('e.at', of);
  const usage = inPeriod(time, of);
  const sum = (name: string) => `sum(${name}) AS ${name}`;
  return {
    sql: `SELECT e.ranking AS ranking, e.name AS name, e.provider AS provider, e.requests AS requests, e.ok AS ok,
      ${['total_tokens', ...costs].map((column) => `u.${column} AS ${column}`).join(', ')}, u.cache_hits AS cache_hits,
      u.answered AS answered
      FROM (
        SELECT ${ranked('e.user_path', 'e.auth_key_id', 'e.provider', 'e.model')},
          sum(e.requests) AS requests, sumIf(e.requests, ${isOk}) AS ok
        FROM $db.exchanges AS e WHERE ${exchanges.sql}
        GROUP BY ${rankings('e.user_path', 'e.auth_key_id', 'e.provider', 'e.model')}
        HAVING ranking != 'model' OR name != '' ORDER BY requests DESC, name, provider LIMIT ${RANKED} BY ranking
      ) AS e LEFT JOIN (
        SELECT ${ranked('path', 'key', 'prov', 'model')}, ${['total_tokens', ...costs, 'cache_hits', 'answered'].map(sum).join(', ')} FROM (
          SELECT u.user_path AS path, u.auth_key_id AS key, u.provider AS prov, u.model AS model,
            sumIf(u.requests, u.cache_type != '') AS cache_hits, sumIf(u.requests, u.cache_type = '') AS answered,
            sumIf(u.priced, u.cache_type = '') AS priced, sumIf(u.total_tokens, u.cache_type = '') AS total_tokens,
            ${['total_cost', 'saved_cost', 'saved_priced'].map(sumOf).join(', ')}
          FROM (
            SELECT u.user_path AS user_path, u.auth_key_id AS auth_key_id, u.provider AS provider, u.model AS model,
              u.cache_type AS cache_type, ${['requests', 'total_tokens', ...costs].map(sumOf).join(', ')}
            FROM $db.usage AS u WHERE ${usage.sql} GROUP BY user_path, auth_key_id, provider, model, cache_type
          ) AS u GROUP BY path, key, prov, model
        ) GROUP BY ${rankings('path', 'key', 'prov', 'model')}
      ) AS u ON e.ranking = u.ranking AND e.name = u.name AND e.provider = u.provider
      ORDER BY e.requests DESC, e.name, e.provider`,
    parameters: { ...usage.parameters, ...exchanges.parameters },
  };
}

/** The columns by which rows are grouped, each way apart. */
type RankedColumns = readonly [path: string, key: string, provider: string, model: string];

function rankings(...[path, key, provider, model]: RankedColumns): string {
  return `GROUPING SETS ((${path}), (${key}), (${provider}, ${model}))`;
}

function ranked(...[path, key, provider, model]: RankedColumns): string {
  return `multiIf(grouping(${path}) = 0, 'user_path', grouping(${key}) = 0, 'key', 'model') AS ranking,
  multiIf(ranking = 'user_path', toString(${path}), ranking = 'key', toString(${key}), toString(${model})) AS name,
  if(ranking = 'model', toString(${provider}), '') AS provider`;
}

/** Of a row of usage: by quarters of an hour the sums inside the table answer, which only fit between such times. */
function usageTime({ from, until, before, starts }: OverviewOf): string {
  const times = [from, until, before, ...starts.map((start) => start * 1000)];
  const isAligned = times.every(isAtQuarterHour);
  return isAligned ? 'toStartOfFifteenMinutes(u.at)' : 'u.at';
}

function isCurrent(time: string): string {
  return `${time} >= {current_from: DateTime64(6, 'UTC')}`;
}

function bucketOf(time: string): string {
  return `roundDown(toUnixTimestamp(${time}), {starts: Array(UInt32)})`;
}

function inBothPeriods(time: string, of: OverviewOf): Question {
  const { sql, parameters } = inPeriod(time, { ...of, from: of.before });
  const from = between(time, of.from, of.until)[1]['from'];
  return { sql, parameters: { ...parameters, current_from: from, starts: [...of.starts] } };
}

function inPeriod(time: string, { from, until, subtree }: OverviewOf): Conditions {
  return allOf([between(time, from, until), inSubtree(time.includes('u.') ? 'u.user_path' : 'e.user_path', subtree)]);
}
