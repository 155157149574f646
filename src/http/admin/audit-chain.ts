/** `GET /admin/audit/chain`: the requests that belong together with one request, as a graph without content. */
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import type { UserPath } from '../../events/event.ts';
import { type ChainNode, exchangeChain } from '../../projections/analytics/exchange-chain.ts';
import { scopedAdmin } from '../api/declare.ts';
import { type QueryParameter, queryOfParameters } from '../api/parameters.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import { timeText } from '../dates.ts';
import { limitIn } from '../paging.ts';
import { isWithin, scopeOf } from './admin-scope.ts';
import { type AuditDetails, logId, streamOfEntry, unknownEntry } from './audit-detail.ts';
import { untilGone } from './report-db.ts';

const NODES = { usual: 200, most: 500 };
const USD = 1e9;

const node = z.object({
  id: z.string(),
  at: z.iso.datetime(),
  user_path: z.string(),
  session_id: z.string().optional(),
  path: z.string(),
  requested_model: z.string().optional(),
  model: z.string().optional(),
  provider_name: z.string().optional(),
  outcome: z.enum(['completed', 'failed', 'refused', 'disconnected', 'in_progress']),
  status_code: z.int(),
  error_code: z.string().optional(),
  cache_type: z.enum(['exact', 'semantic']).optional(),
  duration_ms: z.number(),
  response_id: z.string().optional(),
  input_tokens: z.int().nullable(),
  output_tokens: z.int().nullable(),
  total_tokens: z.int().nullable().describe('Null when no provider reported any'),
  total_cost: z.number().nullable().describe('US dollars; null is unknown, 0 is free'),
});

const edge = z.object({
  from: z.string().describe('The earlier request'),
  to: z.string().describe('The later request'),
  kind: z
    .enum(['previous_response', 'conversation', 'session', 'replayed_from'])
    .describe(
      '`previous_response`: continues the stored response of the earlier one. `conversation`, `session`: the next turn ' +
        'in it. `replayed_from`: got the recorded answer of the earlier one',
    ),
});

const getChain = scopedAdmin('adminAuditChain', 'Get the requests that belong together with one request', {
  description:
    'A graph without content: the session and the conversation of the request, and the responses that it continues or ' +
    'that continue it. While analytics is off, only what the log finds: earlier responses and the conversation.',
  querystring: queryOfParameters({
    log_id: logId,
    limit: {
      description: 'Most requests of the graph',
      schema: { type: 'integer', minimum: 1, maximum: NODES.most, default: NODES.usual },
      read: (query) => limitIn(query, NODES),
    } satisfies QueryParameter<number>,
  }),
  response: {
    200: jsonAnswer(
      'The graph',
      z.object({
        anchor_id: z.string(),
        nodes: z.array(node).describe('Oldest first'),
        edges: z.array(edge),
        truncated: z.boolean().describe('Whether requests are missing because of `limit`'),
      }),
    ),
  },
  errors: [404],
});

export function registerAuditChain(admin: Routes, { db, isKept, recorded }: Omit<AuditDetails, 'audit' | 'now'>): void {
  admin.get('/audit/chain', getChain, async (request, reply) => {
    const { log_id: id, limit } = request.query;
    if (!isKept) throw refusals.featureUnavailable('Requests are not kept for queries: LOGGING_ENABLED=false.');
    const stream = streamOfEntry(id);
    const scope = scopeOf(request);
    const isVisible = ({ user_path }: ChainNode['row']) => isWithin(scope, user_path as UserPath);
    const options = { db, log: recorded.log, limit, signal: untilGone(reply), isVisible };
    const chain = stream === undefined ? undefined : await exchangeChain(stream, options);
    if (chain === undefined) throw unknownEntry(id);
    const { nodes, edges, truncated } = chain;
    return { anchor_id: id, nodes: nodes.map(nodeAnswer), edges, truncated };
  });
}

function nodeAnswer({ row, usage }: ChainNode) {
  const { tokens, totalCost } = usage ?? {};
  return {
    id: row.id,
    at: timeText(Number(row.at_us) / 1000),
    user_path: row.user_path,
    session_id: row.session_id || undefined,
    path: row.path,
    requested_model: row.requested_model || undefined,
    model: row.model || undefined,
    provider_name: row.provider || undefined,
    outcome: row.outcome,
    status_code: row.status,
    error_code: row.error_code || undefined,
    cache_type: row.cache_type || undefined,
    duration_ms: row.duration_ms,
    response_id: row.response_id || undefined,
    input_tokens: tokens?.input ?? null,
    output_tokens: tokens?.output ?? null,
    total_tokens: tokens?.total ?? null,
    total_cost: totalCost === null || totalCost === undefined ? null : Number(totalCost) / USD,
  };
}
