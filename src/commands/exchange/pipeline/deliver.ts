/**
 * Sends the answer to the client, except the last bytes, which wait until the end of the exchange is on disk. Answers
 * that no provider gives are here whole: from the record, from the response cache, and errors.
 */

import { cacheHit } from '../../../events/catalogue/cache.ts';
import { answerReplayed, usageRecorded } from '../../../events/catalogue/exchange.ts';
import type { RequestReservation } from '../../model-request/admission.ts';
import type { Client } from '../../model-request/model-request.ts';
import type { Target } from '../../model-request/routing-types.ts';
import type { Refusal } from '../../refusal.ts';
import { previousResponseOf } from '../../responses/create-request.ts';
import type { StorableResponse } from '../../responses/storable-response.ts';
import type { Answer, CachedAnswer, DeliveredAnswer, RecordedAnswer } from '../answer-source.ts';
import { addRouting, cacheHeader } from '../delivery/answer-headers.ts';
import * as events from '../record/end-events.ts';
import type { Issue } from '../reissuing/answer-facts.ts';
import type { Governed, RunningExchange } from './running-exchange.ts';

/** @throws LogUnavailable */
export function deliver(answer: Answer, exchange: RunningExchange): DeliveredAnswer | Promise<DeliveredAnswer> {
  if (answer.source === 'record') return deliverReplay(answer, exchange);
  // One piece, which waits until the end is on disk.
  if (answer.source === 'gateway') return { source: 'gateway', answer };
  if (answer.source === 'cache') return { source: 'cache', answer };
  const { result } = answer;
  if (result.kind !== 'open') return { source: 'provider', answer, outcome: result };
  return result.deliver().then((end) => {
    for (const delivered of exchange.whenDelivered) delivered(end);
    return { source: 'provider', answer, outcome: end };
  });
}

// Sends an answer that is generated again from the record, piece by piece; the last piece waits until the end is on
// disk.

/** @throws LogUnavailable */
async function deliverReplay(answer: RecordedAnswer, exchange: RunningExchange): Promise<DeliveredAnswer> {
  const { record, client } = exchange;
  if (answer.exchangeId !== undefined) {
    record.note(answerReplayed.create({ exchangeId: answer.exchangeId }, record.context));
  }
  let rest: Buffer | undefined;
  let bytes = 0;
  for await (const part of answer.parts) {
    if (part.kind === 'end') {
      const { broken } = part;
      return { source: 'record', answer, end: broken === undefined ? 'whole' : 'broken', broken, rest, bytes };
    }
    const before = rest;
    rest = part.bytes;
    bytes += part.bytes.length;
    if (before === undefined) continue;
    if (!client.begun) {
      await record.flush('written');
      client.begin(200, replayHeaders(answer, exchange));
    }
    await client.write(before);
  }
  return { source: 'record', answer, end: 'early', broken: undefined, rest: undefined, bytes };
}

export function replayHeaders(
  { stream, requestedModel, attempt }: RecordedAnswer,
  { record, request }: RunningExchange,
): Record<string, string> {
  const headers: Record<string, string> = {
    'content-type': stream ? 'text/event-stream; charset=utf-8' : 'application/json',
    'x-request-id': request.requestId,
    'x-exchange-id': record.id,
    'idempotent-replayed': 'true',
  };
  addRouting(headers, requestedModel, attempt.provider);
  return headers;
}

// The end of an exchange that the response cache answered.

/** @returns the status of the answer. @throws LogUnavailable */
export async function completeCachedAnswer(answer: CachedAnswer, exchange: Governed): Promise<number> {
  const { content, entry, cacheType, similarity, target } = answer;
  const { record, parsedRequest } = exchange;
  const { template, finishReason } = content;
  const issue = { exchangeId: record.id, createdAt: record.createdAt };
  const { exchangeId, digest, storedAt } = entry;
  record.note(cacheHit.create({ exchangeId, cacheType, digest, similarity, storedAt }, record.context));
  const responseId = storeResponse(answer, issue, exchange);
  const received = { chunks: 0, bytes: 0, firstByteMs: undefined };
  const { provider, model } = target;
  events.noteCompleted(record, received, {
    ...{ status: 200, attempt: NO_ATTEMPT, provider: provider.name, model: model || undefined, finishReason },
    responseId,
  });
  noteUsage(answer, exchange);
  await record.flush('durable');
  return sendWhole(exchange.client, parsedRequest, headersOf(answer, exchange), template.render(issue));
}

function headersOf(
  { cacheType, target }: CachedAnswer,
  { dialect, record, request, parsedRequest, guarded }: Governed,
): Record<string, string> {
  const given: Record<string, string> = { 'content-type': wholeContentType(parsedRequest) };
  const headers = dialect.answerHeaders?.({ status: 200, headers: given }, request) ?? given;
  guarded?.guard.changeAnswerHeaders(headers);
  headers['x-request-id'] = request.requestId;
  headers['x-exchange-id'] = record.id;
  headers[cacheHeader] = `HIT (${cacheType})`;
  addRouting(headers, parsedRequest.model, target.provider.name);
  return headers;
}

/** The response belongs to this caller; the one it was made from belongs to the earlier caller. */
function storeResponse({ content: { template }, target }: CachedAnswer, issue: Issue, exchange: Governed) {
  const stored = keepsResponse(exchange) ? template.response(issue) : undefined;
  // The provider does not know the id.
  return stored === undefined ? undefined : keepResponse(stored, target, false, exchange);
}

/** Whether a response has to be stored, or remembered by its dialect. */
export function keepsResponse({ dialect, parsedRequest }: Governed): boolean {
  return dialect.remember !== undefined || dialect.keeps?.(parsedRequest) === true;
}

/** @param native whether the provider keeps it too. @returns the id under which it is stored; undefined when it is not */
export function keepResponse(
  stored: StorableResponse,
  { provider, model }: Target,
  native: boolean,
  { dialect, record, parsedRequest, guarded }: Governed,
): string | undefined {
  const facts = {
    ...{ provider: provider.name, providerType: provider.type, model, native },
    previousResponseId: previousResponseOf(parsedRequest),
    inputItems: dialect.inputItems?.(parsedRequest, stored.id) ?? '[]',
    placeholders: guarded?.guard.placeholders.recorded(),
  };
  if (dialect.keeps?.(parsedRequest) === true) {
    events.noteResponse(record, stored, facts);
    return stored.id;
  }
  const { id, status, json } = stored;
  if (status === 'completed' || status === 'incomplete') {
    const { placeholders = [] } = facts;
    dialect.remember?.({ ...facts, ...record.owner, id, status, json, exchangeId: record.id, placeholders });
  }
  return undefined;
}

/** The tokens of the answer, without cost; what it cost the first time is saved. */
function noteUsage({ content: { usage }, cacheType }: CachedAnswer, { record, request, policy }: Governed): void {
  if (usage === undefined || !policy.recordsUsage) return;
  const { providerId: _ofTheAnswer, ...counted } = usage;
  const { labels, sessionId } = request;
  const free = { inputCost: '0', outputCost: '0', totalCost: '0', savedCost: usage.totalCost };
  record.note(usageRecorded.create({ ...counted, ...free, cacheType, labels, sessionId }, record.context));
}

// Sends an answer that is complete before its first byte is sent: from a guardrail, or from the response cache.

/** Number of the attempt in the record: no provider was called. */
export const NO_ATTEMPT = 0;

/** The content type of such an answer. */
export function wholeContentType({ stream }: { readonly stream: boolean }): string {
  return stream ? 'text/event-stream; charset=utf-8' : 'application/json';
}

/** @returns the status that is recorded: 200 */
export function sendWhole(
  client: Client,
  { stream }: { readonly stream: boolean },
  headers: Record<string, string>,
  bytes: Buffer,
): number {
  if (!stream) {
    client.answer(200, headers, bytes);
    return 200;
  }
  client.begin(200, headers);
  client.write(bytes);
  client.end();
  return 200;
}

/** Sends an error with the ids of the exchange and the limits of the caller. @returns its status */
export function sendError(
  { record, request, client }: RunningExchange,
  refusal: Refusal,
  reservation?: RequestReservation,
): number {
  const limits = reservation?.headers() ?? refusal.rateLimits;
  client.refuse(refusal, { ...limits, 'x-exchange-id': record.id, 'x-request-id': request.requestId });
  return refusal.status;
}
