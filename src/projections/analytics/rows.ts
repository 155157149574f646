/** Makes rows of `events`, `exchanges` and `admin_changes` from events. Pure; values are in the order of the tables' columns. */
import { type Actor, categoryOf, idOf, managedKeyId, type RecordedEvent, type UserPath } from '../../events/event.ts';
import { isBodyWithheld } from '../exchange-events.ts';
import type { ExchangeEnd, ExchangeFacts } from './exchange-fold.ts';
import { numbers, orNull, type TsvRows, texts, time, tsvText } from './tsv.ts';

/** How long rows are kept, in days; 0 is without limit. Each row carries the setting at the time of its write. */
export interface Retention {
  readonly audit: number;
  readonly usage: number;
}

/** Bytes of a body in its row; the rest is only in the log. */
export const keptBodyBytes = 1024 * 1024;

/** The managed key behind an actor; empty when it is none. */
export function keyIdOrEmpty(actor: Actor): string {
  return managedKeyId(actor) ?? '';
}

function pathOrNull(path: UserPath | undefined): string {
  return path === undefined ? orNull(undefined) : tsvText(path);
}

export function writeEvent(rows: TsvRows, event: RecordedEvent, position: number, retention: Retention): void {
  const { context, stream } = event;
  const body = visibleBody(event);
  rows.write(
    `${position}\t${event.id}\t${tsvText(event.type)}\t${event.schema}\t${tsvText(categoryOf(stream))}\t${tsvText(stream)}\t` +
      `${event.revision}\t${time(event.at)}\t${tsvText(context.actor)}\t${tsvText(keyIdOrEmpty(context.actor))}\t` +
      `${pathOrNull(context.userPath)}\t${tsvText(context.requestId)}\t${tsvText(context.correlationId)}\t` +
      `${tsvText(context.causationId)}\t${tsvText(context.traceparent)}\t${tsvText(dataJson(event))}\t`,
  );
  rows.writeBytes(body.length > keptBodyBytes ? body.subarray(0, keptBodyBytes) : body);
  rows.write(`\t${event.body?.length ?? 0}\t${retention.audit}`);
  rows.end(position);
}

export function writeExchange(rows: TsvRows, exchange: ExchangeFacts, end: ExchangeEnd, retention: Retention): void {
  const { received, resolved, attempts, usage, guardrails } = exchange;
  const { data, context } = received;
  const { workflow } = data;
  const last = attempts.at(-1)?.started;
  const { completed, error } = end;
  rows.write(
    [
      end.position,
      tsvText(idOf(received.stream)),
      time(received.at),
      time(end.at),
      tsvText(context.requestId),
      tsvText(context.actor),
      tsvText(keyIdOrEmpty(context.actor)),
      tsvText(data.authMethod),
      tsvText(context.userPath ?? '/'),
      tsvText(data.sessionId),
      texts(data.labels ?? []),
      tsvText(data.dialect),
      tsvText(data.method),
      tsvText(data.path),
      tsvText(data.path.split('?', 1)[0]),
      tsvText(data.clientIp),
      tsvText(data.headers['user-agent']),
      Number(data.stream),
      tsvText(data.capture),
      tsvText(data.model),
      tsvText(completed?.provider ?? last?.provider ?? resolved?.provider),
      tsvText(last?.providerType ?? resolved?.providerType),
      tsvText(completed?.model ?? last?.model ?? resolved?.model),
      texts(resolved?.through ?? []),
      end.outcome,
      end.status,
      tsvText(error?.type),
      tsvText(error?.code ?? ''),
      tsvText(error?.message),
      tsvText(end.failureReason),
      tsvText(completed?.finishReason ?? ''),
      orNull(completed?.firstByteMs),
      end.durationMs,
      end.chunks,
      end.bytes,
      tsvText(end.responseId),
      tsvText(exchange.replayedFrom),
      exchange.historyItems,
      exchange.resumed,
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
      tsvText(exchange.cacheType || usage?.cacheType),
      orNull(usage?.totalCost?.toString()),
      1,
      tsvText(workflow?.id),
      workflow?.version ?? 0,
      tsvText(workflow?.scope),
      texts(workflow?.off ?? []),
      guardrails?.verdict ?? '',
      tsvText(guardrails?.decidedBy),
      tsvText(guardrails?.code),
      Number(guardrails?.edited === true),
      guardrails?.runs ?? 0,
      retention.audit,
    ].join('\t'),
  );
  rows.end(end.position);
}

/** Families of events that record changes by administrators. */
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

/** Kept without limit. */
export function writeAdminChange(rows: TsvRows, event: RecordedEvent, position: number): void {
  const { context, stream } = event;
  rows.write(
    [
      position,
      event.id,
      time(event.at),
      tsvText(event.type),
      tsvText(categoryOf(stream)),
      tsvText(idOf(stream)),
      event.revision,
      tsvText(context.actor),
      tsvText(keyIdOrEmpty(context.actor)),
      pathOrNull(context.userPath),
      tsvText(context.requestId),
      tsvText(dataJson(event)),
      0,
    ].join('\t'),
  );
  rows.end(position);
}

/**
 * Masks secrets for analysts: hashes of keys, ciphertexts of secrets and the values assigned to placeholders stay in the
 * log.
 */
const secrets = /^(secretHash|apiKeys|sealed\w*)$/;
/** Encrypted texts of `provider_credential.saved`, in any member. */
const sealed = /^v1\.[^.]+\.[\w-]{20,}$/;
const maskedFamilies = ['key.', 'provider_credential.'];

/** The data of the event, as JSON, with such members as `[MASKED]`. */
function dataJson({ type, data }: RecordedEvent): string {
  const hide = maskedFamilies.some((family) => type.startsWith(family));
  return (hide ? JSON.stringify(data, mask) : JSON.stringify(data)) ?? 'null';
}

const noBytes = new Uint8Array();

/** The body of the event, for analysts; empty when it has none. */
function visibleBody(event: RecordedEvent): Uint8Array {
  return isBodyWithheld(event) ? noBytes : (event.body ?? noBytes);
}

function mask(name: string, value: unknown): unknown {
  const isSecret = secrets.test(name) || (typeof value === 'string' && sealed.test(value));
  return isSecret && value !== undefined ? '[MASKED]' : value;
}
