/** Queries of the usage log: recorded usage, row by row, and its later corrections. */
import { type CacheMode, counted, ofRows, type PageOf, type Question, type UsageFilter } from './usage-filter.ts';
import type { Sums } from './usage-queries.ts';

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
