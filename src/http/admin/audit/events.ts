/**
 * `GET /admin/audit/events` and `/provider-request`: the recorded events and the sent body of one request, read from
 * the log.
 */
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { refusals } from '../../../commands/refusal.ts';
import { idOf, type RecordedEvent, type StreamName, type UserPath } from '../../../events/event.ts';
import {
  envelopeOf,
  eventAt,
  eventsPage,
  firstEventOf,
  hasEnded,
  isBodyWithheld,
  type RelatedEvent,
  type RelatedEvents,
  relatedEvents,
} from '../../../projections/exchange-events.ts';
import { type ProviderRequest, providerRequest } from '../../../projections/provider-request.ts';
import { numberParameter, parameterWithDefault, queryOfParameters } from '../../api/parameters.ts';
import { jsonAnswer, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { timeText } from '../../dates.ts';
import { callerOf, eventContextOf } from '../../server.ts';
import { isWithin, scopeOf } from '../admin-scope.ts';
import type { Reports } from '../reports/report-db.ts';
import { logId, streamOfEntry, unknownEntry } from './detail.ts';

const PAGE = { usual: 200, most: 1000 };
/** Longer bodies are cut in pages. */
const CUT_BYTES = 256 * 1024;
/** Size of the bodies of a page, and of one body that is read by its revision. */
const MOST_BYTES = 8 * 1024 * 1024;

const revision = numberParameter(
  { least: 0, most: Number.MAX_SAFE_INTEGER },
  'Only the event with this revision, with up to 8 MiB of its body',
);
const offset = numberParameter(
  { least: 0, most: Number.MAX_SAFE_INTEGER },
  'With `revision`: the first byte of the body that is returned',
);
const after = numberParameter({ least: 0, most: Number.MAX_SAFE_INTEGER }, 'Only events with a greater revision');

const recordedBody = {
  body: z.string().optional().describe('The body, or its returned part, when that is valid UTF-8'),
  body_base64: z.string().optional().describe('When it is not'),
  body_bytes: z.int().optional().describe('Size of the recorded body; absent when the event has none'),
  body_offset: z.int().optional().describe('Of the returned part, when it does not begin with the body'),
  body_cut: z.literal(true).optional().describe('The body continues behind the returned part'),
  body_next_offset: z.int().optional().describe('With `body_cut`: the first byte that is not returned'),
};

const recordedEvent = z.object({
  id: z.string(),
  type: z.string(),
  schema: z.int().describe('Version of `data`'),
  stream: z.string(),
  revision: z.string().describe('Number in the stream, from 0'),
  position: z.string().describe('Number in the log'),
  at: z.iso.datetime(),
  actor: z.string(),
  user_path: z.string().optional(),
  request_id: z.string().optional(),
  causation_id: z.string().optional(),
  correlation_id: z.string().optional(),
  traceparent: z.string().optional(),
  data: z.record(z.string(), z.unknown()).describe('As in docs/events.md'),
  ...recordedBody,
  body_withheld: z
    .literal(true)
    .optional()
    .describe('The body contains values that guardrails kept from providers. It is only in the log'),
});

const link = z.object({
  relation: z
    .enum(['recorded_with', 'caused'])
    .describe('`recorded_with`: in the same append. `caused`: the first event of an exchange that this one caused'),
  id: z.string().describe('Of the object: a response, a conversation, an exchange'),
  stream: z.string(),
  type: z.string(),
  revision: z.string(),
  position: z.string(),
  at: z.iso.datetime(),
});

const eventsAnswer = z.object({
  log_id: z.string(),
  events: z.array(recordedEvent),
  has_more: z.boolean(),
  related: z
    .array(link)
    .optional()
    .describe(
      'Events of other streams that belong to the request, without content: on the last page of a request that has ' +
        'ended, and on a page that is the first and the last',
    ),
  related_truncated: z.literal(true).optional().describe('The request lasted too long to search for all of them'),
});

const getEvents = scopedAdmin('adminAuditEvents', 'List the recorded events of one request', {
  description:
    'In the order of its stream, also while the request is running. Bodies beyond 256 KiB are cut (`body_cut`), and a ' +
    'page ends early when its bodies exceed 8 MiB. The read is recorded before content is sent.',
  querystring: queryOfParameters({
    log_id: logId,
    after,
    limit: parameterWithDefault(numberParameter({ least: 1, most: PAGE.most }, 'Most events of the page'), PAGE.usual),
    revision,
    offset,
  }),
  response: { 200: jsonAnswer('A page of events', eventsAnswer) },
  errors: [404],
});

export function registerAuditEvents(admin: Routes, deps: Reports): void {
  const { audit, recorded } = deps;
  const { log } = recorded;

  admin.get('/audit/events', getEvents, async (request) => {
    const { log_id: id, after: last, limit, revision: only, offset: from = 0 } = request.query;
    const stream = await visibleExchange(id, request, deps);
    const noteRead = () => audit.stored('audit_events', stream, callerOf(request), eventContextOf(request));
    if (only !== undefined) {
      const event = await eventAt(stream, BigInt(only), log);
      if (event === undefined) throw refusals.notFound('event', `${id.slice(0, 128)} at revision ${only}`);
      await noteRead();
      return { log_id: id, events: [eventAnswer(event, from, MOST_BYTES)], has_more: false };
    }
    const page = { after: last === undefined ? undefined : BigInt(last), limit, mostBytes: MOST_BYTES, bytesOf };
    const { events, hasMore } = await eventsPage(stream, page, log);
    // A reader who waits for the next event of a running request reads nothing while there is none.
    if (events.length > 0) await noteRead();
    // The search is not repeated for each new event of a running request.
    const isLast = !hasMore && events.length > 0 && (last === undefined || (await hasEnded(stream, log)));
    return {
      log_id: id,
      events: events.map((event) => eventAnswer(event, 0, CUT_BYTES)),
      has_more: hasMore,
      ...(isLast ? linksOf(await relatedEvents(stream, log), scopeOf(request)) : {}),
    };
  });
}

/**
 * The stream of a request that the caller may see.
 * @throws Refusal 404, also for a request outside the scope; 503 when requests are not kept
 */
async function visibleExchange(
  id: string,
  request: FastifyRequest,
  { isKept, recorded }: Reports,
): Promise<StreamName> {
  const stream = streamOfEntry(id);
  if (!isKept) throw refusals.featureUnavailable('Requests are not kept for queries: LOGGING_ENABLED=false.');
  const first = stream === undefined ? undefined : await firstEventOf(stream, recorded.log);
  if (stream === undefined || first === undefined || !isVisible(first, scopeOf(request))) throw unknownEntry(id);
  return stream;
}

function isVisible({ context }: RecordedEvent, scope: UserPath | undefined): boolean {
  return isWithin(scope, context.userPath);
}

function bytesOf(event: RecordedEvent): number {
  return isBodyWithheld(event) ? 0 : Math.min(event.body?.length ?? 0, CUT_BYTES);
}

function eventAnswer(event: RecordedEvent, offset: number, mostBytes: number) {
  const { userPath, requestId, causationId, correlationId, data, ...envelope } = envelopeOf(event);
  return {
    ...envelope,
    user_path: userPath,
    request_id: requestId,
    causation_id: causationId,
    correlation_id: correlationId,
    data: Object(data),
    ...(isBodyWithheld(event)
      ? { body_bytes: event.body?.length, body_withheld: true as const }
      : bodyAnswer(event.body, offset, mostBytes)),
  };
}

/** A part of a recorded body: text where it is valid UTF-8, else base64. No character of a text is cut in two. */
function bodyAnswer(body: Uint8Array | undefined, offset: number, mostBytes: number) {
  if (body === undefined) return {};
  const whole = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const part = wholeCharacters(whole.subarray(offset, offset + mostBytes));
  const isCut = offset + part.length < whole.length;
  return {
    ...(isUtf8(part) ? { body: part.toString('utf8') } : { body_base64: part.toString('base64') }),
    body_bytes: whole.length,
    ...(offset === 0 ? {} : { body_offset: offset }),
    ...(isCut ? { body_cut: true as const, body_next_offset: offset + part.length } : {}),
  };
}

/** Without the beginning of a character at the end, where the rest is valid UTF-8. */
function wholeCharacters(part: Buffer): Buffer {
  for (let length = part.length; length >= Math.max(0, part.length - 3); length--) {
    const shorter = part.subarray(0, length);
    if (isUtf8(shorter)) return shorter;
  }
  return part;
}

function linksOf({ related, truncated }: RelatedEvents, scope: UserPath | undefined) {
  return {
    // Guardrails call models at a user path of their own.
    related: related.filter(({ event }) => isVisible(event, scope)).map(linkOf),
    ...(truncated ? { related_truncated: true as const } : {}),
  };
}

function linkOf({ relation, event }: RelatedEvent) {
  const { stream, type, revision: number, position, at } = envelopeOf(event);
  return { relation, id: idOf(event.stream), stream, type, revision: number, position, at };
}

const part = z.object({
  name: z.string(),
  filename: z.string().optional(),
  content_type: z.string().optional(),
  bytes: z.int(),
  sha256: z.string().optional(),
  value: z.string().optional().describe('Of a text field, as the client sent it'),
});

const providerRequestAnswer = z.object({
  log_id: z.string(),
  attempt: z.int(),
  kind: z.enum(['primary', 'retry', 'translation', 'failover']),
  at: z.iso.datetime(),
  provider_name: z.string(),
  provider_type: z.string(),
  model: z.string().optional(),
  dialect: z.string(),
  path: z.string().optional().describe("On the provider's server, without query; absent for forwarded requests"),
  content_type: z.string().optional(),
  calls: z.int().optional().describe('How many times it was sent at once, for `n` choices; absent for one'),
  recorded: z
    .enum(['body', 'digest', 'parts', 'none'])
    .describe(
      '`body`: the exact bytes. `digest`: only size and SHA-256, where bodies or files are not kept. `parts`: the fields ' +
        'and files of a streamed form. `none`: an earlier version recorded the request, or the pieces of an upload are not kept',
    ),
  bytes: z.int().optional().describe('Size of the body'),
  sha256: z.string().optional().describe('Of the body, hexadecimal'),
  ...recordedBody,
  parts: z.array(part).optional(),
});

const getProviderRequest = scopedAdmin('adminAuditProviderRequest', 'Get the body that a provider received', {
  description:
    'The bytes that were sent, after translation, guardrails, earlier turns and plugins; headers are not recorded. A ' +
    'body beyond 8 MiB is cut: `offset` continues it. The read is recorded before the body is sent.',
  querystring: queryOfParameters({
    log_id: logId,
    attempt: numberParameter({ least: 1, most: 1_000_000 }, 'Number of the attempt; default: the last one'),
    offset: numberParameter({ least: 0, most: Number.MAX_SAFE_INTEGER }, 'First byte of the body that is returned'),
  }),
  response: { 200: jsonAnswer('The request to the provider', providerRequestAnswer) },
  errors: [404],
});

export function registerAuditProviderRequest(admin: Routes, deps: Reports): void {
  const { audit, recorded } = deps;

  admin.get('/audit/provider-request', getProviderRequest, async (request) => {
    const { log_id: id, attempt: number, offset = 0 } = request.query;
    const stream = await visibleExchange(id, request, deps);
    const found = await providerRequest(stream, number, recorded.log);
    if (found === undefined) throw refusals.notFound('attempt', `${number ?? 'of a provider'} in ${id.slice(0, 128)}`);
    await audit.stored('audit_provider_request', stream, callerOf(request), eventContextOf(request));
    const { attempt, at, contentType } = found;
    return {
      log_id: id,
      attempt: attempt.attempt,
      kind: attempt.kind,
      at: timeText(at),
      provider_name: attempt.provider,
      provider_type: attempt.providerType,
      model: attempt.model,
      dialect: attempt.dialect,
      path: attempt.request?.path,
      content_type: contentType,
      calls: attempt.calls,
      ...contentAnswer(found.content, offset),
    };
  });
}

function contentAnswer(content: ProviderRequest['content'], offset: number) {
  switch (content.kind) {
    case 'body': {
      const { bytes } = content;
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      return { recorded: 'body' as const, bytes: bytes.length, sha256, ...bodyAnswer(bytes, offset, MOST_BYTES) };
    }
    case 'digest':
      return { recorded: 'digest' as const, bytes: content.bytes, sha256: content.sha256 };
    case 'parts': {
      const parts = content.parts.map(({ contentType, ...rest }) => ({ ...rest, content_type: contentType }));
      return { recorded: 'parts' as const, parts };
    }
    case 'unknown':
      return { recorded: 'none' as const };
  }
}
