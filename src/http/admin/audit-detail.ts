/** `GET /admin/audit/detail` and `/conversation`: requests with their bodies, read from the log. */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ReadAudit } from '../../commands/audit/audit-reads.ts';
import type { ReplayDependencies } from '../../commands/exchange/record/replay-answer.ts';
import { refusals } from '../../commands/refusal.ts';
import { type StreamName, streamName, type UserPath } from '../../events/event.ts';
import { idOfResponse, idsOfSession } from '../../projections/analytics/audit-queries.ts';
import type { ExchangeRow } from '../../projections/analytics/exchange-row.ts';
import { rowInLog } from '../../projections/analytics/request-in-log.ts';
import { scopedAdmin } from '../api/declare.ts';
import { type QueryParameter, queryOfParameters } from '../api/parameters.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import { limitIn } from '../paging.ts';
import { single } from '../query.ts';
import { callerOf, eventContextOf } from '../server.ts';
import { isWithin, scopeOf } from './admin-scope.ts';
import { auditEntry, conversationEntry, fullEntry } from './audit-entry.ts';
import type { AuditReports } from './audit-log.ts';
import { type RecordedRequest, recordedRequest } from './recorded-request.ts';

export interface AuditDetails extends AuditReports {
  readonly audit: ReadAudit;
  readonly recorded: ReplayDependencies;
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
      limit: {
        description: 'Most requests of the answer',
        schema: { type: 'integer', minimum: 1, maximum: TURNS.most, default: TURNS.usual },
        read: (query) => limitIn(query, TURNS),
      } satisfies QueryParameter<number>,
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

export function registerAuditDetail(admin: Routes, deps: AuditDetails): void {
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
    return fullEntry(found.row, found, found);
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
      .map((one) => conversationEntry(one.row, one, one));
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
  { db, recorded }: AuditDetails,
): Promise<{ readonly found: readonly RecordedRequest[]; readonly truncated: boolean }> {
  const found = new Map<string, RecordedRequest>();
  let bytes = 0;
  let truncated = false;

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
    const id = await idOfResponse(db, previous, { before, userPath });
    if (id === undefined || found.has(id)) break;
    earliest = await add(id);
  }
  if (sessionId !== '') {
    const ids = await idsOfSession(db, { sessionId, userPath, at }, limit + 1);
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
