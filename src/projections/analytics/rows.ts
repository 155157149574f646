/** What of the log becomes a row of which table, beside usage. Pure, and in the order of the tables' columns. */
import { type Actor, categoryOf, idOf, managedKeyId, type RecordedEvent, type UserPath } from '../../events/event.ts';
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
export function keyIdOrEmpty(actor: Actor): string {
  return managedKeyId(actor) ?? '';
}

function pathOrNull(path: UserPath | undefined): string {
  return path === undefined ? orNull(undefined) : text(path);
}

export function writeEvent(rows: TsvRows, event: RecordedEvent, position: number, retention: Retention): void {
  const { context, stream, body = noBytes } = event;
  rows.write(
    `${position}\t${event.id}\t${text(event.type)}\t${event.schema}\t${text(categoryOf(stream))}\t${text(stream)}\t` +
      `${event.revision}\t${time(event.at)}\t${text(context.actor)}\t${text(keyIdOrEmpty(context.actor))}\t` +
      `${pathOrNull(context.userPath)}\t${text(context.requestId)}\t${text(context.correlationId)}\t` +
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
      text(keyIdOrEmpty(context.actor)),
      text(data.authMethod),
      text(context.userPath ?? '/'),
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
      orNull(usage?.totalCost?.toString()),
      1,
      retention.audit,
    ].join('\t'),
  );
  rows.end(end.position);
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
  'view.',
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
      text(keyIdOrEmpty(context.actor)),
      pathOrNull(context.userPath),
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
      text(keyIdOrEmpty(context.actor)),
      text(context.userPath ?? '/'),
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
