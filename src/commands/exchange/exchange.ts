/**
 * One model request, from its bytes to its answer, for JSON and for streams, in every dialect. Read top to bottom it
 * is the whole pipeline; each step is told in events before anybody outside sees its effect.
 */
import { modelResolved, requestReceived } from '../../events/catalogue/exchange.ts';
import type { UserPath } from '../../events/event.ts';
import { type EventLog, LogUnavailable } from '../../events/log.ts';
import type { ProviderReply } from '../../providers/provider.ts';
import { Refusal, refusals } from '../refusal.ts';
import { type Answered, attempts, type Outcome } from './attempts.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import type { Client, ModelRequest } from './client.ts';
import type { Asked, ExchangeDialect, ReadResult, Target } from './dialect.ts';
import { ExchangeRecord } from './exchange-record.ts';
import { gatewayStopping } from './relay-chat.ts';
import type { RetryPolicy } from './retry-policy.ts';
import * as settle from './settle.ts';
import type { TokenUsage } from './usage.ts';

/** Finds who serves a model. */
export interface ModelDirectory {
  /** What is known now, without waiting. */
  resolve(selector: string, provider: string | undefined): Target | undefined;
  /** Asks the provider again, once, in case the model is new. */
  resolveOrRefresh(selector: string, provider: string | undefined): Promise<Target | undefined>;
  /** Whether a provider of that name or type exists. */
  knows(provider: string): boolean;
}

export interface ExchangeDependencies {
  readonly log: EventLog;
  readonly models: ModelDirectory;
  /** How patient to be with a provider. */
  resilienceOf(provider: string): Resilience;
  readonly recordBeforeCall: 'written' | 'durable';
  readonly capture: 'full' | 'metadata';
  readonly maxAnswerBytes: number;
  newId(): string;
  random(): number;
  /** Unix seconds. */
  now(): number;
  wait(ms: number, signal: AbortSignal): Promise<void>;
  /** Told once about every exchange, after it ended. Must not throw. */
  ended(summary: ExchangeSummary): void;
  /** Told of what should not have happened, for the operator's own log. */
  failed(error: unknown): void;
}

export interface Resilience {
  readonly retry: RetryPolicy;
  readonly breaker: CircuitBreaker;
}

export interface ExchangeSummary {
  readonly endpoint: string;
  readonly provider: string | undefined;
  readonly model: string | undefined;
  readonly status: number;
  readonly stream: boolean;
  readonly durationMs: number;
  readonly firstByteMs: number | undefined;
  readonly usage: TokenUsage | undefined;
}

/** Never throws: whatever happens, the client is told and the log knows. */
export async function runExchange(
  dialect: ExchangeDialect,
  request: ModelRequest,
  client: Client,
  deps: ExchangeDependencies,
): Promise<void> {
  const record = new ExchangeRecord(deps.log, deps.newId(), contextOf(request));
  let asked: Asked | undefined;
  let target: Target | undefined;
  let outcome: Outcome | undefined;
  let status: number;
  try {
    const read = readBody(dialect, request.body);
    noteReceived(record, dialect, request, read, deps.capture);
    if (!read.ok) throw read.refusal;
    asked = read.asked;
    target = await resolveModel(record, asked, deps.models);
    const plan = await dialect.plan({
      asked,
      body: request.body,
      target,
      record,
      createdAt: deps.now(),
      userPath: request.caller.userPath,
    });
    outcome = await attempts({
      plan,
      target,
      record,
      client,
      requestId: request.requestId,
      stream: asked.stream,
      ...deps.resilienceOf(target.provider.name),
      recordBeforeCall: deps.recordBeforeCall,
      keepBodies: deps.capture === 'full',
      maxAnswerBytes: deps.maxAnswerBytes,
      random: deps.random,
      wait: deps.wait,
      answerHeaders: (reply) => answerHeaders(record, request, reply),
    });
    status = await settleAndAnswer(dialect, asked, target, outcome, record, request, client);
  } catch (error) {
    status = await refuse(record, request, client, error, deps);
  }
  const answered = outcome === undefined || outcome.kind === 'refused' ? undefined : outcome;
  deps.ended({
    endpoint: dialect.endpoint,
    provider: target?.provider.name,
    model: target?.model,
    status,
    stream: asked?.stream ?? false,
    durationMs: record.elapsed(),
    firstByteMs: answered?.received.firstByteMs,
    usage: answered?.relay.usage(),
  });
}

function contextOf(request: ModelRequest) {
  const { caller, requestId, traceparent } = request;
  return { actor: caller.actor, userPath: caller.userPath as UserPath | undefined, requestId, traceparent };
}

function readBody(dialect: ExchangeDialect, body: Buffer): ReadResult {
  let json: unknown;
  try {
    json = JSON.parse(body.toString());
  } catch (error) {
    const detail = body.length === 0 ? 'it is empty' : error instanceof Error ? error.message : 'it cannot be read';
    return { ok: false, refusal: refusals.malformedJson(detail) };
  }
  return dialect.read(json);
}

function noteReceived(
  record: ExchangeRecord,
  dialect: ExchangeDialect,
  request: ModelRequest,
  read: ReadResult,
  capture: 'full' | 'metadata',
): void {
  const { method, path, headers, clientIp, caller, body } = request;
  const { model, stream } = read.ok ? read.asked : { model: undefined, stream: false };
  record.note(
    requestReceived.create(
      { dialect: dialect.name, method, path, headers, model, stream, clientIp, authMethod: caller.authMethod, capture },
      record.context,
      capture === 'full' ? body : undefined,
    ),
  );
}

async function resolveModel(record: ExchangeRecord, asked: Asked, models: ModelDirectory): Promise<Target> {
  if (asked.provider !== undefined && !models.knows(asked.provider)) throw refusals.unknownProvider(asked.provider);
  const target =
    models.resolve(asked.model, asked.provider) ?? (await models.resolveOrRefresh(asked.model, asked.provider));
  if (target === undefined) throw refusals.modelNotFound(asked.model);
  const { provider, model } = target;
  record.note(
    modelResolved.create(
      { requested: asked.model, provider: provider.name, providerType: provider.type, model },
      record.context,
    ),
  );
  return target;
}

/** Records the end of the exchange, waits until the disk has it, then gives the client what is still due to it. */
async function settleAndAnswer(
  dialect: ExchangeDialect,
  asked: Asked,
  target: Target,
  outcome: Outcome,
  record: ExchangeRecord,
  request: ModelRequest,
  client: Client,
): Promise<number> {
  if (outcome.kind === 'refused') {
    if (outcome.attempts === 0) settle.noteRefused(record, outcome.refusal);
    else {
      const { refusal } = outcome;
      settle.noteFailed(record, refusal, { status: refusal.status, reason: 'provider_error', chunks: 0 });
    }
    await record.flush('durable');
    return tell(record, request, client, outcome.refusal);
  }

  const { relay, received } = outcome;
  const responseId = noteResponse(dialect, asked, target, outcome, record);
  const provider = target.provider.name;
  const noteUsage = () => {
    if (received.chunks === 0) return;
    const { type } = target.provider;
    const { model } = target;
    settle.noteUsage(record, { provider, providerType: type, model, endpoint: dialect.endpoint, usage: relay.usage() });
  };
  switch (outcome.kind) {
    case 'whole': {
      const { status } = outcome.reply;
      // What the client gets is in the response's own stream already, when it is stored there.
      const answer = outcome.translated && responseId === undefined ? outcome.bytes : undefined;
      const facts = { status, attempt: outcome.attempt, provider, model: target.model, responseId, answer };
      settle.noteCompleted(record, received, { ...facts, finishReason: relay.finishReason() });
      noteUsage();
      await record.flush('durable');
      client.answer(status, answerHeaders(record, request, outcome.reply), outcome.bytes);
      return status;
    }
    case 'streamed': {
      const { status } = outcome.reply;
      const facts = { status, attempt: outcome.attempt, provider, model: target.model, responseId };
      settle.noteCompleted(record, received, { ...facts, finishReason: relay.finishReason() });
      noteUsage();
      await record.flush('durable');
      finishStream(client, status, answerHeaders(record, request, outcome.reply), outcome.rest);
      return status;
    }
    case 'broken': {
      const { refusal } = outcome;
      const { chunks } = received;
      settle.noteFailed(record, refusal, { status: 200, reason: 'stream_broken', chunks, responseId });
      noteUsage();
      await record.flush('durable');
      finishStream(client, 200, {}, outcome.rest);
      return refusal.status;
    }
    case 'abandoned': {
      if (client.ended.reason === 'gateway_stopping') {
        const { chunks } = received;
        const refusal = gatewayStopping();
        const status = chunks === 0 ? refusal.status : 200;
        settle.noteFailed(record, refusal, { status, reason: 'gateway_stopped', chunks, responseId });
        noteUsage();
        await record.flush('durable');
        if (chunks === 0) return tell(record, request, client, refusal);
        finishStream(client, 200, {}, outcome.rest);
        return refusal.status;
      }
      settle.noteDisconnected(record, received, responseId);
      noteUsage();
      await record.flush('durable');
      return 499;
    }
  }
}

/** The id under which the response is kept, when it is. */
function noteResponse(
  dialect: ExchangeDialect,
  asked: Asked,
  target: Target,
  outcome: Answered,
  record: ExchangeRecord,
): string | undefined {
  const stored = outcome.relay.response();
  if (stored === undefined) return undefined;
  if (dialect.keeps?.(asked) === true) {
    const previous = asked.json.previous_response_id;
    settle.noteResponse(record, stored, {
      provider: target.provider.name,
      providerType: target.provider.type,
      model: target.model,
      native: outcome.plan.dialect === 'responses' && target.provider.capabilities.responseLifecycle === 'yes',
      previousResponseId: typeof previous === 'string' && previous !== '' ? previous : null,
      inputItems: dialect.inputItems?.(asked, stored.id) ?? '[]',
    });
    return stored.id;
  }
  return undefined;
}

async function refuse(
  record: ExchangeRecord,
  request: ModelRequest,
  client: Client,
  error: unknown,
  deps: ExchangeDependencies,
): Promise<number> {
  const refusal = refusalOf(error);
  if (refusal.type === 'internal_error' && refusal.status === 500) deps.failed(error);
  if (refusal.code !== 'log_unavailable') {
    if (!record.flushed) settle.noteRefused(record, refusal);
    else settle.noteFailed(record, refusal, { status: refusal.status, reason: 'internal_error', chunks: 0 });
    try {
      await record.flush('durable');
    } catch (lost) {
      return tell(record, request, client, refusalOf(lost));
    }
  }
  return tell(record, request, client, refusal);
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return error instanceof LogUnavailable ? refusals.logUnavailable(error) : refusals.internal(error);
}

function tell(record: ExchangeRecord, request: ModelRequest, client: Client, refusal: Refusal): number {
  client.refuse(refusal, { 'x-exchange-id': record.id, 'x-request-id': request.requestId });
  return refusal.status;
}

function finishStream(client: Client, status: number, headers: Record<string, string>, rest: readonly Buffer[]): void {
  if (!client.begun) client.begin(status, headers);
  for (const bytes of rest) client.write(bytes);
  client.end();
}

function answerHeaders(record: ExchangeRecord, request: ModelRequest, reply: ProviderReply): Record<string, string> {
  return {
    'content-type': reply.headers['content-type'] ?? 'application/json',
    'x-request-id': request.requestId,
    'x-exchange-id': record.id,
  };
}
