/** OpenAPI operations of the audit log and of SQL queries. */
import { z } from 'zod';
import { sqlQuestion } from './admin/sql.ts';
import { header, json, type Operation, query, textMedia } from './openapi-operation.ts';

const usage = z.object({
  entries: z.int(),
  input_tokens: z.int().nullable().describe('null, as the other counts, when no provider reported any'),
  uncached_input_tokens: z.int().nullable(),
  cached_input_tokens: z.int().nullable(),
  cache_write_input_tokens: z.int().nullable(),
  cached_input_ratio: z.number().nullable(),
  estimated_cached_characters: z.int().nullable(),
  output_tokens: z.int().nullable(),
  total_tokens: z.int().nullable(),
  total_cost: z.number().nullable().describe('US dollars; null is not known, 0 is free'),
  rewrite_tokens_saved: z.int(),
  rewrite_cost_saved: z.number().nullable(),
});

const attempt = z.object({
  seq: z.int(),
  kind: z.enum(['primary', 'retry', 'translation', 'failover']),
  provider_type: z.string().optional(),
  provider_name: z.string().optional(),
  model: z.string().optional(),
  dialect: z.string().optional(),
  status_code: z.int().optional().describe('of a failed attempt, when the provider answered'),
  success: z.boolean(),
  error_code: z.string().optional(),
  error_message: z.string().optional(),
  started_at: z.iso.datetime(),
  response_body: z.unknown().optional().describe('of a failed attempt, in full entries'),
});

const entry = z.object({
  id: z.string(),
  timestamp: z.iso.datetime(),
  duration_ns: z.int(),
  requested_model: z.string().optional(),
  resolved_model: z.string().optional().describe('`<provider name>/<model>`'),
  provider: z.string().optional().describe('its type'),
  provider_name: z.string().optional(),
  alias_used: z.boolean().optional(),
  cache_type: z.enum(['exact', 'semantic']).optional(),
  outcome: z.enum(['completed', 'failed', 'refused', 'disconnected', 'in_progress']),
  requests: z.number().optional().describe('of refused requests that were counted together: how many'),
  status_code: z.int().describe('0 when the client got none, 499 when it left'),
  request_id: z.string().optional(),
  auth_key_id: z.string().optional(),
  auth_method: z.enum(['api_key', 'master_key', 'no_key']),
  client_ip: z.string().optional(),
  method: z.string(),
  path: z.string(),
  user_path: z.string(),
  session_id: z.string().optional(),
  stream: z.boolean(),
  error_type: z.string().optional(),
  data: z.object({
    user_agent: z.string().optional(),
    labels: z.array(z.string()).optional(),
    virtual_models: z.array(z.string()).optional(),
    attempts: z.array(attempt).optional(),
    finish_reason: z.string().optional(),
    first_byte_ms: z.number().optional(),
    response_id: z.string().optional(),
    replayed_from: z.string().optional(),
    error_message: z.string().optional(),
    error_code: z.string().optional(),
    error_provider: z.string().optional(),
    failure_reason: z.string().optional(),
    request_headers: z.record(z.string(), z.string()).optional(),
    request_body: z.unknown().optional().describe('JSON, or text'),
    request_body_bytes: z.number().optional().describe('size of a body of which only the beginning is kept'),
    request_body_sha256: z.string().optional().describe('of a body of which only the beginning is kept'),
    request_body_too_big_to_handle: z.literal(true).optional().describe('over 1 MiB, and left out'),
    response_body: z.unknown().optional().describe('JSON, or text: a stream as the client got it'),
    response_body_too_big_to_handle: z.literal(true).optional().describe('only the first MiB is here'),
  }),
  usage: usage.optional(),
  bodies_omitted: z.literal(true).optional(),
  conversation_payload: z.literal(true).optional().describe('the full entry has a conversation in it'),
});

const page = { total: z.int(), limit: z.int(), offset: z.int() };
const counters = {
  requests: z.int(),
  status_2xx: z.int(),
  status_4xx: z.int(),
  status_5xx: z.int(),
  status_other: z.int(),
};
const stats = z.object({
  interval: z.enum(['hour', 'day']),
  buckets: z.array(z.object({ start: z.iso.datetime(), ...counters })),
  summary: z.object({ ...counters, success_rate: z.number(), avg_duration_ms: z.number() }),
  provider_latency: z.array(
    z.object({ provider: z.string(), requests: z.array(z.int()), avg_duration_ms: z.array(z.number().nullable()) }),
  ),
});

const range = [
  query('days', 'The last so many days, today among them; dates win over it', z.int().default(30)),
  query('start_date', 'The first day, `YYYY-MM-DD`; 29 days before the end when absent', z.iso.date()),
  query('end_date', 'The last day, `YYYY-MM-DD`; today when absent', z.iso.date()),
  query('user_path', 'Only this user path and all below it'),
  header('X-Gateway-Timezone', 'The IANA zone in which days begin; UTC when absent or not known'),
];

const filters = [
  ...range,
  query('requested_model', 'A part of it, whatever the case'),
  query('provider', 'A part of the name or the type of the provider'),
  query('method', 'The HTTP method'),
  query('path', 'A part of path and query'),
  query('error_type', 'A part of it'),
  query('status_code', 'Exactly this status', z.int()),
  query('stream', 'Whether the client requested a stream', z.boolean()),
  query('search', 'A part of ids, model, provider, method, path, user path, error or session'),
];
const ofSession = query('session_id', 'Exactly this session');
const paging = [
  query('limit', 'At most 100', z.int().min(1).max(100).default(25)),
  query('offset', 'So many are left out', z.int().min(0).default(0)),
];

const logId = query('log_id', 'The `id` of an entry');

export const auditOperations: readonly Operation[] = [
  {
    operationId: 'adminAuditLog',
    methods: ['GET'],
    path: '/admin/audit/log',
    summary: 'Requests, newest first',
    description: 'Without bodies. A page by `cursor` costs the same at any depth.',
    tag: 'admin',
    parameters: [...filters, ofSession, ...paging, query('cursor', 'The `next_cursor` of a page: the page behind it')],
    success: {
      description: 'A page of entries',
      content: json(z.object({ entries: z.array(entry), ...page, next_cursor: z.string().optional() })),
    },
    errors: [400, 401, 403, 503],
  },
  {
    operationId: 'adminAuditSessions',
    methods: ['GET'],
    path: '/admin/audit/sessions',
    summary: 'Requests by session, the newest session first',
    description: 'A request without a session is a thread of its own.',
    tag: 'admin',
    parameters: [...filters, ...paging],
    success: {
      description: 'A page of threads',
      content: json(z.object({ sessions: z.array(z.object({ latest: entry, request_count: z.int() })), ...page })),
    },
    errors: [400, 401, 403, 503],
  },
  {
    operationId: 'adminAuditStats',
    methods: ['GET'],
    path: '/admin/audit/stats',
    summary: 'How requests went, by hour or day',
    description:
      'Up to three days by the hour, else by the day, from the first day to now. `provider_latency` counts what providers answered with success; its arrays are aligned with `buckets`.',
    tag: 'admin',
    parameters: range,
    success: { description: 'Counts', content: json(stats) },
    errors: [400, 401, 403, 503],
  },
  {
    operationId: 'adminAuditDetail',
    methods: ['GET'],
    path: '/admin/audit/detail',
    summary: 'One request with its bodies',
    description: 'The read is recorded before the bodies are returned.',
    tag: 'admin',
    parameters: [logId],
    success: { description: 'The entry', content: json(entry) },
    errors: [400, 401, 403, 404, 503],
  },
  {
    operationId: 'adminAuditConversation',
    methods: ['GET'],
    path: '/admin/audit/conversation',
    summary: 'The requests of a conversation with their bodies, oldest first',
    description: 'Those of the same session, and those whose answers were continued up to this one.',
    tag: 'admin',
    parameters: [logId, query('limit', 'At most 200', z.int().min(1).max(200).default(40))],
    success: {
      description: 'The conversation',
      content: json(z.object({ anchor_id: z.string(), entries: z.array(entry), truncated: z.boolean() })),
    },
    errors: [400, 401, 403, 404, 503],
  },
  {
    operationId: 'adminAuditExport',
    methods: ['GET'],
    path: '/admin/audit/export',
    summary: 'All requests that a filter finds, as a file',
    description:
      'Newest first, at most 1,000,000, and 200,000 as Parquet, which analytics writes; `x-total-count` says how many are to come. In CSV, what a spreadsheet would take for a formula is preceded by an apostrophe. Each export is on record.',
    tag: 'admin',
    parameters: [
      ...filters,
      ofSession,
      query('format', 'Of the file', z.enum(['csv', 'ndjson', 'parquet']).default('csv')),
    ],
    success: {
      description: 'The file',
      content: {
        'text/csv': textMedia,
        'application/x-ndjson': textMedia,
        'application/vnd.apache.parquet': { type: 'string', format: 'binary' },
      },
    },
    errors: [400, 401, 403, 503],
  },
  {
    operationId: 'adminSql',
    methods: ['POST'],
    path: '/admin/sql',
    summary: 'Run a SQL query',
    description:
      'ClickHouse runs the query as a read-only user, with limits on time, memory and the size of the answer. The query is recorded before it runs. See docs/analytics-tables.md for the tables.',
    tag: 'admin',
    request: { required: true, schema: sqlQuestion },
    success: {
      description: 'The answer, as ClickHouse writes the format',
      content: { 'application/json': { type: 'object' }, 'text/plain': textMedia, 'text/csv': textMedia },
    },
    errors: [400, 401, 403, 503],
  },
];
