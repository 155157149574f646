/** One call to a provider and its result. */

import { createHash, type Hash } from 'node:crypto';
import { answerReceived, chunkReceived } from '../../../events/catalogue/exchange.ts';
import { LogUnavailable } from '../../../events/log.ts';
import { isObject } from '../../../json/is-object.ts';
import { type ParallelOptions, sendInParallel } from '../../../providers/parallel-calls.ts';
import { type Provider, ProviderFailure, type ProviderReply, type ReplyBody } from '../../../providers/provider.ts';
import { streamFormatOf } from '../../../providers/stream-frames.ts';
import { providerType } from '../../../providers/types.ts';
import { isErrorBody, mapUpstreamError } from '../../../providers/upstream-error.ts';
import type { RequestReservation } from '../../model-request/admission.ts';
import {
  errorBody,
  isEventStream,
  isJson,
  MAX_ERROR_BYTES,
  parseWhole,
  redacted,
  wholeBody,
} from '../../model-request/answer-body.ts';
import type { Client, ModelRequest, ParsedRequest } from '../../model-request/model-request.ts';
import type { Target } from '../../model-request/routing-types.ts';
import {
  refusalAsSent,
  refusalFromFailure,
  refusalFromUpstream,
  streamTooLong,
} from '../../model-request/upstream-refusals.ts';
import { Refusal, refusals } from '../../refusal.ts';
import { type AnsweredRequest, answerHeaders } from '../delivery/answer-headers.ts';
import { opening, type PassedAnswer, passBytes, passStream, type StreamEnd } from '../delivery/pass-stream.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import {
  type Answered,
  type AttemptEnd,
  type AttemptOptions,
  type BlockedAnswer,
  type FailedAttempt,
  type FailedUpload,
  type ForwardPlan,
  isMade,
  type ModelPlan,
  missingIn,
  nothingYet,
  type OpenAnswer,
  type OpenedSession,
  type Plan,
  type ReceivedAnswer,
  type StreamLimits,
  type WholeAnswer,
} from '../plan.ts';
import { type ExchangePolicy, ruledHeaders } from '../policy.ts';
import { countedAnswer, noteSpending, type Spender } from '../record/spending.ts';
import { AnswerBlocked, type ResponseStream } from '../response-stream.ts';

/** The exchange whose provider is called. */
export interface CallingExchange extends Spender, AnsweredRequest {
  readonly request: ModelRequest;
  readonly parsedRequest: ParsedRequest;
  readonly record: ExchangeRecord;
  readonly reservation: RequestReservation | undefined;
  readonly dialect: ExchangeDialect;
  readonly client: Client;
  readonly policy: Pick<ExchangePolicy, 'recordsUsage' | 'capture' | 'headers'>;
  readonly guarded: (NonNullable<AnsweredRequest['guarded']> & Pick<ModelRequest, 'headers'>) | undefined;
  readonly deps: Spender['deps'] & { readonly maxAnswerBytes: number; readonly streamLimits: StreamLimits };
}

/** @throws LogUnavailable */
export async function callProvider(
  exchange: CallingExchange,
  target: Target,
  plan: Plan,
  attempt: number,
): Promise<OpenAnswer | WholeAnswer | BlockedAnswer | FailedAttempt | FailedUpload> {
  const {
    record,
    client,
    parsedRequest: { stream },
    policy,
    deps,
  } = exchange;
  const answer = plan.newStream(attempt);
  const received = nothingYet();
  const answered = { attempt, plan, answer, received };
  const { calls } = plan;
  const parallel =
    plan.kind === 'model' && calls !== undefined ? inParallel(plan, calls, exchange, attempt) : undefined;
  try {
    record.called = true;
    const reply = await call(plan, target, exchange, attempt, parallel);
    if (reply.status >= 400) {
      const failed = refused(reply, await errorBody(reply), target.provider, plan);
      const unsupported = plan.kind === 'forward' ? plan.unsupported?.(failed.refusal) : undefined;
      return unsupported === undefined ? { ...failed, spent: parallel?.spent() } : { ...failed, refusal: unsupported };
    }
    if (plan.kind === 'forward' && plan.session !== undefined)
      return openSession(reply, answered, plan.session, exchange, target);
    // A client that follows a redirect may send its key to another host. Only on a provider's own API it is passed on.
    if (reply.status >= 300 && plan.dialect !== 'passthrough') {
      return malformedAnswer(reply, target.provider, await errorBody(reply), 'an answer');
    }
    // The client has got the head of an event stream while an earlier target was called.
    if (client.isKeptOpen && streamFormatOf(reply.headers) === undefined) {
      return malformedAnswer(reply, target.provider, await errorBody(reply), 'an event stream');
    }
    if (plan.kind === 'forward') {
      return await forwardedAnswer(
        reply,
        answered,
        plan,
        attemptOf(exchange, target),
        answerHeaders(exchange, target, reply),
      );
    }
    if (stream && streamFormatOf(reply.headers) !== undefined) {
      const headers = answerHeaders(exchange, target, reply);
      const given = { ...attemptOf(exchange, target), ...answered, reply, headers };
      const passing = opening(
        (beforeFirstByte) => passStream({ ...given, beforeFirstByte }, true),
        (end) => endOf(end, answered, reply),
      );
      const first = await passing.first;
      if (first !== 'opened' && first.kind === 'failed') return failedStream(first, answer);
      if (first !== 'opened' && first.kind === 'blocked') return blocked(answered, first.refusal, first.isWhole);
      return { ...answered, kind: 'open', reply, deliver: passing.deliver };
    }
    const bytes = await wholeBody(reply, target.provider, deps.maxAnswerBytes);
    received.firstByteMs = record.elapsed();
    const parsed = parseWhole(bytes);
    const error = calls === undefined ? (isErrorBody(parsed) ? bytes : undefined) : errorOfCalls(parsed);
    if (error !== undefined) {
      return { ...refused(reply, error, target.provider, plan), spent: usageOfMalformed(answer, bytes, parsed) };
    }
    if (parsed === undefined || stream) {
      const failed = malformedAnswer(reply, target.provider, bytes, stream ? 'an event stream' : 'JSON');
      return { ...failed, spent: usageOfMalformed(answer, bytes, parsed) };
    }
    const whole = { parsed, bytes: bytes.length, isJson: true, vectors: plan.vectors };
    const missing = calls === undefined ? missingIn(plan.dialect, whole) : missingOfCalls(whole, plan);
    if (missing !== undefined) return incomplete(missing, bytes, answered, target.provider);
    received.chunks = 1;
    received.bytes = bytes.length;
    const redactedBody = isObject(parsed) && parsed.status === 'failed' ? redacted(bytes, target.provider) : bytes;
    const kept = policy.capture === 'full' ? redactedBody : undefined;
    record.note(chunkReceived.create({ attempt, index: 0 }, record.context, kept));
    const ofClient = countedAnswer(answered, redactedBody, redactedBody === bytes ? parsed : parseWhole(redactedBody));
    return { ...answered, kind: 'whole', reply, bytes: ofClient instanceof Promise ? await ofClient : ofClient };
  } catch (error) {
    if (error instanceof AnswerBlocked) return blocked(answered, error.refusal, true);
    const upload = plan.kind === 'forward' ? failureOf(plan.body) : undefined;
    // When the upload failed, the provider only saw the connection break.
    if (upload instanceof LogUnavailable) throw upload;
    if (upload !== undefined && !client.ended.aborted) return { kind: 'upload_failed', refusal: upload };
    if (error instanceof ProviderFailure) {
      return { kind: 'failed', refusal: refusalFromFailure(error), failure: error, spent: parallel?.spent() };
    }
    if (error instanceof Refusal) {
      if (isMade(plan)) return { kind: 'failed', refusal: error, status: error.status };
      return { kind: 'failed', refusal: error, status: error.status, malformed: true, spent: spentBy(answer) };
    }
    throw error;
  }
}

/** What the first incomplete one of parallel calls lacks. */
function missingOfCalls(answers: ReceivedAnswer, { dialect }: ModelPlan): string | undefined {
  for (const one of answersOfCalls(answers.parsed)) {
    const missing = missingIn(dialect, { ...answers, parsed: one });
    if (missing !== undefined) return missing;
  }
  return undefined;
}

function answersOfCalls(parsed: unknown): readonly unknown[] {
  return isObject(parsed) && Array.isArray(parsed.calls) ? parsed.calls : [];
}

/** The bytes of the first error of parallel calls. */
function errorOfCalls(parsed: unknown): Buffer | undefined {
  const error = answersOfCalls(parsed).find(isErrorBody);
  return error === undefined ? undefined : Buffer.from(JSON.stringify(error));
}

function blocked(answered: Answered, refusal: Refusal, isWhole: boolean): BlockedAnswer {
  return { ...answered, kind: 'blocked', refusal, isWhole };
}

/** The part of the exchange that passes an answer on piece by piece. */
function attemptOf({ record, client, policy, reservation, deps }: CallingExchange, target: Target): AttemptOptions {
  const countsInput = reservation?.isCounted && providerType(target.provider.type)?.countsInputFirst === true;
  return {
    target,
    record,
    client,
    keepBodies: policy.capture === 'full',
    maxAnswerBytes: deps.maxAnswerBytes,
    streamLimits: deps.streamLimits,
    inputCounted: countsInput ? (usage) => reservation.inputCounted(usage) : undefined,
  };
}

function call(
  plan: Plan,
  { provider, model }: Target,
  { request, guarded, policy: { headers: rules }, parsedRequest: { stream }, client, record }: CallingExchange,
  attempt: number,
  parallel: Parallel | undefined,
): Promise<ProviderReply> {
  const { requestId } = request;
  const signal = client.ended;
  const {
    trace,
    context: { traceparent },
  } = record;
  const planned = plan.kind === 'forward' ? plan.call.headers : plan.headers;
  const sent = rules === undefined ? planned : ruledHeaders(rules, planned ?? {}, guarded?.headers ?? request.headers);
  // The provider's part of the work belongs to the client's trace (W3C Trace Context).
  const ofTrace = trace === undefined ? traceparent && { traceparent } : trace.headersOf(attempt);
  const headers = ofTrace ? { ...sent, ...ofTrace } : sent;
  if (plan.kind === 'forward') {
    return provider.forward({ ...plan.call, headers: headers ?? {}, model, body: plan.body, requestId, signal });
  }
  const { dialect, body } = plan;
  const call = { dialect, model, body, headers, stream, requestId, signal, ...plan.socket };
  if (plan.make !== undefined) return plan.make(call, request);
  return parallel === undefined ? provider.send(call) : sendInParallel(provider, call, parallel);
}

interface Parallel extends ParallelOptions {
  /** What the calls have reported, when one has failed before there was an answer. */
  spent(): ResponseStream | undefined;
}

/** How parallel calls are judged until there is an answer of all: by a response stream of its own. */
function inParallel(
  plan: ModelPlan,
  calls: number,
  { parsedRequest: { stream }, deps: { maxAnswerBytes: maxBytes } }: CallingExchange,
  attempt: number,
): Parallel {
  const first = plan.newStream(attempt).unguarded;
  const answers: unknown[] = Array.from({ length: calls }, () => null);
  return {
    calls,
    maxBytes,
    isFailure: (frame) => first.frame(frame).refusal !== undefined,
    isAnswer(bytes, call) {
      const parsed = parseWhole(bytes);
      answers[call] = parsed;
      const answer = { parsed, bytes: bytes.length, isJson: true };
      return !isErrorBody(parsed) && missingIn(plan.dialect, answer) === undefined;
    },
    spent: () => (stream ? spentBy(first) : usageOfMalformed(first, Buffer.alloc(0), { calls: answers })),
  };
}

/** A session is an answer that has begun. */
function openSession(
  upgraded: ProviderReply,
  answered: Answered,
  session: NonNullable<ForwardPlan['session']>,
  exchange: CallingExchange,
  { provider }: Target,
): OpenAnswer | FailedAttempt {
  const { attempt, received } = answered;
  const { socket, idle } = upgraded;
  if (socket === undefined || idle === undefined) {
    const refusal = refusals.badAnswer(provider.name, `The provider '${provider.name}' did not open a WebSocket.`);
    return { kind: 'failed', refusal, status: 502, malformed: true };
  }
  const reply = { ...upgraded, status: 200 };
  const opened: OpenedSession = {
    ...{ socket, idle, attempt, received, reservation: exchange.reservation },
    spend(target, reader, estimate) {
      const facts = { isPartial: estimate?.isPartial === true, estimate: estimate?.tokens, goesOn: true };
      return noteSpending(exchange, target, reader, facts);
    },
  };
  const deliver = () => session(opened).then((end) => endOf(end, answered, reply));
  return { ...answered, kind: 'open', reply, deliver };
}

/** Why an upload broke off, unless the provider ended it. */
function failureOf(body: ForwardPlan['body']): Refusal | LogUnavailable | undefined {
  return body === undefined || body instanceof Uint8Array ? undefined : body.failure;
}

/** An answer of any kind, passed on unchanged. */
async function forwardedAnswer(
  reply: ProviderReply,
  answered: Answered,
  plan: ForwardPlan,
  options: AttemptOptions,
  headers: Record<string, string>,
): Promise<OpenAnswer | BlockedAnswer | FailedAttempt> {
  const { provider } = options.target;
  const given = { ...options, ...answered, reply, plan, headers };
  const passing = opening(
    (beforeFirstByte) => passForwarded({ ...given, beforeFirstByte }),
    (end) => endOf(end, answered, reply),
  );
  const first = await passing.first;
  if (first !== 'opened') {
    if (first.kind === 'failed') return failedStream(first, answered.answer);
    if (first.kind === 'blocked') return blocked(answered, first.refusal, first.isWhole);
    if (first.kind === 'error_body') {
      const spent = usageOfMalformed(answered.answer, first.bytes, parseWhole(first.bytes));
      return { ...refused(reply, first.bytes, provider, plan), spent };
    }
    if (first.kind === 'incomplete') return incomplete(first.missing, first.bytes, answered, provider);
  }
  return { ...answered, kind: 'open', reply, deliver: passing.deliver };
}

function endOf(end: ForwardedEnd, answered: Answered, reply: ProviderReply): AttemptEnd {
  switch (end.kind) {
    case 'whole':
    case 'streamed':
      return { ...answered, ...end, reply };
    case 'broken':
    case 'blocked':
    case 'abandoned':
      return { ...answered, ...end };
    case 'failed':
      return { ...answered, kind: 'broken', refusal: end.refusal, rest: [], cut: true };
    case 'error_body':
    case 'incomplete':
      throw new Error('an answer that had begun was read as an error');
  }
}

/** The stream failed before any byte was sent to the client. */
function failedStream(end: Extract<StreamEnd, { kind: 'failed' }>, answer: ResponseStream): FailedAttempt {
  const status = end.failure === undefined ? end.refusal.status : undefined;
  return { ...end, status, spent: spentBy(answer) };
}

/** The stream of a malformed whole answer, from which its usage can be read. */
function usageOfMalformed(answer: ResponseStream, bytes: Buffer, parsed: unknown): ResponseStream | undefined {
  try {
    if (isObject(parsed)) answer.unguarded.whole(bytes, parsed);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  }
  return spentBy(answer);
}

function spentBy(answer: ResponseStream): ResponseStream | undefined {
  return answer.reader.usage().source === 'provider' ? answer : undefined;
}

function malformedAnswer(reply: ProviderReply, provider: Provider, body: Buffer, expected: string): FailedAttempt {
  const { name } = provider;
  const type = provider.redact(reply.headers['content-type'] ?? 'no content type');
  const what = reply.status >= 300 ? `status ${reply.status}` : type;
  const isNamed = expected === 'JSON' && /\bjson\b/i.test(what);
  const message = isNamed
    ? `The provider '${name}' answered with ${what} that cannot be read.`
    : `The provider '${name}' answered with ${what} where ${expected} was expected.`;
  return {
    kind: 'failed',
    refusal: refusals.badAnswer(name, message),
    status: 502,
    body: recorded(body, provider),
    malformed: true,
  };
}

/** An answer that lacks what an answer must contain. */
function incomplete(missing: string, body: Buffer, { answer }: Answered, provider: Provider): FailedAttempt {
  const message = `The provider '${provider.name}' gave an answer without ${missing}.`;
  return {
    kind: 'failed',
    refusal: refusals.badAnswer(provider.name, message),
    status: 502,
    body: recorded(body, provider),
    malformed: true,
    spent: usageOfMalformed(answer, body, parseWhole(body)),
  };
}

function refused(reply: ProviderReply, body: Buffer, provider: Provider, { dialect }: Plan): FailedAttempt {
  const mapped = mapUpstreamError({ status: reply.status, headers: reply.headers, body, provider });
  const refusal = dialect === 'passthrough' ? refusalAsSent(mapped) : refusalFromUpstream(mapped);
  const { retryAfterSeconds } = refusal;
  const retryAfterMs = retryAfterSeconds === undefined ? undefined : retryAfterSeconds * 1000;
  return { kind: 'failed', refusal, status: mapped.status, body: recorded(body, provider), retryAfterMs };
}

/** Of the body of a failed attempt. Cut after credentials are redacted: one that is cut in two would not be found. */
function recorded(body: Buffer, provider: Provider): Buffer {
  return redacted(body, provider).subarray(0, MAX_ERROR_BYTES);
}

// Forwards an answer of any kind unchanged: an event stream event by event; a short JSON text whole, so that it gets
// a content length and its usage is read; everything else piece by piece.

/** JSON answers up to this size are read whole. */
const MAX_WHOLE_BYTES = 1024 * 1024;

type ForwardedAnswer = PassedAnswer & { readonly plan: ForwardPlan };

type ForwardedEnd =
  | StreamEnd
  | { readonly kind: 'whole'; readonly bytes: Buffer }
  /** The body is an error, whatever the status. */
  | { readonly kind: 'error_body'; readonly bytes: Buffer }
  /** The body lacks what the answer must contain. */
  | { readonly kind: 'incomplete'; readonly bytes: Buffer; readonly missing: string };

/** @throws LogUnavailable, ProviderFailure */
async function passForwarded(given: ForwardedAnswer): Promise<ForwardedEnd> {
  const { plan, record, attempt, received } = given;
  if (plan.digestOnly !== true) return passByKind(given);
  const hash = createHash('sha256');
  const reply = { ...given.reply, body: digested(given.reply.body, hash) };
  const end = await passByKind({ ...given, reply, keepBodies: false });
  if (end.kind === 'whole' || end.kind === 'streamed') {
    const contentType = reply.headers['content-type'];
    const { bytes } = received;
    record.note(answerReceived.create({ attempt, contentType, bytes, sha256: hash.digest('hex') }, record.context));
  }
  return end;
}

async function passByKind(options: ForwardedAnswer): Promise<ForwardedEnd> {
  const { reply, plan } = options;
  // A stream of JSON lines of a provider's own API; a file of lines is fetched by GET.
  const isLines =
    plan.dialect === 'passthrough' && plan.call.method === 'POST' && streamFormatOf(reply.headers) === 'lines';
  if (isLines || isEventStream(reply.headers)) return passEvents(options);
  const announced = Number(reply.headers['content-length'] ?? Number.POSITIVE_INFINITY);
  const hasBody = plan.call.method !== 'HEAD' && reply.status !== 204 && reply.status !== 304;
  const isShortJson = isJson(reply.headers) && announced <= MAX_WHOLE_BYTES;
  return hasBody && (plan.readsWhole || isShortJson) ? passWhole(options) : passPieces(options, hasBody);
}

async function passEvents(options: ForwardedAnswer): Promise<ForwardedEnd> {
  const end = await passStream(options, options.plan.dialect !== 'passthrough');
  if (end.kind === 'broken') return { ...end, cut: end.rest.length === 0 };
  return end.kind === 'abandoned' ? { ...end, cut: true } : end;
}

async function passWhole(options: ForwardedAnswer): Promise<ForwardedEnd> {
  const { reply, plan, answer, record, attempt, received, keepBodies, maxAnswerBytes } = options;
  const bytes = await wholeBody(reply, options.target.provider, maxAnswerBytes);
  received.firstByteMs = record.elapsed();
  const parsed = parseWhole(bytes);
  if (!plan.verbatim && isErrorBody(parsed)) return { kind: 'error_body', bytes };
  const missing = missingIn(plan.answer, { parsed, bytes: bytes.length, isJson: isJson(reply.headers) });
  if (missing !== undefined) return { kind: 'incomplete', bytes, missing };
  if (bytes.length > 0) {
    received.chunks = 1;
    received.bytes = bytes.length;
    record.note(chunkReceived.create({ attempt, index: 0 }, record.context, keepBodies ? bytes : undefined));
  }
  return { kind: 'whole', bytes: await countedAnswer({ answer, received }, bytes, parsed) };
}

async function passPieces(options: ForwardedAnswer, hasBody: boolean): Promise<ForwardedEnd> {
  const { reply, client } = options;
  let held: Buffer | undefined;
  let begun = false;
  const beforeFirstByte = () => {
    begun = true;
    return options.beforeFirstByte();
  };
  const seen = new JsonSoFar(isJson(reply.headers));
  const { streamLimits, received, target } = options;
  let exceeded: Refusal | undefined;
  const lasting = setTimeout(() => {
    exceeded = streamTooLong(target.provider.name, streamLimits.ms, received.bytes);
    reply.body.cancel();
  }, streamLimits.ms);
  try {
    held = await passBytes({ ...options, beforeFirstByte }, (piece) => seen.take(piece));
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
    if (client.ended.aborted) return { kind: 'abandoned', rest: [], cut: true };
    if (exceeded !== undefined && !begun) return { kind: 'failed', refusal: exceeded, malformed: true };
    const refusal = exceeded ?? refusalFromFailure(error);
    return begun ? { kind: 'broken', refusal, rest: [], cut: true } : { kind: 'failed', refusal, failure: error };
  } finally {
    clearTimeout(lasting);
  }
  if (client.ended.aborted) return { kind: 'abandoned', rest: [], cut: true };
  const whole = seen.whole();
  let parsed = whole === undefined ? undefined : parseWhole(whole);
  if (!options.plan.verbatim && !begun) {
    const bytes = held ?? Buffer.alloc(0);
    if (isErrorBody(parsed)) return { kind: 'error_body', bytes };
    // JSON under another content type is an answer, too.
    parsed ??= parseWhole(bytes);
    const answer = { parsed, bytes: bytes.length, isJson: isJson(reply.headers) };
    const missing = missingIn(options.plan.answer, answer);
    if (missing !== undefined) return { kind: 'incomplete', bytes, missing };
  }
  if (whole !== undefined) void countedAnswer(options, whole, parsed);
  if (begun || !hasBody) return { kind: 'streamed', rest: held === undefined ? [] : [held] };
  return { kind: 'whole', bytes: held ?? Buffer.alloc(0) };
}

/** Collects a JSON answer of unknown length while it is short; its usage is read when all of it was passed on. */
class JsonSoFar {
  #pieces: Buffer[] | undefined;
  #bytes = 0;

  constructor(isJson: boolean) {
    if (isJson) this.#pieces = [];
  }

  take(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > MAX_WHOLE_BYTES) this.#pieces = undefined;
    this.#pieces?.push(piece);
  }

  whole(): Buffer | undefined {
    return this.#bytes === 0 || this.#pieces === undefined ? undefined : Buffer.concat(this.#pieces);
  }
}

function digested(body: ReplyBody, hash: Hash): ReplyBody {
  return {
    async bytes(maxBytes) {
      const bytes = await body.bytes(maxBytes);
      hash.update(bytes);
      return bytes;
    },
    pieces: (onPiece) =>
      body.pieces((piece) => {
        hash.update(piece);
        return onPiece(piece);
      }),
    get arrived() {
      return body.arrived;
    },
    cancel: () => body.cancel(),
  };
}
