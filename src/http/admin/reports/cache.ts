/** `GET /admin/cache/overview`: hits of the gateway's caches and the cost they saved; and `POST /admin/cache/purge`. */
import { z } from 'zod';
import type { PurgeSelection } from '../../../commands/exchange/caching/response-cache.ts';
import { refusals } from '../../../commands/refusal.ts';
import type { EventContext, UserPath } from '../../../events/event.ts';
import { type CacheDay, type CacheFigure, cacheByDay } from '../../../projections/analytics/usage-queries.ts';
import { queryOfParameters } from '../../api/parameters.ts';
import { globalAdmin, jsonAnswer, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { parseUserPath } from '../../request-head.ts';
import { eventContextOf } from '../../server.ts';
import { pathInScope, scopeOf } from '../admin-scope.ts';
import { type Reports, reportContext, reportHeaders, untilGone } from './report-db.ts';
import { filterOf, intervalParameter, usageParameters } from './usage.ts';
import { costOf, type Interval, periodOf } from './usage-answers.ts';

const usd = z.number().nullable().describe('US dollars');
const counts = { exact_hits: z.int(), semantic_hits: z.int() };
const tokens = { input_tokens: z.int(), output_tokens: z.int(), total_tokens: z.int() };
const overview = z.object({
  summary: z.object({
    total_hits: z.int(),
    ...counts,
    total_input_tokens: z.int(),
    total_output_tokens: z.int(),
    total_tokens: z.int(),
    total_saved_cost: usd,
  }),
  daily: z.array(z.object({ date: z.string(), hits: z.int(), ...counts, ...tokens, saved_cost: usd })),
});

const getOverview = globalAdmin('getCacheOverview', "Get the hits of the gateway's caches and the cost they saved", {
  querystring: queryOfParameters({ ...usageParameters, interval: intervalParameter }),
  requestHeaders: reportHeaders,
  response: { 200: jsonAnswer('The sums, and the periods', overview) },
});

export function registerCacheOverview(admin: Routes, { db, usageEnabled, cacheEnabled, now }: Reports): void {
  admin.get('/cache/overview', getOverview, async (request, reply) => {
    const context = reportContext(request, now());
    const filter = filterOf(request.query, context);
    if (!usageEnabled || !cacheEnabled) throw refusals.featureUnavailable('The gateway does not cache answers.');
    const { sql, parameters } = cacheByDay(filter, context.timeZone);
    return overviewOf(await db.rows<CacheDay>(sql, parameters, untilGone(reply)), request.query.interval);
  });
}

export function overviewOf(days: readonly CacheDay[], interval: Interval) {
  const { hits, exact_hits, semantic_hits, input_tokens, output_tokens, total_tokens, saved_cost } = sumOf(days);
  return {
    summary: {
      total_hits: hits,
      exact_hits,
      semantic_hits,
      total_input_tokens: input_tokens,
      total_output_tokens: output_tokens,
      total_tokens,
      total_saved_cost: saved_cost,
    },
    daily: [...Map.groupBy(days, ({ day }) => periodOf(day, interval))].map(([date, rows]) => ({
      date,
      ...sumOf(rows),
    })),
  };
}

function sumOf(days: readonly CacheDay[]) {
  const sum = (figure: CacheFigure) => days.reduce((total, day) => total + BigInt(day[figure]), 0n);
  return {
    hits: Number(sum('hits')),
    exact_hits: Number(sum('exact_hits')),
    semantic_hits: Number(sum('semantic_hits')),
    input_tokens: Number(sum('input_tokens')),
    output_tokens: Number(sum('output_tokens')),
    total_tokens: Number(sum('total_tokens')),
    saved_cost: costOf(sum('saved_cost'), sum('saved_priced')),
  };
}

/** @returns how many answers were removed */
export type Purge = (selection: PurgeSelection, context: EventContext) => Promise<number>;

const name = z.string().min(1).max(512);

const purgeBody = z.strictObject({
  user_path: z.string().min(1).optional().describe('Answers of requests at this path or below'),
  model: name.optional().describe("The provider's own id of the model"),
  provider: name.optional().describe('Name of the provider'),
  all: z.literal(true).optional().describe('Every answer; not with another member'),
});

const postPurge = scopedAdmin('purgeCache', 'Remove answers from the response cache', {
  description:
    'Removed are the answers that match every given member; at least one is required. An administrator of a subtree ' +
    'has to name a path in it: `403 admin_scope_denied` otherwise.',
  body: purgeBody,
  example: { user_path: '/team' },
  response: { 200: jsonAnswer('The purge is in force', z.object({ purged: z.int().describe('Removed answers') })) },
});

/** @param purge undefined while the gateway has no response cache */
export function registerCachePurge(admin: Routes, purge: Purge | undefined): void {
  admin.post('/cache/purge', postPurge, async (request) => {
    const selection = selectionOf(request.body, scopeOf(request));
    if (purge === undefined) throw refusals.featureUnavailable('The gateway does not cache answers.');
    return { purged: await purge(selection, eventContextOf(request)) };
  });
}

/** @throws Refusal 400, 403 */
function selectionOf(
  { user_path, model, provider, all }: z.infer<typeof purgeBody>,
  scope: UserPath | undefined,
): PurgeSelection {
  const isNamed = user_path !== undefined || model !== undefined || provider !== undefined;
  if (all === undefined && !isNamed) {
    throw refusals.invalidRequest("One of 'user_path', 'model', 'provider' and 'all' is needed.", null);
  }
  if (all !== undefined && isNamed) throw refusals.invalidRequest("'all' goes with no other member.", 'all');
  if (user_path === undefined && scope !== undefined) throw refusals.adminScopeDenied();
  const given = user_path === undefined ? undefined : parseUserPath(user_path, 'user_path');
  return { userPath: pathInScope(scope, given), model, provider };
}
