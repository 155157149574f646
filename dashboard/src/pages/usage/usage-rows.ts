/** Rows of usage reports: those of providers apart from those of the response cache, summed and compared. */

/** Members that every usage report has. Reports are read with `cache_mode=all`. */
export interface ReportedUsage {
  readonly requests: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cached_input_tokens: number;
  readonly total_cost: number | null;
  readonly local_cached_input_tokens: number;
  readonly local_cached_output_tokens: number;
  readonly cache_hits: number;
  readonly saved_cost: number | null;
  readonly unpriced_requests: number;
}

/** Requests and tokens are those of providers. */
export interface Usage {
  readonly requests: number;
  readonly cacheHits: number;
  readonly input: number;
  readonly output: number;
  readonly promptCached: number;
  readonly tokens: number;
  /** Null is unknown. */
  readonly cost: number | null;
  readonly unpriced: number;
  readonly saved: number | null;
}

export type Measure = 'tokens' | 'cost';

export const noUsage: Usage = {
  ...{ requests: 0, cacheHits: 0, input: 0, output: 0, promptCached: 0, tokens: 0 },
  ...{ cost: 0, unpriced: 0, saved: 0 },
};

export function usageOf(row: ReportedUsage): Usage {
  const input = row.input_tokens - row.local_cached_input_tokens;
  const output = row.output_tokens - row.local_cached_output_tokens;
  return {
    requests: row.requests - row.cache_hits,
    cacheHits: row.cache_hits,
    input,
    output,
    // Of answers from the cache, the recorded counts include those of the first answer.
    promptCached: Math.min(row.cached_input_tokens, input),
    tokens: input + output,
    cost: row.total_cost,
    unpriced: row.unpriced_requests,
    saved: row.saved_cost,
  };
}

/**
 * A sum of costs is unknown when the cost of no request is known, and a sum of savings when that of no hit is. Rows
 * without requests or hits do not make it known: their 0 is not a price.
 */
export function sumOf(rows: readonly Usage[]): Usage {
  const sum = (of: 'requests' | 'cacheHits' | 'input' | 'output' | 'promptCached' | 'tokens' | 'unpriced') =>
    rows.reduce((total, row) => total + row[of], 0);
  const amount = (of: 'cost' | 'saved', by: 'requests' | 'cacheHits') => {
    const priced = rows.filter((row) => row[by] > 0);
    const isUnknown = priced.length > 0 && priced.every((row) => row[of] === null);
    return isUnknown ? null : rows.reduce((total, row) => total + (row[of] ?? 0), 0);
  };
  return {
    requests: sum('requests'),
    cacheHits: sum('cacheHits'),
    input: sum('input'),
    output: sum('output'),
    promptCached: sum('promptCached'),
    tokens: sum('tokens'),
    cost: amount('cost', 'requests'),
    unpriced: sum('unpriced'),
    saved: amount('saved', 'cacheHits'),
  };
}

export interface NamedUsage {
  readonly key: string;
  readonly usage: Usage;
}

/** Most first; unknown costs last. */
export function ranked<Row extends NamedUsage>(rows: readonly Row[], measure: Measure): Row[] {
  const of = ({ usage }: Row) => usage[measure] ?? -1;
  return rows.toSorted((one, other) => of(other) - of(one) || other.usage.tokens - one.usage.tokens);
}

/** Rows with equal keys as one. The first one names it. */
export function grouped<Row extends NamedUsage>(rows: readonly Row[]): Row[] {
  return [...Map.groupBy(rows, ({ key }) => key).values()].flatMap((same) => {
    const [first] = same;
    return first === undefined ? [] : [{ ...first, usage: sumOf(same.map(({ usage }) => usage)) }];
  });
}

const DAY_MS = 86_400_000;

/** The Monday of the week of a day, both `YYYY-MM-DD`. */
export function mondayOf(day: string): string {
  const at = Date.parse(`${day}T00:00:00Z`);
  return new Date(at - ((new Date(at).getUTCDay() + 6) % 7) * DAY_MS).toISOString().slice(0, 10);
}

/** Every day from the first to the last, `YYYY-MM-DD`. */
export function daysBetween(first: string, last: string): string[] {
  const days: string[] = [];
  for (let at = Date.parse(`${first}T00:00:00Z`); at <= Date.parse(`${last}T00:00:00Z`); at += DAY_MS) {
    days.push(new Date(at).toISOString().slice(0, 10));
  }
  return days;
}
