/** The events that end an exchange. Every way an exchange can end is a function here. */
import type { z } from 'zod';
import * as events from '../../../events/catalogue/exchange.ts';
import { responseStored } from '../../../events/catalogue/response.ts';
import type { EventContext, NewEvent } from '../../../events/event.ts';
import { streamName } from '../../../events/event.ts';
import { parseExactly } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import { usdOf } from '../../budgets/money.ts';
import type { RecordedPlaceholder } from '../../guardrails/placeholders.ts';
import type { DeferredWork } from '../../model-request/deferred-work.ts';
import { idsAnswered } from '../../model-request/references.ts';
import { contradictionIn, withThinking } from '../../model-request/usage.ts';
import type { PricedUsage, UsageCost } from '../../pricing/pricing.ts';
import type { Refusal } from '../../refusal.ts';
import type { StoredResponse } from '../../responses/archive.ts';
import { itemWrites } from '../../responses/item-index.ts';
import type { StorableResponse } from '../../responses/storable-response.ts';
import { contextFor, creatorFact, type Owner } from '../../visibility.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { Received } from '../outcome.ts';
import { cutContent, isOfRequest } from './refused-content.ts';

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
