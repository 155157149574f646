/** Recorded usage and its corrections as rows of a ledger: sums over any rows include all corrections. */
import type { z } from 'zod';
import type { usageRecalculated, usageRecorded } from '../../events/catalogue/exchange.ts';
import { idOf, type RecordedEvent } from '../../events/event.ts';
import { keyIdOrEmpty, type Retention } from './rows.ts';
import { type TsvRows, texts, time, tsvText } from './tsv.ts';

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

const nothing: Costs = { input: null, output: null, total: null };

export function writeUsage(rows: TsvRows, event: Recorded, position: number, retention: Retention): void {
  const { data, id, at, stream } = event;
  const account = accountOf(event);
  const tokens = [
    data.inputTokens,
    data.outputTokens,
    data.totalTokens,
    data.cachedInputTokens,
    data.cacheWriteInputTokens,
    data.cacheWrite1hInputTokens,
    data.reasoningTokens,
    data.audioInputTokens,
    data.audioOutputTokens,
    data.imageInputTokens,
    data.imageOutputTokens,
    data.acceptedPredictionTokens,
    data.rejectedPredictionTokens,
  ].map((count) => count ?? 0);
  const units = [data.inputSeconds ?? 0, data.inputCharacters ?? 0, data.outputImages ?? 0];
  rows.write(
    `${position}\trecorded\t${id}\t${time(at)}\t${time(at)}\t${tsvText(idOf(stream))}\t${spentOn(account, data)}\t` +
      `${tsvText(data.source)}\t${data.failedAttempt === undefined ? 1 : 0}\t${tokens.join('\t')}\t${units.join('\t')}\t${difference(nothing, account.costs)}\t` +
      `${pricedBy(data)}\t${data.raw === null || data.raw === undefined ? '' : tsvText(JSON.stringify(data.raw))}\t${estimatedIn(data)}\t${data.answers ?? 1}\t${tsvText(data.providerId)}\t${retention.usage}\t${savedBy(data)}`,
  );
  rows.end(position);
}

/** @param account before this correction */
export function writeCorrection(
  rows: TsvRows,
  { data, at, stream }: RecalculationEvent,
  position: number,
  account: UsageRowAccount,
  retention: Retention,
): void {
  const none = new Array(16).fill(0).join('\t');
  rows.write(
    `${position}\tcorrected\t${data.usageId}\t${time(data.usageAt)}\t${time(at)}\t${tsvText(idOf(stream))}\t` +
      `${spentOn(account, data)}\tprovider\t0\t${none}\t${difference(account.costs, costsOf(data))}\t` +
      `${pricedBy(data)}\t\t0\t0\t0\t0\t\t${retention.usage}\t0\t0`,
  );
  rows.end(position);
}

interface SpentOn {
  readonly labels?: readonly string[];
  readonly sessionId?: string;
  readonly provider: string;
  readonly providerType: string;
  readonly model: string;
  readonly endpoint: string;
}

function spentOn(account: UsageRowAccount, data: SpentOn): string {
  return [
    tsvText(account.requestId),
    tsvText(account.actor),
    tsvText(account.keyId),
    tsvText(account.userPath),
    texts(data.labels ?? []),
    tsvText(data.sessionId),
    tsvText(data.provider),
    tsvText(data.providerType),
    tsvText(data.model),
    tsvText(data.endpoint),
    tsvText(account.cacheType),
  ].join('\t');
}

function difference(before: Costs, now: Costs): string {
  const kinds = ['input', 'output', 'total'] as const;
  const amounts = kinds.map((kind) => (now[kind] ?? 0n) - (before[kind] ?? 0n));
  const known = kinds.map((kind) => Number(now[kind] !== null) - Number(before[kind] !== null));
  return [...amounts, ...known].join('\t');
}

function estimatedIn({ estimated, estimatedInputTokens, estimatedOutputTokens }: Recorded['data']): string {
  return `${estimated === true ? 1 : 0}\t${estimatedInputTokens ?? 0}\t${estimatedOutputTokens ?? 0}`;
}

function savedBy({ savedCost }: Recorded['data']): string {
  return `${amount(savedCost) ?? 0n}\t${amount(savedCost) === null ? 0 : 1}`;
}

function pricedBy(data: { readonly priceSource?: string; readonly price?: unknown; readonly caveat?: string }): string {
  return `${tsvText(data.priceSource)}\t${data.price === undefined ? '' : tsvText(JSON.stringify(data.price))}\t${tsvText(data.caveat)}`;
}
