/**
 * One model request, from its bytes to its answer, for JSON and for streams, in every dialect. Read top to bottom it
 * is the whole pipeline; each step is told in events before anybody outside sees its effect.
 */
import { isUtf8 } from 'node:buffer';
import { modelResolved, requestReceived } from '../../events/catalogue/exchange.ts';
import type { UserPath } from '../../events/event.ts';
import { type EventLog, LogUnavailable } from '../../events/log.ts';
import { Refusal, refusals } from '../refusal.ts';
import { attempts, type Outcome } from './attempts.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import type { Client, ModelRequest } from './client.ts';
import type { Asked, ExchangeDialect, ReadResult, Target } from './dialect.ts';
import * as events from './end-events.ts';
import { parseExactly } from './exact-json.ts';
import { ExchangeRecord } from './exchange-record.ts';
import type { OpenRecords } from './open-records.ts';
import type { RetryPolicy } from './retry-policy.ts';
import { answerHeaders, settle, tell } from './settle.ts';
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
  readonly answerTimeoutMs: number;
  newId(): string;
  random(): number;
  /** Unix seconds. */
  now(): number;
  wait(ms: number, signal: AbortSignal): Promise<void>;
  /** Told once about every exchange, after it ended. Must not throw. */
  ended(summary: ExchangeSummary): void;
  readonly open: Pick<OpenRecords, 'begun' | 'over' | 'leftOpen'>;
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
  deps.open.begun(record.stream);
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
      answerTimeoutMs: deps.answerTimeoutMs,
      random: deps.random,
      wait: deps.wait,
      answerHeaders: (reply) => answerHeaders({ record, request }, reply),
    });
    const keepBodies = deps.capture === 'full';
    status = await settle(outcome, { dialect, asked, target, record, request, client, keepBodies });
  } catch (error) {
    status = await refuse(record, request, client, error, deps);
  }
  deps.open.over(record.stream);
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
  if (!isUtf8(body)) return { ok: false, refusal: refusals.malformedJson('it is not valid UTF-8') };
  let json: unknown;
  try {
    json = parseExactly(body.toString());
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

async function refuse(
  record: ExchangeRecord,
  request: ModelRequest,
  client: Client,
  error: unknown,
  deps: ExchangeDependencies,
): Promise<number> {
  const refusal = refusalOf(error);
  if (refusal.type === 'internal_error' && refusal.status === 500) deps.failed(error);
  if (refusal.code === 'log_unavailable') {
    if (record.flushed) deps.open.leftOpen(record.stream);
  } else {
    if (!record.flushed) events.noteRefused(record, refusal);
    else events.noteFailed(record, refusal, { status: refusal.status, reason: 'internal_error', chunks: 0 });
    try {
      await record.flush('durable');
    } catch (lost) {
      deps.open.leftOpen(record.stream);
      return tell({ record, request, client }, refusalOf(lost));
    }
  }
  return tell({ record, request, client }, refusal);
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  // Nothing of ours recurses but over what a client sent.
  if (error instanceof RangeError && error.message.includes('call stack')) return refusals.nestedTooDeeply();
  return error instanceof LogUnavailable ? refusals.logUnavailable(error) : refusals.internal(error);
}
