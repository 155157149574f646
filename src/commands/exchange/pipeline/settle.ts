/** The last step: the end of the exchange is recorded, and on disk, before the client gets what is still due to it. */
import type { EventLog } from '../../../events/log.ts';
import type { Provider, ProviderReply } from '../../../providers/provider.ts';
import { rateLimitsIn } from '../../../providers/rate-limit-headers.ts';
import { streamFormatOf } from '../../../providers/stream-splitter.ts';
import type { Client } from '../../model-request/client.ts';
import { gatewayStopping, responseCancelled } from '../../model-request/stream-refusals.ts';
import type { Target } from '../../model-request/target.ts';
import type { EstimatedTokens } from '../../model-request/units.ts';
import type { Refusal } from '../../refusal.ts';
import type { ResponseArchive } from '../../responses/archive.ts';
import { previousResponseOf } from '../../responses/previous-response.ts';
import { everything, haveSameOwner } from '../../visibility.ts';
import { noteOutcome, type PromisedResponse } from '../background/background.ts';
import type { OpenRecords } from '../background/open-records.ts';
import { addRequestedModel } from '../delivery/requested-model.ts';
import type { Answered, Outcome } from '../outcome.ts';
import * as events from '../record/end-events.ts';
import { estimateUsage } from '../record/estimate-usage.ts';
import { noteTurn } from '../record/note-turn.ts';
import { noteDeferral, noteSpending, type Spender } from '../record/spending.ts';

export interface Settling extends Spender {
  readonly target: Target;
  readonly client: Client;
  /** Whether what was said is kept, or only that it was. */
  readonly keepBodies: boolean;
  /** The response that was promised, when it is made in the background. */
  readonly promise?: PromisedResponse | undefined;
  readonly open: Pick<OpenRecords, 'leftOpen'>;
  readonly archive: ResponseArchive;
  readonly log: EventLog;
  /** Told of a response that was made and is not kept. */
  responseNotStored(provider: Provider): void;
}

/** @returns the status that stands for how it ended. @throws LogUnavailable */
export async function settle(outcome: Outcome, exchange: Settling): Promise<number> {
  const { record, client } = exchange;
  if (outcome.kind === 'refused') {
    const { refusal } = outcome;
    if (outcome.attempts === 0) events.noteRefused(record, refusal);
    else {
      const { reason = 'provider_error' } = outcome;
      events.noteFailed(record, refusal, { status: refusal.status, reason, chunks: 0 });
    }
    if (exchange.promise !== undefined) noteOutcome(exchange.promise, 'failed', refusal, undefined);
    await record.flush('durable');
    return tell(exchange, refusal);
  }

  const { chunks } = outcome.received;
  const estimate = outcome.kind === 'whole' ? undefined : await estimateUsage(outcome, exchange);
  if (outcome.kind === 'abandoned' && exchange.promise !== undefined) {
    return settleInterrupted(outcome, exchange, exchange.promise, estimate);
  }
  const isOthers = outcome.plan.dialect === 'responses' && (await isTaken(outcome, exchange));
  const responseId = isOthers ? undefined : noteResponse(outcome, exchange);
  switch (outcome.kind) {
    case 'whole': {
      await noteTurn(exchange.dialect, exchange.asked, outcome.relay, record, exchange.request.caller.sight);
      noteCompleted(outcome, exchange, outcome.reply, responseId);
      await record.flush('durable');
      client.answer(outcome.reply.status, answerHeaders(exchange, outcome.reply), outcome.bytes);
      return outcome.reply.status;
    }
    case 'streamed': {
      await noteTurn(exchange.dialect, exchange.asked, outcome.relay, record, exchange.request.caller.sight);
      noteCompleted(outcome, exchange, outcome.reply, responseId, estimate);
      await record.flush('durable');
      finishStream(client, outcome.reply.status, answerHeaders(exchange, outcome.reply), outcome.rest);
      return outcome.reply.status;
    }
    case 'broken': {
      const { refusal } = outcome;
      events.noteFailed(record, refusal, { status: 200, reason: 'stream_broken', chunks, responseId });
      noteUsage(outcome, exchange, { estimate });
      await record.flush('durable');
      if (outcome.cut) return tell(exchange, refusal);
      finishStream(client, 200, {}, outcome.rest);
      return refusal.status;
    }
    case 'abandoned': {
      if (client.ended.reason !== 'gateway_stopping') {
        events.noteDisconnected(record, outcome.received, responseId);
        noteUsage(outcome, exchange, { estimate });
        await record.flush('durable');
        return 499;
      }
      const refusal = gatewayStopping();
      const status = chunks === 0 ? refusal.status : 200;
      events.noteFailed(record, refusal, { status, reason: 'gateway_stopped', chunks, responseId });
      noteUsage(outcome, exchange, { estimate });
      await record.flush('durable');
      if (!client.begun || outcome.cut) return tell(exchange, refusal);
      finishStream(client, 200, {}, outcome.rest);
      return refusal.status;
    }
  }
}

/** A background response was cancelled, or the gateway stops: one of which nothing had been said is made another time. */
async function settleInterrupted(
  { relay, received, rest, attempt, plan }: Extract<Outcome, { kind: 'abandoned' }>,
  exchange: Settling,
  promise: PromisedResponse,
  estimate: EstimatedTokens | undefined,
): Promise<number> {
  const { record, client } = exchange;
  const { chunks } = received;
  const cancelled = client.ended.reason === 'cancelled';
  const refusal = cancelled ? responseCancelled() : gatewayStopping();
  if (!cancelled && chunks === 0) {
    await record.flush('durable');
    exchange.open.leftOpen(record.stream);
    return tell(exchange, refusal);
  }
  const said = chunks > 0 ? relay.response?.() : undefined;
  const responseId = noteOutcome(promise, cancelled ? 'cancelled' : 'failed', refusal, said);
  const reason = cancelled ? 'cancelled' : 'gateway_stopped';
  const status = client.begun ? 200 : refusal.status;
  events.noteFailed(record, refusal, { status, reason, chunks, responseId });
  noteUsage({ relay, received, attempt, plan }, exchange, { estimate });
  await record.flush('durable');
  if (!client.begun) return tell(exchange, refusal);
  finishStream(client, 200, {}, rest);
  return refusal.status;
}

/** Tells the client of an error. */
export function tell(
  {
    record,
    request,
    client,
    ticket,
  }: Pick<Settling, 'record' | 'request' | 'client'> & Partial<Pick<Settling, 'ticket'>>,
  refusal: Refusal,
): number {
  const limits = ticket?.headers() ?? refusal.rateLimits;
  client.refuse(refusal, { ...limits, 'x-exchange-id': record.id, 'x-request-id': request.requestId });
  return refusal.status;
}

/** A provider may stream in lines of JSON; its client gets events all the same. */
function answerType({ headers }: ProviderReply): string {
  return streamFormatOf(headers) === 'lines' ? 'text/event-stream' : (headers['content-type'] ?? 'application/json');
}

export function answerHeaders(
  { dialect, asked, record, request, ticket }: Pick<Settling, 'dialect' | 'asked' | 'record' | 'request' | 'ticket'>,
  reply: ProviderReply,
): Record<string, string> {
  const headers = dialect.answerHeaders?.(reply, request) ?? { 'content-type': answerType(reply) };
  // Its type is what the provider says it is; a browser must not find another.
  if (dialect.name === 'passthrough' || dialect.name === 'forward') headers['x-content-type-options'] = 'nosniff';
  headers['x-request-id'] = request.requestId;
  headers['x-exchange-id'] = record.id;
  addRequestedModel(headers, asked.model);
  const limits = ticket.headers();
  if (limits === undefined) return Object.assign(headers, rateLimitsIn(reply.headers));
  for (const name in rateLimitsIn(headers)) delete headers[name];
  return Object.assign(headers, limits);
}

function noteCompleted(
  { relay, received, attempt, plan }: Answered,
  exchange: Settling,
  reply: ProviderReply,
  responseId: string | undefined,
  estimate?: EstimatedTokens,
): void {
  const { dialect, target, record, keepBodies } = exchange;
  const translated = plan.dialect !== dialect.name;
  // What the client got is in the response's own stream already, when it is stored there.
  const json = translated && keepBodies && responseId === undefined ? relay.response?.()?.json : undefined;
  events.noteCompleted(record, received, {
    status: reply.status,
    attempt,
    provider: target.provider.name,
    model: target.model || undefined,
    finishReason: relay.finishReason?.() ?? null,
    responseId,
    answer: json === undefined ? undefined : Buffer.from(json),
  });
  noteUsage({ relay, received, attempt, plan }, exchange, { isWhole: true, estimate });
}

function noteUsage(
  { relay, received }: Answered,
  exchange: Settling,
  { isWhole = false, estimate }: { readonly isWhole?: boolean; readonly estimate: EstimatedTokens | undefined },
): void {
  if (received.chunks === 0 && estimate === undefined) return;
  const work = relay.goesOn?.();
  if (work !== undefined) {
    noteDeferral(exchange, exchange.target, work, relay);
    return;
  }
  const usage = relay.usage();
  if (exchange.dialect.mayBeFree && usage.source === 'unknown' && estimate === undefined) return;
  noteSpending(exchange, exchange.target, relay, { isPartial: !isWhole, estimate });
}

/** @returns the id under which the response is kept, when it is */
function noteResponse({ relay, received, plan }: Answered, exchange: Settling): string | undefined {
  const { dialect, asked, target, record } = exchange;
  if (received.chunks === 0 || dialect.keeps?.(asked) !== true) return undefined;
  const stored = relay.response?.();
  if (stored === undefined) return undefined;
  const { provider, model } = target;
  events.noteResponse(record, stored, {
    provider: provider.name,
    providerType: provider.type,
    model,
    native: isProvidersOwn({ plan }, exchange),
    previousResponseId: previousResponseOf(asked),
    inputItems: dialect.inputItems?.(asked, stored.id) ?? '[]',
  });
  return stored.id;
}

/** Whether the response is one that its provider keeps, under an id that the provider chose. */
function isProvidersOwn({ plan }: Pick<Answered, 'plan'>, { target }: Settling): boolean {
  return plan.dialect === 'responses' && target.provider.capabilities.responseLifecycle === 'yes';
}

/** A provider that gives an id twice must not take a response away from the one who has it. */
async function isTaken({ relay }: Answered, exchange: Settling): Promise<boolean> {
  const { dialect, asked, record, archive } = exchange;
  const id = dialect.keeps?.(asked) === true ? relay.response?.()?.id : undefined;
  const earlier = id === undefined ? undefined : await archive.find(id, everything);
  if (earlier === undefined || haveSameOwner(earlier, record.owner)) return false;
  exchange.responseNotStored(exchange.target.provider);
  return true;
}

function finishStream(client: Client, status: number, headers: Record<string, string>, rest: readonly Buffer[]): void {
  if (!client.begun) client.begin(status, headers);
  for (const bytes of rest) client.write(bytes);
  client.end();
}
