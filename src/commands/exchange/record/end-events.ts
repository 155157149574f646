/** The events that end an exchange. Every way an exchange can end is a function here. */

import { createHash } from 'node:crypto';
import type { z } from 'zod';
import * as events from '../../../events/catalogue/exchange.ts';
import { requestPartReceived, requestReceived, requestRefused } from '../../../events/catalogue/exchange.ts';
import { responseStored } from '../../../events/catalogue/response.ts';
import { type EventContext, type NewEvent, streamName } from '../../../events/event.ts';
import { parseExactly } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import type { RecordedPlaceholder } from '../../guardrails/placeholders.ts';
import { usdOf } from '../../limits/budget.ts';
import type { ParsedRequest } from '../../model-request/model-request.ts';
import { idsAnswered } from '../../model-request/references.ts';
import { contradictionIn, type DeferredWork, withThinking } from '../../model-request/usage.ts';
import type { PricedUsage, UsageCost } from '../../pricing/pricing.ts';
import type { Refusal } from '../../refusal.ts';
import type { StoredResponse } from '../../responses/archive.ts';
import { itemWrites } from '../../responses/input-items.ts';
import type { StorableResponse } from '../../responses/storable-response.ts';
import { contextFor, creatorFact, type Owner, type VisibilityScope } from '../../visibility.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { Received } from '../plan.ts';
import type { AnswerWriter } from '../response-stream.ts';

/** When the request itself is at fault and nothing is recorded yet, its content is cut. */
export function noteRefused(record: ExchangeRecord, refusal: Refusal): void {
  const { status, type, code, param, message } = refusal;
  record.note(
    events.requestRefused.create({ status, type, code, param, message, durationMs: record.elapsed() }, record.context),
  );
  if (!record.flushed && isOfRequest(refusal)) record.revise(cutContent);
}

export function noteCompleted(
  record: ExchangeRecord,
  received: Received,
  facts: {
    status: number;
    attempt: number;
    provider: string;
    model?: string;
    finishReason: string | null;
    responseId?: string;
    answer?: Uint8Array;
  },
): void {
  const { status, attempt, provider, model, finishReason, responseId, answer } = facts;
  const { chunks, bytes, firstByteMs } = received;
  record.note(
    events.exchangeCompleted.create(
      {
        status,
        attempt,
        provider,
        model,
        finishReason,
        chunks,
        bytes,
        firstByteMs,
        durationMs: record.elapsed(),
        responseId,
      },
      record.context,
      answer,
    ),
  );
}

type FailureReason = z.infer<typeof events.exchangeFailed.data>['reason'];

export function noteFailed(
  record: ExchangeRecord,
  refusal: Refusal,
  facts: {
    /** The status that the client got: the refusal's, 200 when bytes had been sent before, or 0. */
    status: number;
    reason: FailureReason;
    chunks: number;
    responseId?: string;
    answer?: Uint8Array;
  },
): void {
  const { status, reason, chunks, responseId, answer } = facts;
  const { type, code, message } = refusal;
  record.note(
    events.exchangeFailed.create(
      { status, type, code, message, reason, chunks, durationMs: record.elapsed(), responseId },
      record.context,
      answer,
    ),
  );
}

export function noteDisconnected(record: ExchangeRecord, received: Received, responseId?: string): void {
  const { chunks, bytes } = received;
  record.note(
    events.clientDisconnected.create({ chunks, bytes, durationMs: record.elapsed(), responseId }, record.context),
  );
}

/** What the usage is charged to, besides the user path. */
export interface UsageAccount {
  readonly labels?: readonly string[] | undefined;
  readonly sessionId?: string | undefined;
}

/** @param spent usage of the answer, or of a failed attempt when `failedAttempt` is set */
export function noteUsage(
  record: ExchangeRecord,
  spent: PricedUsage,
  cost: UsageCost,
  account: UsageAccount,
  failedAttempt?: number,
): void {
  record.cost = (record.cost ?? 0) + (cost.totalCost === null ? Number.NaN : usdOf(Number(cost.totalCost)));
  record.note(usageEvent(record.context, spent, cost, account, failedAttempt));
}

/** Longer ids are not recorded; providers' ids are shorter. */
const MAX_ID_LENGTH = 256;

/**
 * Assigned member by member: there is one such event per request, and object spread costs more than all of the
 * pricing.
 */
export function usageEvent(
  context: EventContext,
  spent: PricedUsage,
  cost: UsageCost,
  account: UsageAccount,
  failedAttempt?: number,
): NewEvent {
  const { units } = spent;
  const usage = withThinking(spent.usage, spent.providerType);
  return events.usageRecorded.create(
    {
      provider: spent.provider,
      providerType: spent.providerType,
      model: spent.model,
      endpoint: spent.endpoint,
      providerId: spent.answerId?.slice(0, MAX_ID_LENGTH),
      labels: account.labels,
      sessionId: account.sessionId,
      inputTokens: usage.inputTokens,
      outputTokens: usage.outputTokens,
      totalTokens: usage.totalTokens,
      cachedInputTokens: usage.cachedInputTokens,
      cacheWriteInputTokens: usage.cacheWriteInputTokens,
      cacheWrite1hInputTokens: usage.cacheWrite1hInputTokens,
      reasoningTokens: usage.reasoningTokens,
      audioInputTokens: usage.audioInputTokens,
      audioOutputTokens: usage.audioOutputTokens,
      imageInputTokens: usage.imageInputTokens,
      imageOutputTokens: usage.imageOutputTokens,
      acceptedPredictionTokens: usage.acceptedPredictionTokens,
      rejectedPredictionTokens: usage.rejectedPredictionTokens,
      inputSeconds: usage.inputSeconds,
      inputCharacters: units?.inputCharacters,
      outputImages: units?.outputImages,
      partial: spent.isPartial === true ? true : undefined,
      answers: spent.answers,
      calls: (spent.calls ?? 1) > 1 ? spent.calls : undefined,
      estimated: spent.estimate === undefined ? undefined : true,
      estimatedInputTokens: spent.estimate?.inputTokens,
      estimatedOutputTokens: spent.estimate?.outputTokens,
      failedAttempt,
      source: usage.source,
      contradiction: contradictionIn(usage),
      raw: usage.raw,
      price: cost.price,
      priceSource: cost.priceSource,
      inputCost: cost.inputCost,
      outputCost: cost.outputCost,
      totalCost: cost.totalCost,
      caveat: cost.caveat,
    },
    context,
  );
}

/** The provider that continues the work, and the amount of budget that stays reserved for it. */
export interface DeferralFacts extends Pick<PricedUsage, 'provider' | 'providerType' | 'model' | 'endpoint'> {
  /** Nano-dollars; undefined when no budget counts what is spent. */
  readonly reserved: number | undefined;
}

export function noteDeferred(
  record: ExchangeRecord,
  { kind, id: workId, parts }: DeferredWork,
  { reserved, ...facts }: DeferralFacts,
  { labels, sessionId }: UsageAccount,
): void {
  const reservedCost = reserved === undefined ? null : String(Math.ceil(reserved));
  record.note(
    events.usageDeferred.create({ ...facts, kind, workId, labels, sessionId, parts, reservedCost }, record.context),
  );
}

/** Facts stored beside a response. */
export interface StoredResponseFacts
  extends Pick<StoredResponse, 'provider' | 'providerType' | 'model' | 'native' | 'previousResponseId'> {
  /** JSON text of the normalised input items. */
  readonly inputItems: string;
  /** Of this turn and the turns before. */
  readonly placeholders?: readonly RecordedPlaceholder[] | undefined;
}

/** Stores the response itself, in the same append as the end of the exchange: both are recorded, or neither. */
export function noteResponse(record: ExchangeRecord, stored: StorableResponse, facts: StoredResponseFacts): void {
  const { id, context, owner } = record;
  record.addWrite(storedResponseWrite(stored, facts, { exchangeId: id, owner }, context));
  for (const write of outputItemWrites(stored, owner, context)) record.addWrite(write);
}

/** The exchange that produced a response, and its owner. */
export interface ResponseOrigin {
  readonly exchangeId: string;
  readonly owner: Owner;
}

/** @param by context of the event; its actor need not be the owner */
export function storedResponseWrite(
  stored: StorableResponse,
  { inputItems, placeholders = [], ...facts }: StoredResponseFacts,
  { exchangeId, owner }: ResponseOrigin,
  by: EventContext,
) {
  const context = contextFor(owner, by);
  const { status } = stored;
  const hidden = placeholders.length === 0 ? '' : `,"placeholders":${JSON.stringify(placeholders)}`;
  const body = Buffer.from(`{"response":${stored.json},"input_items":${inputItems}${hidden}}`);
  return {
    stream: streamName('response', stored.id),
    events: [responseStored.create({ status, exchangeId, ...facts, ...creatorFact(owner, by) }, context, body)],
    expectedRevision: 'any' as const,
  };
}

/**
 * Index entries for output items by id, and for the containers and files that they name, whose owner is known by them.
 * Ids that a provider chose do not contain the id of their response.
 */
export function outputItemWrites(stored: StorableResponse, owner: Owner, by: EventContext) {
  const output = outputOf(stored);
  const ids = output.flatMap((item) => (isObject(item) && typeof item.id === 'string' ? [item.id] : []));
  return itemWrites([...ids, ...idsAnswered(output)], { kind: 'response', id: stored.id, owner }, by);
}

export function outputOf({ json, output }: StorableResponse): readonly unknown[] {
  if (output !== undefined) return output;
  const response = parseExactly(json);
  return isObject(response) && Array.isArray(response.output) ? response.output : [];
}

/** Notes the conversation turn of a completed exchange, to be appended with its end. */
export async function noteConversationTurn(
  dialect: ExchangeDialect | undefined,
  parsedRequest: ParsedRequest,
  writer: Pick<AnswerWriter, 'response'>,
  record: ExchangeRecord,
  by: { readonly visibility: VisibilityScope; readonly placeholders?: readonly RecordedPlaceholder[] | undefined },
): Promise<void> {
  const { id, context } = record;
  const writes = dialect?.turn?.(parsedRequest, writer, { id, context, ...by });
  if (writes === undefined) return;
  for (const write of await writes) record.addWrite(write);
}

// What is recorded of a request that the gateway itself refused: the caller, the kind of request, and the beginning
// of its content. A key that is over its limit, or may not use the model, must not be able to fill the log. Pure.

/** Limit for the body, or for all text fields of a form together. */
export const KEPT_BODY_BYTES = 4096;
/** Limit for the model's name and for the error's message, which may repeat that name. */
const KEPT_TEXT_LENGTH = 1024;

/** Whether the request is at fault: its access, a limit, a budget, or its content. */
export function isOfRequest({ status }: Pick<Refusal, 'status'>): boolean {
  return status < 500 || status === 501;
}

/**
 * The events of a refused request, with their content cut. The size and SHA-256 of a cut body are recorded beside it.
 */
export function cutContent(events: readonly NewEvent[]): NewEvent[] {
  let room = KEPT_BODY_BYTES;
  return events.map((event) => {
    if (event.type === requestReceived.type) return cutReceived(event);
    if (event.type === requestRefused.type) return withText(event, 'message');
    if (event.type !== requestPartReceived.type) return withText(event, 'requested');
    const value: unknown = Reflect.get(event.data, 'value');
    if (typeof value !== 'string') return event;
    const bytes = Buffer.from(value);
    const kept = Math.min(room, bytes.length);
    room -= kept;
    if (kept === bytes.length) return event;
    const cut = { value: bytes.subarray(0, kept).toString(), sha256: sha256(bytes) };
    return { ...event, data: { ...event.data, ...cut } };
  });
}

function cutReceived(event: NewEvent): NewEvent {
  const { body } = event;
  const short = withText(event, 'model');
  if (body === undefined || body.length <= KEPT_BODY_BYTES) return short;
  const data = { ...short.data, bodyBytes: body.length, bodySha256: sha256(body) };
  return { ...short, data, body: body.subarray(0, KEPT_BODY_BYTES) };
}

function withText(event: NewEvent, name: string): NewEvent {
  const text: unknown = Reflect.get(event.data, name);
  if (typeof text !== 'string' || text.length <= KEPT_TEXT_LENGTH) return event;
  return { ...event, data: { ...event.data, [name]: text.slice(0, KEPT_TEXT_LENGTH) } };
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
