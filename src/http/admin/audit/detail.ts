/**
 * `GET /admin/audit/detail`, `/conversation` and `/chain`: requests with their bodies, read from the log, and those
 * that belong together.
 */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type ReplayDependencies, replayAnswer } from '../../../commands/exchange/record/replay-answer.ts';
import { refusals } from '../../../commands/refusal.ts';
import { idOf, type StreamName, streamName, type UserPath } from '../../../events/event.ts';
import { parseExactly } from '../../../json/exact-json.ts';
import type { Ask } from '../../../projections/analytics/analytics-db.ts';
import { idOfResponse, idsOfSession, type RequestUsage } from '../../../projections/analytics/audit-queries.ts';
import { type ChainNode, exchangeChain } from '../../../projections/analytics/exchange-chain.ts';
import type { ExchangeRow } from '../../../projections/analytics/exchange-row.ts';
import {
  FirstBytes,
  MOST_BODY_BYTES,
  type RequestInLog,
  requestInLog,
  rowInLog,
} from '../../../projections/analytics/request-in-log.ts';
import type { VerdictRow } from '../../../projections/verdicts.ts';
import { numberParameter, parameterWithDefault, type QueryParameter, queryOfParameters } from '../../api/parameters.ts';
import { jsonAnswer, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { timeText } from '../../dates.ts';
import { single } from '../../request-head.ts';
import { callerOf, eventContextOf } from '../../server.ts';
import { isWithin, scopeOf } from '../admin-scope.ts';
import { askFor, type Reports } from '../reports/report-db.ts';
import { auditEntry, entry, type RecordedContent } from './entry.ts';

/** One request with its bodies, as the admin API shows them: JSON as JSON, and the answer as the client received it. */
interface RecordedRequest extends RecordedContent {
  readonly row: ExchangeRow;
  readonly usage: RequestUsage | undefined;
  readonly verdicts: readonly VerdictRow[];
  /** Of the returned part of its bodies. */
  readonly bodyBytes: number;
}

const MOST_ERROR_BYTES = 64 * 1024;

/** Undefined for an unknown request. */
async function recordedRequest(stream: StreamName, deps: ReplayDependencies): Promise<RecordedRequest | undefined> {
  const found = await requestInLog(stream, deps.log);
  if (found === undefined) return undefined;
  const { row, usage, headers, body, cut, failures, responseBody, delivered, verdicts, revisions } = found;
  const requestBodyTooBig = isTooBig(body);
  const answer = delivered ?? (row.outcome === 'in_progress' ? responseBody : await answerAgain(stream, deps, found));
  const bodies = [body, ...revisions].filter((one) => !isTooBig(one));
  return {
    row,
    usage,
    verdicts,
    bodyBytes:
      answer.bytes +
      (delivered === undefined ? 0 : responseBody.bytes) +
      bodies.reduce((sum, one) => sum + (one?.length ?? 0), 0),
    requestHeaders: headers,
    requestBody: body === undefined || body.length === 0 || requestBodyTooBig ? undefined : readable(body),
    requestBodyTooBig,
    requestBodyCut: cut,
    responseBody: answer.bytes === 0 ? undefined : readable(answer.joined()),
    responseBodyTooBig: answer.tooMany,
    revisions: revisions.map((revision) => ({
      bytesBefore: cut?.bytes ?? body?.length,
      bytesAfter: revision.length,
      body: isTooBig(revision) ? undefined : readable(revision),
    })),
    attemptBodies: new Map(
      [...failures].map(([attempt, sent]) => [attempt, readable(sent.subarray(0, MOST_ERROR_BYTES))]),
    ),
    providerBody: delivered === undefined || responseBody.bytes === 0 ? undefined : readable(responseBody.joined()),
    providerBodyTooBig: delivered !== undefined && responseBody.tooMany,
  };
}

function isTooBig(body: Uint8Array | undefined): boolean {
  return body !== undefined && body.length > MOST_BODY_BYTES;
}

/**
 * The answer as the client received it, or else the provider's answer. An answer from the response cache has no bytes of
 * a provider on its own record.
 */
async function answerAgain(
  stream: StreamName,
  deps: ReplayDependencies,
  { row, responseBody }: Pick<RequestInLog, 'row' | 'responseBody'>,
): Promise<FirstBytes> {
  if (responseBody.bytes === 0 && row.cache_type === '') return responseBody;
  const recordedBody = new FirstBytes();
  const stop = new AbortController();
  try {
    for await (const part of replayAnswer(idOf(stream), deps, stop.signal)) {
      if (part.kind === 'bytes') recordedBody.add(part.bytes);
      if (recordedBody.tooMany) break;
    }
  } catch {
    // An answer that cannot be rebuilt is returned as the provider sent it.
    return responseBody;
  } finally {
    stop.abort();
  }
  return recordedBody.bytes === 0 ? responseBody : recordedBody;
}

function readable(bytes: Uint8Array): unknown {
  const text = new TextDecoder().decode(bytes);
  try {
    return parseExactly(text);
  } catch {
    return text;
  }
}

const TURNS = { usual: 40, most: 200 };

export const logId: QueryParameter<string> = {
  description: 'Required: `id` of an entry',
  schema: { type: 'string' },
  read(query, name) {
    const id = single(query[name]);
    if (id === undefined) throw refusals.missingParameter(name);
    return id;
  },
};

const getDetail = scopedAdmin('adminAuditDetail', 'Get one request with its bodies', {
  description: 'The read is recorded before the bodies are sent.',
  querystring: queryOfParameters({ log_id: logId }),
  response: { 200: jsonAnswer('The entry', auditEntry) },
  errors: [404],
});

const getConversation = scopedAdmin(
  'adminAuditConversation',
  'List the requests of a conversation with their bodies, oldest first',
  {
    description:
      'The requests of the same session, and those whose responses were continued up to this one. The read is recorded before the bodies are sent.',
    querystring: queryOfParameters({
      log_id: logId,
      limit: parameterWithDefault(
        numberParameter({ least: 1, most: TURNS.most }, 'Most requests of the answer'),
        TURNS.usual,
      ),
    }),
    response: {
      200: jsonAnswer(
        'The conversation',
        z.object({
          anchor_id: z.string(),
          entries: z.array(auditEntry),
          truncated: z.boolean().describe('Whether requests are missing because of `limit` or the size of the bodies'),
        }),
      ),
    },
    errors: [404],
  },
);

/** Total size of the bodies in a conversation. */
const MOST_BYTES = 8 * 1024 * 1024;

export function registerAuditDetail(admin: Routes, deps: Reports): void {
  const { audit, recorded } = deps;

  admin.get('/audit/detail', getDetail, async (request) => {
    const { log_id: id } = request.query;
    const stream = streamOfEntry(id);
    if (!deps.isKept) throw refusals.featureUnavailable('Requests are not kept for queries: LOGGING_ENABLED=false.');
    const facts = stream === undefined ? undefined : await rowInLog(stream, recorded.log);
    if (stream === undefined || facts === undefined || !isVisibleTo(request, facts)) throw unknownEntry(id);
    await audit.stored('audit_entry', stream, callerOf(request), eventContextOf(request));
    const found = await recordedRequest(stream, recorded);
    if (found === undefined) throw unknownEntry(id);
    return entry(found.row, found, found);
  });

  admin.get('/audit/conversation', getConversation, async (request) => {
    const { log_id: id, limit } = request.query;
    const stream = streamOfEntry(id);
    const anchor = stream === undefined || !deps.isKept ? undefined : await rowInLog(stream, recorded.log);
    if (stream === undefined || anchor === undefined || !isVisibleTo(request, anchor)) {
      if (deps.isKept && scopeOf(request) !== undefined) throw unknownEntry(id);
      return { anchor_id: id, entries: [], truncated: false };
    }
    await audit.question('audit_conversation', { log_id: id }, eventContextOf(request));
    const { found, truncated } = await conversation(anchor, limit, deps);
    const entries = found
      .filter(({ row }) => isVisibleTo(request, row))
      .sort((one, other) => Number(one.row.at_us) - Number(other.row.at_us))
      // Bodies and cost, without the attempts at providers.
      .map((one) => entry({ ...one.row, attempts: [] }, one, one));
    return { anchor_id: id, entries, truncated };
  });
}

/**
 * The requests of the anchor's session, nearest first, and those whose answers were continued up to it. Only the anchor
 * while analytics is off.
 */
async function conversation(
  anchor: ExchangeRow,
  limit: number,
  { db, recorded }: Reports,
): Promise<{ readonly found: readonly RecordedRequest[]; readonly truncated: boolean }> {
  const found = new Map<string, RecordedRequest>();
  let bytes = 0;
  let truncated = false;
  const ask: Ask = (query, parameters) => db.rows(query, parameters);

  /** @returns undefined when the limit of requests or bytes is reached */
  async function add(id: string): Promise<RecordedRequest | undefined> {
    if (found.size >= limit || bytes > MOST_BYTES) {
      truncated = true;
      return undefined;
    }
    const one = await recordedRequest(streamName('exchange', id), recorded);
    if (one === undefined) return undefined;
    found.set(id, one);
    bytes += one.bodyBytes;
    return one;
  }

  const at = Number(anchor.at_us) / 1000;
  let earliest = await add(anchor.id);
  const { user_path: userPath, session_id: sessionId } = anchor;
  for (;;) {
    const previous = previousResponseOf(earliest);
    if (earliest === undefined || previous === undefined) break;
    const before = Number(earliest.row.at_us) / 1000;
    const id = await idOfResponse(ask, previous, { before, userPath });
    if (id === undefined || found.has(id)) break;
    earliest = await add(id);
  }
  if (sessionId !== '') {
    const ids = await idsOfSession(ask, { sessionId, userPath, at }, limit + 1);
    for (const id of ids) if (!found.has(id)) await add(id);
  }
  return { found: [...found.values()], truncated };
}

function previousResponseOf(request: RecordedRequest | undefined): string | undefined {
  const { previous_response_id: id }: { previous_response_id?: unknown } = Object(request?.requestBody);
  return typeof id === 'string' ? id : undefined;
}

/** An administrator of a subtree sees only its requests; any other id is treated as unknown. */
function isVisibleTo(request: FastifyRequest, { user_path }: ExchangeRow): boolean {
  return isWithin(scopeOf(request), user_path as UserPath);
}

/** Undefined when no request can have this id. */
export function streamOfEntry(id: string): StreamName | undefined {
  return /^[\w.-]{1,128}$/.test(id) ? streamName('exchange', id) : undefined;
}

export function unknownEntry(id: string) {
  return refusals.notFound('audit entry', id.slice(0, 128));
}

/** `GET /admin/audit/chain`: the requests that belong together with one request, as a graph without content. */
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
    limit: parameterWithDefault(
      numberParameter({ least: 1, most: NODES.most }, 'Most requests of the graph'),
      NODES.usual,
    ),
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

export function registerAuditChain(admin: Routes, { db, isKept, recorded }: Reports): void {
  admin.get('/audit/chain', getChain, async (request, reply) => {
    const { log_id: id, limit } = request.query;
    if (!isKept) throw refusals.featureUnavailable('Requests are not kept for queries: LOGGING_ENABLED=false.');
    const stream = streamOfEntry(id);
    const scope = scopeOf(request);
    const isVisible = ({ user_path }: ChainNode['row']) => isWithin(scope, user_path as UserPath);
    const options = { ask: askFor(reply, db), log: recorded.log, limit, isVisible };
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
