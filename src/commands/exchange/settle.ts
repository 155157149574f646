/** The last step: the end of the exchange is recorded, and on disk, before the client gets what is still due to it. */
import type { ProviderReply } from '../../providers/provider.ts';
import type { Refusal } from '../refusal.ts';
import type { Answered, Outcome } from './attempts.ts';
import type { Client, ModelRequest } from './client.ts';
import type { Asked, ExchangeDialect, Target } from './dialect.ts';
import * as events from './end-events.ts';
import type { ExchangeRecord } from './exchange-record.ts';
import { gatewayStopping } from './relay-chat.ts';

export interface Settling {
  readonly dialect: ExchangeDialect;
  readonly asked: Asked;
  readonly target: Target;
  readonly record: ExchangeRecord;
  readonly request: ModelRequest;
  readonly client: Client;
  /** Whether what was said is kept, or only that it was. */
  readonly keepBodies: boolean;
}

/** @returns the status that stands for how it ended. @throws LogUnavailable */
export async function settle(outcome: Outcome, exchange: Settling): Promise<number> {
  const { record, client } = exchange;
  if (outcome.kind === 'refused') {
    const { refusal } = outcome;
    if (outcome.attempts === 0) events.noteRefused(record, refusal);
    else events.noteFailed(record, refusal, { status: refusal.status, reason: 'provider_error', chunks: 0 });
    await record.flush('durable');
    return tell(exchange, refusal);
  }

  const { chunks } = outcome.received;
  const responseId = noteResponse(outcome, exchange);
  switch (outcome.kind) {
    case 'whole': {
      noteCompleted(outcome, exchange, outcome.reply, responseId);
      await record.flush('durable');
      client.answer(outcome.reply.status, answerHeaders(exchange, outcome.reply), outcome.bytes);
      return outcome.reply.status;
    }
    case 'streamed': {
      noteCompleted(outcome, exchange, outcome.reply, responseId);
      await record.flush('durable');
      finishStream(client, outcome.reply.status, answerHeaders(exchange, outcome.reply), outcome.rest);
      return outcome.reply.status;
    }
    case 'broken': {
      const { refusal } = outcome;
      events.noteFailed(record, refusal, { status: 200, reason: 'stream_broken', chunks, responseId });
      noteUsage(outcome, exchange);
      await record.flush('durable');
      finishStream(client, 200, {}, outcome.rest);
      return refusal.status;
    }
    case 'abandoned': {
      if (client.ended.reason !== 'gateway_stopping') {
        events.noteDisconnected(record, outcome.received, responseId);
        noteUsage(outcome, exchange);
        await record.flush('durable');
        return 499;
      }
      const refusal = gatewayStopping();
      const status = chunks === 0 ? refusal.status : 200;
      events.noteFailed(record, refusal, { status, reason: 'gateway_stopped', chunks, responseId });
      noteUsage(outcome, exchange);
      await record.flush('durable');
      if (!client.begun) return tell(exchange, refusal);
      finishStream(client, 200, {}, outcome.rest);
      return refusal.status;
    }
  }
}

/** Tells the client of an error. */
export function tell(
  { record, request, client }: Pick<Settling, 'record' | 'request' | 'client'>,
  refusal: Refusal,
): number {
  client.refuse(refusal, { 'x-exchange-id': record.id, 'x-request-id': request.requestId });
  return refusal.status;
}

export function answerHeaders(
  { record, request }: Pick<Settling, 'record' | 'request'>,
  reply: ProviderReply,
): Record<string, string> {
  return {
    'content-type': reply.headers['content-type'] ?? 'application/json',
    'x-request-id': request.requestId,
    'x-exchange-id': record.id,
  };
}

function noteCompleted(
  { relay, received, attempt, plan }: Answered,
  exchange: Settling,
  reply: ProviderReply,
  responseId: string | undefined,
): void {
  const { dialect, target, record, keepBodies } = exchange;
  const translated = plan.dialect !== dialect.name;
  // What the client got is in the response's own stream already, when it is stored there.
  const json = translated && keepBodies && responseId === undefined ? relay.response()?.json : undefined;
  events.noteCompleted(record, received, {
    status: reply.status,
    attempt,
    provider: target.provider.name,
    model: target.model,
    finishReason: relay.finishReason(),
    responseId,
    answer: json === undefined ? undefined : Buffer.from(json),
  });
  noteUsage({ relay, received, attempt, plan }, exchange);
}

function noteUsage({ relay, received }: Answered, { record, target, dialect }: Settling): void {
  if (received.chunks === 0) return;
  const { name, type } = target.provider;
  const { model } = target;
  const { endpoint } = dialect;
  events.noteUsage(record, { provider: name, providerType: type, model, endpoint, usage: relay.usage() });
}

/** @returns the id under which the response is kept, when it is */
function noteResponse({ relay, received, plan }: Answered, exchange: Settling): string | undefined {
  const { dialect, asked, target, record } = exchange;
  if (received.chunks === 0 || dialect.keeps?.(asked) !== true) return undefined;
  const stored = relay.response();
  if (stored === undefined) return undefined;
  const { provider, model } = target;
  events.noteResponse(record, stored, {
    provider: provider.name,
    providerType: provider.type,
    model,
    native: plan.dialect === 'responses' && provider.capabilities.responseLifecycle === 'yes',
    previousResponseId: previousResponseOf(asked),
    inputItems: dialect.inputItems?.(asked, stored.id) ?? '[]',
  });
  return stored.id;
}

export function previousResponseOf({ json }: Asked): string | null {
  const previous = json.previous_response_id;
  return typeof previous === 'string' && previous !== '' ? previous : null;
}

function finishStream(client: Client, status: number, headers: Record<string, string>, rest: readonly Buffer[]): void {
  if (!client.begun) client.begin(status, headers);
  for (const bytes of rest) client.write(bytes);
  client.end();
}
