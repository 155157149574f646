/** `ANY /p/{provider}/…`: a request to a provider's own API, on the record like any other. */
import { attemptFailed, attemptStarted, requestReceived } from '../../events/catalogue/exchange.ts';
import type { UserPath } from '../../events/event.ts';
import { LogUnavailable } from '../../events/log.ts';
import { type Provider, ProviderFailure, type ProviderReply } from '../../providers/provider.ts';
import { mapUpstreamError } from '../../providers/upstream-error.ts';
import { Refusal, refusals } from '../refusal.ts';
import type { Client, ModelRequest } from './client.ts';
import * as events from './end-events.ts';
import type { ExchangeDependencies } from './exchange.ts';
import { ExchangeRecord } from './exchange-record.ts';
import { isEventStream } from './media-type.ts';
import { RecordedUpload } from './recorded-upload.ts';
import { refusalFromFailure, refusalFromUpstream } from './refusal-from-upstream.ts';
import { redacted } from './relay.ts';
import { relayBytes } from './relay-bytes.ts';
import { gatewayStopping } from './relay-chat.ts';
import { PassthroughRelay } from './relay-passthrough.ts';
import { relayStream } from './relay-stream.ts';
import { retryDelay } from './retry-policy.ts';
import type { TokenUsage } from './usage.ts';

/** Methods that may be sent twice without asking. */
const REPEATABLE = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT']);
const MAX_ERROR_BYTES = 64 * 1024;
/** Up to here a JSON answer is read whole, so that it gets a length and its usage is seen. */
const MAX_WHOLE_BYTES = 1024 * 1024;
const NOT_RETURNED = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'keep-alive',
  'proxy-authenticate',
  'set-cookie',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

export interface Passthrough {
  readonly request: ModelRequest;
  readonly provider: Provider;
  /** Below `/p/{provider}`, with the query as the client sent it. */
  readonly path: string;
  /** What the provider gets of the client's headers. */
  readonly headers: Record<string, string>;
  readonly bodyLimitBytes: number;
}

/** Never throws: whatever happens, the client is told and the log knows. */
export async function runPassthrough(call: Passthrough, client: Client, deps: ExchangeDependencies): Promise<void> {
  const { request, provider } = call;
  const { actor, userPath } = request.caller;
  const { requestId, traceparent } = request;
  const context = { actor, userPath: userPath as UserPath | undefined, requestId, traceparent };
  const record = new ExchangeRecord(deps.log, deps.newId(), context);
  deps.open.begun(record.stream);
  const received: events.Received = { chunks: 0, bytes: 0, firstByteMs: undefined };
  let status: number;
  let usage: TokenUsage | undefined;
  try {
    noteReceived(record, request, deps.capture);
    const asked = await ask(call, record, client, deps);
    const relay = new PassthroughRelay();
    status = await passOn(call, asked, relay, record, client, received, deps);
    usage = relay.usage();
  } catch (error) {
    status = await fail(error, record, request, client, received, deps);
  }
  deps.open.over(record.stream);
  deps.ended({
    endpoint: '/p',
    provider: provider.name,
    model: undefined,
    status,
    stream: false,
    durationMs: record.elapsed(),
    firstByteMs: received.firstByteMs,
    usage,
  });
}

function noteReceived(record: ExchangeRecord, request: ModelRequest, capture: 'full' | 'metadata'): void {
  const { method, path, headers, clientIp, caller, body } = request;
  const { authMethod } = caller;
  record.note(
    requestReceived.create(
      { dialect: 'passthrough', method, path, headers, stream: false, clientIp, authMethod, capture },
      record.context,
      capture === 'full' && body.length > 0 ? body : undefined,
    ),
  );
}

interface Asked {
  readonly reply: ProviderReply;
  readonly attempt: number;
}

/** @throws Refusal with the provider's own error, ProviderFailure, LogUnavailable */
async function ask(
  call: Passthrough,
  record: ExchangeRecord,
  client: Client,
  deps: ExchangeDependencies,
): Promise<Asked> {
  try {
    return await askUntilAnswered(call, record, client, deps);
  } catch (error) {
    // Also when it was not the provider that failed: a probe without a word would keep the breaker shut for ever.
    deps.resilienceOf(call.provider.name).breaker.abandoned();
    throw error;
  }
}

async function askUntilAnswered(
  call: Passthrough,
  record: ExchangeRecord,
  client: Client,
  deps: ExchangeDependencies,
): Promise<Asked> {
  const { provider, request } = call;
  const { name } = provider;
  const { breaker, retry } = deps.resilienceOf(name);
  const openForMs = breaker.refusal();
  if (openForMs !== undefined) throw refusals.circuitOpen(name, Math.ceil(openForMs / 1000));
  const repeatable =
    request.bodyPieces === undefined &&
    (REPEATABLE.has(request.method) || request.headers['idempotency-key'] !== undefined);
  for (let attempt = 1; ; attempt++) {
    const kind = attempt === 1 ? 'primary' : 'retry';
    record.note(
      attemptStarted.create(
        { attempt, kind, provider: name, providerType: provider.type, dialect: 'passthrough' },
        record.context,
      ),
    );
    await record.flush(deps.recordBeforeCall);
    const outcome = await askOnce(call, record, client, deps);
    if ('reply' in outcome) {
      breaker.succeeded();
      return { reply: outcome.reply, attempt };
    }
    const { error, status, body, retryAfterMs } = outcome;
    const transport = error instanceof ProviderFailure ? error.kind : undefined;
    const retryInMs =
      repeatable && !client.ended.aborted
        ? retryDelay({ attempt, status, transport, retryAfterMs }, retry, deps.random)
        : undefined;
    const refusal = error instanceof ProviderFailure ? refusalFromFailure(error) : error;
    const { code, message } = refusal;
    record.note(
      attemptFailed.create(
        { attempt, status, code, message, retryInMs, durationMs: record.elapsed() },
        record.context,
        deps.capture === 'full' ? body : undefined,
      ),
    );
    if (retryInMs === undefined) {
      if (client.ended.aborted) breaker.abandoned();
      else breaker.ended(status);
      throw error;
    }
    await deps.wait(retryInMs, client.ended);
    if (client.ended.aborted) throw error;
  }
}

type AskOutcome =
  | { readonly reply: ProviderReply }
  | {
      readonly error: Refusal | ProviderFailure;
      readonly status?: number;
      readonly body?: Buffer;
      readonly retryAfterMs?: number;
    };

async function askOnce(
  call: Passthrough,
  record: ExchangeRecord,
  client: Client,
  deps: ExchangeDependencies,
): Promise<AskOutcome> {
  const { provider, request, path, headers, bodyLimitBytes } = call;
  const { method, body, bodyPieces, requestId } = request;
  const upload =
    bodyPieces === undefined
      ? undefined
      : new RecordedUpload(bodyPieces, { record, limitBytes: bodyLimitBytes, keep: deps.capture === 'full' });
  try {
    const reply = await provider.forward({
      method,
      path,
      headers,
      body: upload ?? (body.length > 0 ? body : undefined),
      requestId,
      signal: client.ended,
    });
    if (reply.status < 400) return { reply };
    const errorBody = await reply.body.bytes(MAX_ERROR_BYTES);
    const { status, headers: replyHeaders } = reply;
    const error = refusalFromUpstream(mapUpstreamError({ status, headers: replyHeaders, body: errorBody, provider }));
    const { retryAfterSeconds } = error;
    const retryAfterMs = retryAfterSeconds === undefined ? undefined : retryAfterSeconds * 1000;
    return { error, status, body: redacted(errorBody, provider), retryAfterMs };
  } catch (error) {
    // When the upload is at fault, the provider only saw it break off.
    if (upload?.failure !== undefined) throw upload.failure;
    if (error instanceof ProviderFailure) return { error };
    throw error;
  }
}

async function passOn(
  call: Passthrough,
  asked: Asked,
  relay: PassthroughRelay,
  record: ExchangeRecord,
  client: Client,
  received: events.Received,
  deps: ExchangeDependencies,
): Promise<number> {
  const { provider, request } = call;
  const { reply, attempt } = asked;
  const headers = returnedHeaders(reply, record, request);
  const keepBodies = deps.capture === 'full';
  const contentType = reply.headers['content-type']?.toLowerCase() ?? '';
  let rest: readonly Buffer[];
  if (isEventStream(reply.headers)) {
    const name = provider.name;
    const end = await relayStream({
      reply,
      relay,
      record,
      client,
      attempt,
      received,
      provider: name,
      keepBodies,
      headers,
    });
    if (end.kind === 'failed') throw end.failure ?? end.refusal;
    if (end.kind === 'abandoned') throw new ProviderFailure(name, 'aborted', 'nobody waits for the answer any more');
    rest = end.rest;
    if (end.kind === 'broken') {
      const { chunks } = received;
      events.noteFailed(record, end.refusal, { status: reply.status, reason: 'stream_broken', chunks });
      await record.flush('durable');
      finish(client, reply.status, headers, rest);
      return end.refusal.status;
    }
  } else {
    const held = await relayBytes({ reply, record, client, attempt, received, keepBodies, headers });
    if (client.ended.aborted)
      throw new ProviderFailure(provider.name, 'aborted', 'nobody waits for the answer any more');
    rest = held === undefined ? [] : [held];
    if (!client.begun && contentType.includes('json') && held !== undefined && held.length <= MAX_WHOLE_BYTES) {
      relay.whole(held, parse(held));
    }
  }
  const { status } = reply;
  events.noteCompleted(record, received, { status, attempt, provider: provider.name, finishReason: null });
  const usage = relay.usage();
  if (usage.source === 'provider') {
    const { name, type } = provider;
    events.noteUsage(record, { provider: name, providerType: type, model: '', endpoint: '/p', usage });
  }
  await record.flush('durable');
  finish(client, status, headers, rest);
  return status;
}

function finish(client: Client, status: number, headers: Record<string, string>, rest: readonly Buffer[]): void {
  const [only] = rest;
  const isStream = isEventStream(headers);
  const isHead = headers['content-length'] !== undefined;
  if (!client.begun && !isStream && !isHead && rest.length <= 1 && status !== 204 && status !== 304) {
    client.answer(status, headers, only ?? Buffer.alloc(0));
    return;
  }
  if (!client.begun) client.begin(status, headers);
  for (const bytes of rest) client.write(bytes);
  client.end();
}

async function fail(
  error: unknown,
  record: ExchangeRecord,
  request: ModelRequest,
  client: Client,
  received: events.Received,
  deps: ExchangeDependencies,
): Promise<number> {
  let refusal =
    error instanceof Refusal
      ? error
      : error instanceof ProviderFailure
        ? refusalFromFailure(error)
        : error instanceof LogUnavailable
          ? refusals.logUnavailable(error)
          : refusals.internal(error);
  if (refusal.status === 500) deps.failed(error);
  if (error instanceof LogUnavailable) {
    if (record.flushed) deps.open.leftOpen(record.stream);
  } else {
    const { chunks } = received;
    if (client.ended.aborted && client.ended.reason === 'client_gone') events.noteDisconnected(record, received);
    else if (client.ended.aborted) {
      refusal = gatewayStopping();
      events.noteFailed(record, refusal, { status: client.begun ? 200 : 503, reason: 'gateway_stopped', chunks });
    } else if (!record.flushed) events.noteRefused(record, refusal);
    else
      events.noteFailed(record, refusal, {
        status: client.begun ? 200 : refusal.status,
        reason: 'provider_error',
        chunks,
      });
    try {
      await record.flush('durable');
    } catch (lost) {
      deps.open.leftOpen(record.stream);
      refusal = refusals.logUnavailable(lost);
    }
  }
  client.refuse(refusal, { 'x-exchange-id': record.id, 'x-request-id': request.requestId });
  return refusal.status;
}

function returnedHeaders(reply: ProviderReply, record: ExchangeRecord, request: ModelRequest): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(reply.headers)) if (!NOT_RETURNED.has(name)) headers[name] = value;
  // The answer to HEAD tells the length of a body that does not follow.
  const length = reply.headers['content-length'];
  if (request.method === 'HEAD' && length !== undefined) headers['content-length'] = length;
  headers['x-request-id'] = request.requestId;
  headers['x-exchange-id'] = record.id;
  return headers;
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}
