/** Rows of usage reports in answers. Costs in US dollars; null is unknown, and 0 is free. */
import { z } from 'zod';
import { parseExactly } from '../../../json/exact-json.ts';
import {
  type CorrectionRow,
  type DaySums,
  type KeySums,
  type LabelSums,
  type ModelSums,
  type SessionSums,
  type Sums,
  sumColumns,
  type ThroughputRow,
  type UsageRow,
  type UserPathSums,
} from '../../../projections/analytics/usage-queries.ts';
import { uncachedOf } from '../../../projections/usage-preview.ts';
import { timeText } from '../../dates.ts';

const usd = z.number().nullable().describe('US dollars of provider calls; null is unknown, 0 is free');
const inputCounts = {
  uncached_input_tokens: z.int(),
  cached_input_tokens: z.int().describe('Read from the prompt cache of a provider'),
  cache_write_input_tokens: z.int().describe('Written to the prompt cache of a provider'),
};
const costs = { input_cost: usd, output_cost: usd, total_cost: usd };
const sums = {
  requests: z.int(),
  input_tokens: z.int(),
  ...inputCounts,
  output_tokens: z.int(),
  total_tokens: z.int(),
  ...costs,
};
/** Of answers from the response cache; in every mode. */
const ofCache = {
  local_cached_input_tokens: z.int(),
  local_cached_output_tokens: z.int(),
  cache_hits: z.int(),
  saved_cost: usd.describe('US dollars that answers from the response cache saved; null is unknown'),
  unpriced_requests: z.int().describe('Requests that a provider answered and whose cost is unknown'),
};
const breakdown = { ...sums, ...ofCache };

/** US dollars, from nano-dollars in decimal text. @param priced number of requests with a known price */
export function costOf(nano: string | bigint, priced: string | number | bigint): number | null {
  return Number(priced) > 0 ? Number(nano) / 1e9 : null;
}

/** Without hits nothing was saved; the saved cost of hits without a known price is unknown. */
export function savedCost(nano: bigint, priced: bigint, hits: bigint): number | null {
  return hits === 0n && priced === 0n ? 0 : costOf(nano, priced);
}

/** Usage by column name; all values are sums of whole numbers. */
export type Figures = Readonly<Record<keyof Sums, bigint>>;

/** The sum of the rows, exactly. */
export function figuresOf(rows: readonly Sums[]): Figures {
  const sum = (column: keyof Sums) => rows.reduce((total, row) => total + BigInt(row[column]), 0n);
  return Object.fromEntries(sumColumns.map((column) => [column, sum(column)])) as Record<keyof Sums, bigint>;
}

export const usageSummary = z.object({
  total_requests: z.int(),
  total_input_tokens: z.int(),
  ...inputCounts,
  total_output_tokens: z.int(),
  total_tokens: z.int(),
  total_input_cost: usd,
  total_output_cost: usd,
  total_cost: usd,
  rewrite_tokens_saved: z.int().describe('Always 0'),
  rewrite_cost_saved: usd.describe('Always null'),
});

export function summaryOf(rows: readonly Sums[]) {
  const figures = figuresOf(rows);
  const { uncached_input_tokens, cached_input_tokens, cache_write_input_tokens } = inputTokens(figures);
  return {
    total_requests: Number(figures.requests),
    total_input_tokens: Number(figures.input_tokens),
    uncached_input_tokens,
    cached_input_tokens,
    cache_write_input_tokens,
    total_output_tokens: Number(figures.output_tokens),
    total_tokens: Number(figures.total_tokens),
    total_input_cost: costOf(figures.input_cost, figures.input_priced),
    total_output_cost: costOf(figures.output_cost, figures.output_priced),
    total_cost: costOf(figures.total_cost, figures.priced),
    // The gateway does not shorten requests on their way to a provider.
    rewrite_tokens_saved: 0,
    rewrite_cost_saved: null,
  };
}

export const intervals = ['daily', 'weekly', 'monthly', 'yearly'] as const;
export type Interval = (typeof intervals)[number];

export const usageOfPeriod = z.object({
  date: z.string().describe('`YYYY-MM-DD`, `YYYY-Www`, `YYYY-MM` or `YYYY`'),
  ...breakdown,
});

/** A row for each period with usage; oldest first. */
export function periodsOf(days: readonly DaySums[], interval: Interval) {
  const periods = Map.groupBy(days, ({ day }) => periodOf(day, interval));
  return [...periods].map(([date, rows]) => ({ date, ...breakdownOf(rows) }));
}

/** @param day `YYYY-MM-DD` @returns that, `YYYY-Www` (the week of ISO 8601), `YYYY-MM` or `YYYY` */
export function periodOf(day: string, interval: Interval): string {
  if (interval === 'daily') return day;
  if (interval === 'monthly') return day.slice(0, 7);
  return interval === 'yearly' ? day.slice(0, 4) : isoWeek(day);
}

const DAY_MS = 86_400_000;

/** The week belongs to the year in which its Thursday is. */
function isoWeek(day: string): string {
  const at = Date.parse(day);
  const fromMonday = (new Date(at).getUTCDay() + 6) % 7;
  const thursday = new Date(at + (3 - fromMonday) * DAY_MS);
  const year = thursday.getUTCFullYear();
  const week = Math.floor((thursday.getTime() - Date.UTC(year, 0, 1)) / (7 * DAY_MS)) + 1;
  return `${year}-W${String(week).padStart(2, '0')}`;
}

const providerType = z.string().describe('Type of the provider');

export const usageOfModel = z.object({
  model: z.string(),
  provider: providerType,
  provider_name: z.string(),
  ...breakdown,
});
export const usageOfUserPath = z.object({
  user_path: z.string().describe('`/` for requests without one'),
  ...breakdown,
});
export const usageOfKey = z.object({
  caller: z
    .enum(['key', 'master', 'gateway'])
    .describe("`master`: the master key, or no key while the gateway accepts all; `gateway`: the gateway's own calls"),
  auth_key_id: z.string().nullable().describe('null unless it is a managed key'),
  name: z.string().nullable().describe('null for a key that the caller may not see'),
  ...breakdown,
});
export const usageOfLabel = z.object({ label: z.string(), ...breakdown });
export const usageOfSession = z.object({ session_id: z.string(), user_path: z.string(), ...breakdown });

export function modelOf(row: ModelSums) {
  return { model: row.model, provider: row.provider_type, provider_name: row.provider, ...breakdownOf([row]) };
}

export function userPathOf(row: UserPathSums) {
  return { user_path: row.user_path, ...breakdownOf([row]) };
}

/** @param name of the key, when the caller may see it */
export function keyOf(row: KeySums, name: string | undefined) {
  const caller = row.auth_key_id !== '' ? 'key' : row.actor === 'master' ? 'master' : 'gateway';
  return { caller, auth_key_id: row.auth_key_id || null, name: name ?? null, ...breakdownOf([row]) };
}

export function labelOf(row: LabelSums) {
  return { label: row.label, ...breakdownOf([row]) };
}

export function sessionOf(row: SessionSums) {
  return { session_id: row.session_id, user_path: row.user_path, ...breakdownOf([row]) };
}

function breakdownOf(rows: readonly Sums[]) {
  const figures = figuresOf(rows);
  return {
    ...tokensAndCosts(figures),
    local_cached_input_tokens: Number(figures.local_cached_input_tokens),
    local_cached_output_tokens: Number(figures.local_cached_output_tokens),
    cache_hits: Number(figures.cache_hits),
    saved_cost: savedCost(figures.saved_cost, figures.saved_priced, figures.cache_hits),
    // Failed attempts have costs, and are no requests.
    unpriced_requests: Math.max(0, Number(figures.unpriced_requests)),
  };
}

function tokensAndCosts(figures: Figures) {
  return {
    requests: Number(figures.requests),
    input_tokens: Number(figures.input_tokens),
    ...inputTokens(figures),
    output_tokens: Number(figures.output_tokens),
    total_tokens: Number(figures.total_tokens),
    input_cost: costOf(figures.input_cost, figures.input_priced),
    output_cost: costOf(figures.output_cost, figures.output_priced),
    total_cost: costOf(figures.total_cost, figures.priced),
  };
}

function inputTokens(figures: Pick<Figures, 'input_tokens' | 'cached_input_tokens' | 'cache_write_input_tokens'>) {
  return {
    uncached_input_tokens: uncachedOf(Number(figures.input_tokens), Number(figures.cached_input_tokens)),
    cached_input_tokens: Number(figures.cached_input_tokens),
    cache_write_input_tokens: Number(figures.cache_write_input_tokens),
  };
}

const reportedTokens = z.int().nullable().describe('null when the provider did not report it');

export const usageEntry = z.object({
  id: z.string(),
  exchange_id: z.string(),
  request_id: z.string(),
  provider_id: z.string().optional().describe("The provider's id of the response, or of work that continued after it"),
  timestamp: z.string(),
  model: z.string(),
  provider: providerType,
  provider_name: z.string(),
  endpoint: z.string(),
  user_path: z.string(),
  session_id: z.string().optional(),
  cache_type: z.string().optional(),
  labels: z.array(z.string()).optional(),
  input_tokens: reportedTokens,
  output_tokens: reportedTokens,
  total_tokens: reportedTokens,
  uncached_input_tokens: reportedTokens,
  cached_input_tokens: reportedTokens,
  cache_write_input_tokens: reportedTokens,
  reasoning_tokens: reportedTokens,
  cached_input_ratio: z.number().optional(),
  ...costs,
  saved_cost: z
    .number()
    .nullable()
    .optional()
    .describe('US dollars that an answer from the response cache saved; its own costs are 0'),
  cost_source: z.string().optional(),
  costs_calculation_caveat: z.string().optional(),
  usage_source: z.string(),
  estimated: z.literal(true).optional(),
  estimated_input_tokens: z.number().optional(),
  estimated_output_tokens: z.number().optional(),
  raw_data: z.unknown().optional().describe('The usage as the provider reported it'),
});

/** An entry of the usage log with its newest correction. Tokens that the provider did not report are null. */
export function entryOf(row: UsageRow, correction: CorrectionRow | undefined) {
  const reported = row.source === 'provider';
  const tokens = (count: string) => (reported ? Number(count) : null);
  const cost = (kind: 'input' | 'output' | 'total', priced: 'input_priced' | 'output_priced' | 'priced') =>
    costOf(
      BigInt(row[`${kind}_cost`]) + BigInt(correction?.[`${kind}_cost`] ?? 0),
      row[priced] + Number(correction?.[priced] ?? 0),
    );
  const input = Number(row.input_tokens);
  const cached = Number(row.cached_input_tokens);
  return {
    id: row.usage_id,
    exchange_id: row.exchange_id,
    request_id: row.request_id,
    ...given('provider_id', row.provider_id),
    timestamp: timeText(Math.floor(Number(row.at_micros) / 1000)),
    model: row.model,
    provider: row.provider_type,
    provider_name: row.provider,
    endpoint: row.endpoint,
    user_path: row.user_path,
    ...given('session_id', row.session_id),
    ...given('cache_type', row.cache_type),
    ...(row.labels.length === 0 ? {} : { labels: row.labels }),
    input_tokens: tokens(row.input_tokens),
    output_tokens: tokens(row.output_tokens),
    total_tokens: tokens(row.total_tokens),
    uncached_input_tokens: tokens(String(uncachedOf(input, cached))),
    cached_input_tokens: tokens(row.cached_input_tokens),
    cache_write_input_tokens: tokens(row.cache_write_input_tokens),
    reasoning_tokens: tokens(row.reasoning_tokens),
    ...(input > 0 ? { cached_input_ratio: Math.min(1, cached / input) } : {}),
    input_cost: cost('input', 'input_priced'),
    output_cost: cost('output', 'output_priced'),
    total_cost: cost('total', 'priced'),
    ...(row.cache_type === '' ? {} : { saved_cost: costOf(BigInt(row.saved_cost), row.saved_priced) }),
    ...given('cost_source', correction?.price_source ?? row.price_source),
    ...given('costs_calculation_caveat', correction?.caveat ?? row.caveat),
    usage_source: row.source,
    ...(row.estimated === 1
      ? {
          estimated: true,
          estimated_input_tokens: Number(row.estimated_input_tokens),
          estimated_output_tokens: Number(row.estimated_output_tokens),
        }
      : {}),
    ...(row.raw === '' ? {} : { raw_data: parseExactly(row.raw) }),
  };
}

/** The member, or no member for an empty value. */
function given(name: string, value: string): Readonly<Record<string, string>> {
  return value === '' ? {} : { [name]: value };
}

/** By granularity: the length of a bucket in seconds, and the number of buckets. */
export const granularities = {
  second: { seconds: 1, buckets: 60 },
  minute: { seconds: 60, buckets: 60 },
  hour: { seconds: 3600, buckets: 24 },
  day: { seconds: 86_400, buckets: 30 },
} as const;
export type Granularity = keyof typeof granularities;

/** Milliseconds since the epoch: the last bucket contains `now`. */
export function throughputTimes(granularity: Granularity, now: number) {
  const { seconds, buckets } = granularities[granularity];
  const until = (Math.floor(now / 1000 / seconds) + 1) * seconds * 1000;
  return { seconds, from: until - buckets * seconds * 1000, until };
}

export const throughputBucket = z.object({
  start: z.string(),
  input_tokens: z.int(),
  output_tokens: z.int(),
  prompt_cached_tokens: z.int(),
  locally_cached_tokens: z.int(),
});
export const throughput = z.object({
  granularity: z.string(),
  bucket_seconds: z.int(),
  buckets: z.array(throughputBucket),
});

/** All buckets, including those without usage. */
export function throughputOf(rows: readonly ThroughputRow[], granularity: Granularity, now: number) {
  const { seconds, buckets } = granularities[granularity];
  const { from } = throughputTimes(granularity, now);
  const known = new Map(rows.map((row) => [Number(row.start) * 1000, row]));
  return {
    granularity,
    bucket_seconds: seconds,
    buckets: Array.from({ length: buckets }, (_, index) => {
      const start = from + index * seconds * 1000;
      const row = known.get(start);
      return {
        start: timeText(start),
        input_tokens: Number(row?.input_tokens ?? 0),
        output_tokens: Number(row?.output_tokens ?? 0),
        prompt_cached_tokens: Number(row?.prompt_cached_tokens ?? 0),
        locally_cached_tokens: Number(row?.locally_cached_tokens ?? 0),
      };
    }),
  };
}
