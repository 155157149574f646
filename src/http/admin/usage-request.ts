/** Query parameters of the usage reports. */
import type { FastifyRequest } from 'fastify';
import { refusals } from '../../commands/refusal.ts';
import { type CacheMode, cacheModes, type UsageFilter } from '../../projections/analytics/usage-filter.ts';
import { reportRangeOf } from '../date-range.ts';
import { oneOf, queryOf, single, textIn } from '../query.ts';
import { reportSubtree } from './report-subtree.ts';
import { type Granularity, granularities, type Interval, intervals } from './usage-answers.ts';

export interface UsageRequest {
  readonly filter: UsageFilter;
  readonly mode: CacheMode;
  readonly timeZone: string;
}

/** @throws Refusal 400, 403 */
export function filterOf(request: FastifyRequest, now: number): UsageRequest {
  const query = queryOf(request);
  const { from, until, timeZone } = reportRangeOf(request, now);
  return {
    filter: {
      from,
      until,
      subtree: reportSubtree(request),
      model: textIn(query, 'model'),
      provider: textIn(query, 'provider'),
      label: textIn(query, 'label'),
      sessionId: textIn(query, 'session_id'),
    },
    mode: oneOf(query, 'cache_mode', cacheModes) ?? 'uncached',
    timeZone,
  };
}

/** An invalid interval counts as not given. */
export function intervalOf(request: FastifyRequest): Interval {
  const given = single(queryOf(request)['interval']);
  return intervals.find((interval) => interval === given) ?? 'daily';
}

/** @throws Refusal 400 */
export function granularityOf(request: FastifyRequest): Granularity {
  const words = Object.keys(granularities) as readonly Granularity[];
  const granularity = oneOf(queryOf(request), 'granularity', words);
  if (granularity !== undefined) return granularity;
  throw refusals.invalidRequest(`'granularity' is needed: one of ${words.join(', ')}.`, 'granularity');
}
