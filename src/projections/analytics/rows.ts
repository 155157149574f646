/** What of the log becomes a row of which table. Pure, and in the order of the tables' columns. */
import type { z } from 'zod';
import type { usageRecalculated, usageRecorded } from '../../events/catalogue/exchange.ts';
import { type Actor, categoryOf, idOf, type RecordedEvent } from '../../events/event.ts';
import type { ExchangeEnd, ExchangeTold } from './exchange-fold.ts';
import { dataJson } from './masked.ts';
import { numbers, orNull, type TsvRows, text, texts, time } from './tsv.ts';

/** How long rows are kept, in days; 0 is for good. Each row carries what was in force when it was written. */
export interface Retention {
  readonly audit: number;
  readonly usage: number;
}

/** More of a body is in the log alone. */
export const keptBodyBytes = 1024 * 1024;

const noBytes = new Uint8Array();

/** The managed key behind an actor; empty when it is none. */
export function keyIdOf(actor: Actor): string {
  return actor.startsWith('key:') ? actor.slice('key:'.length) : '';
}

export function writeEvent(rows: TsvRows, event: RecordedEvent, position: number, retention: Retention): void {
  const { context, stream, body = noBytes } = event;
  rows.write(
    `${position}\t${event.id}\t${text(event.type)}\t${event.schema}\t${text(categoryOf(stream))}\t${text(stream)}\t` +
      `${event.revision}\t${time(event.at)}\t${text(context.actor)}\t${text(keyIdOf(context.actor))}\t` +
      `${text(context.userPath)}\t${text(context.requestId)}\t${text(context.correlationId)}\t` +
      `${text(context.causationId)}\t${text(context.traceparent)}\t${text(dataJson(event))}\t`,
  );
  rows.writeBytes(body.length > keptBodyBytes ? body.subarray(0, keptBodyBytes) : body);
  rows.write(`\t${body.length}\t${retention.audit}`);
  rows.end(position);
}

export function writeExchange(rows: TsvRows, told: ExchangeTold, end: ExchangeEnd, retention: Retention): void {
  const { received, resolved, attempts, usage } = told;
  const { data, context } = received;
  const last = attempts.at(-1)?.started;
  const { completed, error } = end;
  rows.write(
    [
      end.position,
      text(idOf(received.stream)),
      time(received.at),
      time(end.at),
      text(context.requestId),
      text(context.actor),
      text(keyIdOf(context.actor)),
      text(data.authMethod),
      text(context.userPath),
      text(data.sessionId),
      texts(data.labels ?? []),
      text(data.dialect),
      text(data.method),
      text(data.path),
      text(data.path.split('?', 1)[0]),
      text(data.clientIp),
      text(data.headers['user-agent']),
      Number(data.stream),
      text(data.capture),
      text(data.model),
      text(completed?.provider ?? last?.provider ?? resolved?.provider),
      text(last?.providerType ?? resolved?.providerType),
      text(completed?.model ?? last?.model ?? resolved?.model),
      texts(resolved?.through ?? []),
      end.outcome,
      end.status,
      text(error?.type),
      text(error?.code ?? ''),
      text(error?.message),
      text(end.failureReason),
      text(completed?.finishReason ?? ''),
      orNull(completed?.firstByteMs),
      end.durationMs,
      end.chunks,
      end.bytes,
      text(end.responseId),
      text(told.replayedFrom),
      told.historyItems,
      told.resumed,
      attempts.length,
      numbers(attempts.map(({ started }) => started.attempt)),
      texts(attempts.map(({ started }) => started.kind)),
      texts(attempts.map(({ started }) => started.provider)),
      texts(attempts.map(({ started }) => started.providerType)),
      texts(attempts.map(({ started }) => started.model ?? '')),
      texts(attempts.map(({ started }) => started.dialect)),
      numbers(attempts.map(({ at }) => Math.max(0, Math.round((at - received.at) * 1000) / 1000))),
      numbers(attempts.map(({ failed }) => Number(failed !== undefined))),
      numbers(attempts.map(({ failed }) => failed?.status ?? 0)),
      texts(attempts.map(({ failed }) => failed?.code ?? '')),
      texts(attempts.map(({ failed }) => failed?.message ?? '')),
      usage?.inputTokens ?? 0,
      usage?.outputTokens ?? 0,
      usage?.totalTokens ?? 0,
      usage?.cachedInputTokens ?? 0,
      usage?.cacheWriteInputTokens ?? 0,
      usage?.cacheWrite1hInputTokens ?? 0,
      usage?.reasoningTokens ?? 0,
      Number(usage?.source === 'provider'),
      text(usage?.cacheType),
      orNull(usage?.totalCost),
      retention.audit,
    ].join('\t'),
  );
  rows.end(end.position);
}

type Recorded = RecordedEvent<string, z.infer<typeof usageRecorded.data>>;
type Recalculated = RecordedEvent<string, z.infer<typeof usageRecalculated.data>>;

/** What usage cost until now, and on whose account it is: what a correction is counted from. */
export interface UsageAccount {
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

export function accountOf({ context, data }: Recorded): UsageAccount {
  return {
    requestId: context.requestId ?? '',
    actor: context.actor,
    keyId: keyIdOf(context.actor),
    userPath: context.userPath ?? '',
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
    `${position}\trecorded\t${id}\t${time(at)}\t${time(at)}\t${text(idOf(stream))}\t${spentOn(account, data)}\t` +
      `${text(data.source)}\t1\t${tokens.join('\t')}\t${units.join('\t')}\t${difference(nothing, account.costs)}\t` +
      `${pricedBy(data)}\t${data.raw === null || data.raw === undefined ? '' : json(data.raw)}\t${retention.usage}`,
  );
  rows.end(position);
}

/** @param account as it was before this correction */
export function writeCorrection(
  rows: TsvRows,
  { data, at, stream }: Recalculated,
  position: number,
  account: UsageAccount,
  retention: Retention,
): void {
  const none = new Array(16).fill(0).join('\t');
  rows.write(
    `${position}\tcorrected\t${data.usageId}\t${time(data.usageAt)}\t${time(at)}\t${text(idOf(stream))}\t` +
      `${spentOn(account, data)}\tprovider\t0\t${none}\t${difference(account.costs, costsOf(data))}\t` +
      `${pricedBy(data)}\t\t${retention.usage}`,
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

function spentOn(account: UsageAccount, data: SpentOn): string {
  return [
    text(account.requestId),
    text(account.actor),
    text(account.keyId),
    text(account.userPath),
    texts(data.labels ?? []),
    text(data.sessionId),
    text(data.provider),
    text(data.providerType),
    text(data.model),
    text(data.endpoint),
    text(account.cacheType),
  ].join('\t');
}

function difference(before: Costs, now: Costs): string {
  const kinds = ['input', 'output', 'total'] as const;
  const amounts = kinds.map((kind) => (now[kind] ?? 0n) - (before[kind] ?? 0n));
  const known = kinds.map((kind) => Number(now[kind] !== null) - Number(before[kind] !== null));
  return [...amounts, ...known].join('\t');
}

function pricedBy(data: { readonly priceSource?: string; readonly price?: unknown; readonly caveat?: string }): string {
  return `${text(data.priceSource)}\t${data.price === undefined ? '' : json(data.price)}\t${text(data.caveat)}`;
}

/** Families of events that tell of a change an administrator can make. */
const changes = [
  'key.',
  'user.',
  'virtual_model.',
  'price.',
  'budget.',
  'budget_settings.',
  'rate_limit.',
  'provider_credential.',
  'tagging.',
  'guardrail_definition.',
  'workflow.',
  'settings.',
];

export function isAdminChange(type: string): boolean {
  return changes.some((family) => type.startsWith(family));
}

/** Kept for good. */
export function writeAdminChange(rows: TsvRows, event: RecordedEvent, position: number): void {
  const { context, stream } = event;
  rows.write(
    [
      position,
      event.id,
      time(event.at),
      text(event.type),
      text(categoryOf(stream)),
      text(idOf(stream)),
      event.revision,
      text(context.actor),
      text(keyIdOf(context.actor)),
      text(context.userPath),
      text(context.requestId),
      text(dataJson(event)),
      0,
    ].join('\t'),
  );
  rows.end(position);
}

export function isGuardrailVerdict({ type, stream }: RecordedEvent): boolean {
  return type.startsWith('guardrail.') && stream.startsWith('exchange-');
}

export function writeGuardrailVerdict(
  rows: TsvRows,
  event: RecordedEvent,
  position: number,
  retention: Retention,
): void {
  const { context, stream } = event;
  rows.write(
    [
      position,
      time(event.at),
      text(event.type),
      text(idOf(stream)),
      text(context.requestId),
      text(context.actor),
      text(keyIdOf(context.actor)),
      text(context.userPath),
      text(member(event.data, 'guardrail', 'name')),
      text(member(event.data, 'phase')),
      text(member(event.data, 'verdict', 'action')),
      text(member(event.data, 'reason', 'message')),
      json(event.data),
      retention.audit,
    ].join('\t'),
  );
  rows.end(position);
}

/** The first of these members that is text. */
function member(data: unknown, ...names: readonly string[]): string {
  const members: Readonly<Record<string, unknown>> = Object(data);
  for (const name of names) {
    const value = members[name];
    if (typeof value === 'string') return value;
  }
  return '';
}

function json(value: unknown): string {
  return text(JSON.stringify(value) ?? 'null');
}
