/** The end of an exchange that the response cache answered. */
import { cacheHit } from '../../../events/catalogue/cache.ts';
import { usageRecorded } from '../../../events/catalogue/exchange.ts';
import { previousResponseOf } from '../../responses/previous-response.ts';
import type { CachedAnswer } from '../answer-source.ts';
import { cacheHeader } from '../delivery/answer-headers.ts';
import { addRouting } from '../delivery/requested-model.ts';
import { NO_ATTEMPT, sendWhole, wholeContentType } from '../delivery/send-whole.ts';
import * as events from '../record/end-events.ts';
import type { Issue } from '../reissuing/issued-texts.ts';
import type { RunningExchange } from './running-exchange.ts';

/** @returns the status of the answer. @throws LogUnavailable */
export async function completeCachedAnswer(answer: CachedAnswer, exchange: RunningExchange): Promise<number> {
  const { content, entry, cacheType, similarity, target, parsedRequest } = answer;
  const { record } = exchange;
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
  { cacheType, parsedRequest, target }: CachedAnswer,
  { dialect, record, request, guarded }: RunningExchange,
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
function storeResponse(
  { content: { template }, target, parsedRequest }: CachedAnswer,
  issue: Issue,
  { dialect, record, guarded }: RunningExchange,
): string | undefined {
  if (dialect.keeps?.(parsedRequest) !== true) return undefined;
  const stored = template.response(issue);
  if (stored === undefined) return undefined;
  const { provider, model } = target;
  events.noteResponse(record, stored, {
    // The provider does not know the id.
    ...{ provider: provider.name, providerType: provider.type, model, native: false },
    previousResponseId: previousResponseOf(parsedRequest),
    inputItems: dialect.inputItems?.(parsedRequest, stored.id) ?? '[]',
    placeholders: guarded?.guard.placeholders.recorded(),
  });
  return stored.id;
}

/** The tokens of the answer, without cost; what it cost the first time is saved. */
function noteUsage(
  { content: { usage }, cacheType, policy }: CachedAnswer,
  { record, request }: RunningExchange,
): void {
  if (usage === undefined || !policy.recordsUsage) return;
  const { providerId: _ofTheAnswer, ...counted } = usage;
  const { labels, sessionId } = request;
  const free = { inputCost: '0', outputCost: '0', totalCost: '0', savedCost: usage.totalCost };
  record.note(usageRecorded.create({ ...counted, ...free, cacheType, labels, sessionId }, record.context));
}
