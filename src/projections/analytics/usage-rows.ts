/** Recorded usage and its corrections as rows of a ledger: sums over any rows include all corrections. */
import type { z } from 'zod';
import type { usageRecalculated, usageRecorded } from '../../events/catalogue/exchange.ts';
import { idOf, type RecordedEvent } from '../../events/event.ts';
import { keyIdOrEmpty, type Retention, rowWriter } from './rows.ts';
import { tables } from './tables.ts';
import { type TsvRows, time } from './tsv.ts';

type Recorded = RecordedEvent<string, z.infer<typeof usageRecorded.data>>;
export type RecalculationEvent = RecordedEvent<string, z.infer<typeof usageRecalculated.data>>;

/** The cost so far and the account of a usage: corrections are differences to it. */
export interface UsageRowAccount {
  readonly requestId: string;
  readonly actor: string;
  readonly keyId: string;
  readonly userPath: string;
  readonly cacheType: string;
  readonly costs: Costs;
}

/** Nano-dollars; null is not known. */
export interface Costs {
  readonly input: bigint | null;
  readonly output: bigint | null;
  readonly total: bigint | null;
}

export function costsOf(data: {
  readonly inputCost?: string | null;
  readonly outputCost?: string | null;
  readonly totalCost?: string | null;
}): Costs {
  return { input: amount(data.inputCost), output: amount(data.outputCost), total: amount(data.totalCost) };
}

function amount(text: string | null | undefined): bigint | null {
  return text === null || text === undefined ? null : BigInt(text);
}

export function accountOf({ context, data }: Recorded): UsageRowAccount {
  return {
    requestId: context.requestId ?? '',
    actor: context.actor,
    keyId: keyIdOrEmpty(context.actor),
    userPath: context.userPath ?? '/',
    cacheType: data.cacheType ?? '',
    costs: costsOf(data),
  };
}

const writeRow = rowWriter(tables.usage);

export function writeUsage(rows: TsvRows, event: Recorded, position: number, retention: Retention): void {
  const { data, id, at, stream } = event;
  const account = accountOf(event);
  const saved = amount(data.savedCost);
  const values = {
    position,
    kind: 'recorded',
    usage_id: id,
    at: time(at),
    known_at: time(at),
    exchange_id: idOf(stream),
    ...spentOn(account, data),
    source: data.source,
    requests: data.failedAttempt === undefined ? 1 : 0,
    input_tokens: data.inputTokens,
    output_tokens: data.outputTokens,
    total_tokens: data.totalTokens,
    cached_input_tokens: data.cachedInputTokens,
    cache_write_input_tokens: data.cacheWriteInputTokens,
    cache_write_1h_input_tokens: data.cacheWrite1hInputTokens,
    reasoning_tokens: data.reasoningTokens,
    audio_input_tokens: data.audioInputTokens,
    audio_output_tokens: data.audioOutputTokens,
    image_input_tokens: data.imageInputTokens,
    image_output_tokens: data.imageOutputTokens,
    accepted_prediction_tokens: data.acceptedPredictionTokens,
    rejected_prediction_tokens: data.rejectedPredictionTokens,
    input_seconds: data.inputSeconds,
    input_characters: data.inputCharacters,
    output_images: data.outputImages,
    ...difference({ input: null, output: null, total: null }, account.costs),
    raw: data.raw === null || data.raw === undefined ? '' : JSON.stringify(data.raw),
    estimated: Number(data.estimated === true),
    estimated_input_tokens: data.estimatedInputTokens,
    estimated_output_tokens: data.estimatedOutputTokens,
    answers: data.answers ?? 1,
    provider_id: data.providerId,
    _retention_days: retention.usage,
    saved_cost: saved,
    saved_priced: saved === null ? 0 : 1,
  };
  writeRow(rows, values, position);
}

/** @param account before this correction */
export function writeCorrection(
  rows: TsvRows,
  { data, at, stream }: RecalculationEvent,
  position: number,
  account: UsageRowAccount,
  retention: Retention,
): void {
  const values = {
    position,
    kind: 'corrected',
    usage_id: data.usageId,
    at: time(data.usageAt),
    known_at: time(at),
    exchange_id: idOf(stream),
    ...spentOn(account, data),
    source: 'provider',
    ...difference(account.costs, costsOf(data)),
    _retention_days: retention.usage,
  };
  writeRow(rows, values, position);
}

type SpentOn = Pick<Recorded['data'], 'labels' | 'sessionId' | 'provider' | 'providerType' | 'model' | 'endpoint'> & {
  readonly priceSource?: string;
  readonly price?: unknown;
  readonly caveat?: string;
};

function spentOn(account: UsageRowAccount, data: SpentOn) {
  return {
    request_id: account.requestId,
    actor: account.actor,
    auth_key_id: account.keyId,
    user_path: account.userPath,
    labels: data.labels,
    session_id: data.sessionId,
    provider: data.provider,
    provider_type: data.providerType,
    model: data.model,
    endpoint: data.endpoint,
    cache_type: account.cacheType,
    price_source: data.priceSource,
    price: data.price === undefined ? '' : JSON.stringify(data.price),
    caveat: data.caveat,
  };
}

function difference(before: Costs, now: Costs) {
  const known = (kind: keyof Costs) => Number(now[kind] !== null) - Number(before[kind] !== null);
  return {
    input_cost: (now.input ?? 0n) - (before.input ?? 0n),
    output_cost: (now.output ?? 0n) - (before.output ?? 0n),
    total_cost: (now.total ?? 0n) - (before.total ?? 0n),
    input_priced: known('input'),
    output_priced: known('output'),
    priced: known('total'),
  };
}
