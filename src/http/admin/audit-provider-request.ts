/** `GET /admin/audit/provider-request`: what a provider received for one request. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import { type ProviderRequest, providerRequest } from '../../projections/provider-request.ts';
import { scopedAdmin } from '../api/declare.ts';
import { numberParameter, queryOfParameters } from '../api/parameters.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import { timeText } from '../dates.ts';
import { callerOf, eventContextOf } from '../server.ts';
import { type AuditDetails, logId } from './audit-detail.ts';
import { bodyAnswer, recordedBody, visibleExchange } from './audit-events.ts';

/** Of a body in one answer. */
const MOST_BYTES = 8 * 1024 * 1024;

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

export function registerAuditProviderRequest(admin: Routes, deps: AuditDetails): void {
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
