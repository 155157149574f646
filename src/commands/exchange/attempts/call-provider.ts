/** One call to a provider and its result. */
import { chunkReceived } from '../../../events/catalogue/exchange.ts';
import { LogUnavailable } from '../../../events/log.ts';
import { isObject } from '../../../json/is-object.ts';
import { sendInParallel } from '../../../providers/parallel-calls.ts';
import { type Provider, ProviderFailure, type ProviderReply } from '../../../providers/provider.ts';
import { streamFormatOf } from '../../../providers/stream-splitter.ts';
import { isErrorBody, mapUpstreamError } from '../../../providers/upstream-error.ts';
import { redacted } from '../../model-request/redacted.ts';
import { refusalAsSent, refusalFromFailure, refusalFromUpstream } from '../../model-request/refusal-from-upstream.ts';
import { errorBody, MAX_ERROR_BYTES, parseWhole, wholeBody } from '../../model-request/whole-body.ts';
import { Refusal, refusals } from '../../refusal.ts';
import { missingIn } from '../answer-shape.ts';
import { opening } from '../delivery/opening.ts';
import { type ForwardedEnd, relayForwarded } from '../delivery/relay-forwarded.ts';
import { relayStream, type StreamEnd } from '../delivery/relay-stream.ts';
import {
  type Answered,
  type AttemptEnd,
  type AttemptOptions,
  type BlockedAnswer,
  type FailedAttempt,
  type FailedUpload,
  nothingYet,
  type OpenAnswer,
  type WholeAnswer,
} from '../outcome.ts';
import type { ForwardPlan, ModelPlan, Plan } from '../plan.ts';
import { countedAnswer } from '../record/output-count.ts';
import { AnswerBlocked, type LiveRelay } from '../relay.ts';

/** @throws LogUnavailable */
export async function callProvider(
  options: AttemptOptions,
  plan: Plan,
  attempt: number,
): Promise<OpenAnswer | WholeAnswer | BlockedAnswer | FailedAttempt | FailedUpload> {
  const { record, target, client, keepBodies } = options;
  const provider = target.provider.name;
  const relay = plan.relay(attempt);
  const received = nothingYet();
  const answered = { attempt, plan, relay, received };
  try {
    record.called = true;
    const reply = await call(plan, options);
    if (reply.status >= 400) {
      const failed = refused(reply, await errorBody(reply), target.provider, plan);
      const unsupported = plan.kind === 'forward' ? plan.unsupported?.(failed.refusal) : undefined;
      return unsupported === undefined ? failed : { ...failed, refusal: unsupported };
    }
    // The client has got the head of an event stream while an earlier target was called.
    if (client.isKeptOpen && streamFormatOf(reply.headers) === undefined) {
      return malformedAnswer(reply, provider, await errorBody(reply), 'an event stream');
    }
    if (plan.kind === 'forward') return await forwardedAnswer(reply, answered, plan, options);
    if (options.stream && streamFormatOf(reply.headers) !== undefined) {
      const headers = options.answerHeaders(reply);
      const { streamLimits, inputCounted } = options;
      const given = {
        reply,
        plan,
        relay,
        record,
        client,
        attempt,
        received,
        provider,
        keepBodies,
        headers,
        streamLimits,
        inputCounted,
      };
      const stream = opening((beforeFirstByte) => relayStream({ ...given, beforeFirstByte, closesAfterEnd: true }));
      const first = await stream.first;
      if (first !== 'opened' && first.kind === 'failed') return failedStream(first, relay);
      if (first !== 'opened' && first.kind === 'blocked') return blocked(answered, first.refusal, first.isWhole);
      return { ...answered, kind: 'open', reply, deliver: async () => endOf(await stream.deliver(), answered, reply) };
    }
    const bytes = await wholeBody(reply, target.provider, options.maxAnswerBytes);
    received.firstByteMs = record.elapsed();
    const parsed = parseWhole(bytes);
    const error = errorBodyIn(parsed, bytes, plan);
    if (error !== undefined) {
      return { ...refused(reply, error, target.provider, plan), spent: usageOfMalformed(relay, bytes, parsed) };
    }
    if (parsed === undefined || options.stream) {
      const failed = malformedAnswer(reply, provider, bytes, options.stream ? 'an event stream' : 'JSON');
      return { ...failed, spent: usageOfMalformed(relay, bytes, parsed) };
    }
    const missing = missingPart(parsed, bytes, plan);
    if (missing !== undefined) return incomplete(missing, bytes, answered, provider);
    received.chunks = 1;
    received.bytes = bytes.length;
    const redactedBody = isObject(parsed) && parsed.status === 'failed' ? redacted(bytes, target.provider) : bytes;
    record.note(chunkReceived.create({ attempt, index: 0 }, record.context, keepBodies ? redactedBody : undefined));
    const whole = countedAnswer(answered, redactedBody, redactedBody === bytes ? parsed : parseWhole(redactedBody));
    return { ...answered, kind: 'whole', reply, bytes: whole instanceof Promise ? await whole : whole };
  } catch (error) {
    if (error instanceof AnswerBlocked) return blocked(answered, error.refusal, true);
    const upload = plan.kind === 'forward' ? failureOf(plan.body) : undefined;
    // When the upload failed, the provider only saw the connection break.
    if (upload instanceof LogUnavailable) throw upload;
    if (upload !== undefined && !client.ended.aborted) return { kind: 'upload_failed', refusal: upload };
    if (error instanceof ProviderFailure) return { kind: 'failed', refusal: refusalFromFailure(error), failure: error };
    if (error instanceof Refusal) {
      return { kind: 'failed', refusal: error, status: error.status, malformed: true, spent: spentBy(relay) };
    }
    throw error;
  }
}

/** What the answer lacks; of parallel calls, what the first incomplete one lacks. */
function missingPart(parsed: unknown, bytes: Buffer, { dialect, calls, vectors }: ModelPlan): string | undefined {
  for (const one of calls === undefined ? [parsed] : answersOfCalls(parsed)) {
    const missing = missingIn(dialect, { parsed: one, bytes: bytes.length, isJson: true, vectors });
    if (missing !== undefined) return missing;
  }
  return undefined;
}

function answersOfCalls(parsed: unknown): readonly unknown[] {
  return isObject(parsed) && Array.isArray(parsed.calls) ? parsed.calls : [];
}

/** The bytes of an error in an answer; of parallel calls, of the first error. */
function errorBodyIn(parsed: unknown, bytes: Buffer, { calls }: Plan): Buffer | undefined {
  if (calls === undefined) return isErrorBody(parsed) ? bytes : undefined;
  const error = answersOfCalls(parsed).find(isErrorBody);
  return error === undefined ? undefined : Buffer.from(JSON.stringify(error));
}

function blocked(answered: Answered, refusal: Refusal, isWhole: boolean): BlockedAnswer {
  return { ...answered, kind: 'blocked', refusal, isWhole };
}

function call(plan: Plan, { target, requestId, stream, client, record }: AttemptOptions): Promise<ProviderReply> {
  const { provider, model } = target;
  const signal = client.ended;
  const { traceparent } = record.context;
  if (plan.kind === 'forward') {
    const headers = withTrace(plan.call.headers, traceparent);
    return provider.forward({ ...plan.call, headers, model, body: plan.body, requestId, signal });
  }
  const { dialect, body } = plan;
  const headers = traceparent === undefined ? plan.headers : withTrace(plan.headers ?? {}, traceparent);
  const call = { dialect, model, body, headers, stream, requestId, signal };
  return plan.calls === undefined ? provider.send(call) : sendInParallel(provider, call, plan.calls);
}

/** The provider's part of the work belongs to the client's trace (W3C Trace Context). */
function withTrace(headers: Readonly<Record<string, string>>, traceparent: string | undefined) {
  return traceparent === undefined ? headers : { ...headers, traceparent };
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
): Promise<OpenAnswer | BlockedAnswer | FailedAttempt> {
  const { provider } = options.target;
  if (!plan.verbatim && reply.status >= 300) {
    return malformedAnswer(reply, provider.name, await errorBody(reply), 'an answer');
  }
  const given = { ...options, ...answered, reply, plan, headers: options.answerHeaders(reply) };
  const relayed = opening((beforeFirstByte) => relayForwarded({ ...given, beforeFirstByte }));
  const first = await relayed.first;
  if (first !== 'opened') {
    if (first.kind === 'failed') return failedStream(first, answered.relay);
    if (first.kind === 'blocked') return blocked(answered, first.refusal, first.isWhole);
    if (first.kind === 'error_body') {
      const spent = usageOfMalformed(answered.relay, first.bytes, parseWhole(first.bytes));
      return { ...refused(reply, first.bytes, provider, plan), spent };
    }
    if (first.kind === 'incomplete') return incomplete(first.missing, first.bytes, answered, provider.name);
  }
  return { ...answered, kind: 'open', reply, deliver: async () => endOf(await relayed.deliver(), answered, reply) };
}

function endOf(end: StreamEnd | ForwardedEnd, answered: Answered, reply: ProviderReply): AttemptEnd {
  switch (end.kind) {
    case 'whole':
    case 'streamed':
      return { ...answered, ...end, reply };
    case 'complete':
      return { ...answered, kind: 'streamed', reply, rest: end.rest };
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
function failedStream(end: Extract<StreamEnd, { kind: 'failed' }>, relay: LiveRelay): FailedAttempt {
  const status = end.failure === undefined ? end.refusal.status : undefined;
  return { ...end, status, spent: spentBy(relay) };
}

/** The relay of a malformed whole answer, from which its usage can be read. */
function usageOfMalformed(relay: LiveRelay, bytes: Buffer, parsed: unknown): LiveRelay | undefined {
  try {
    if (isObject(parsed)) void (relay.unguarded ?? relay).whole(bytes, parsed);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  }
  return spentBy(relay);
}

function spentBy(relay: LiveRelay): LiveRelay | undefined {
  return relay.usage().source === 'provider' ? relay : undefined;
}

function malformedAnswer(reply: ProviderReply, provider: string, body: Buffer, expected: string): FailedAttempt {
  const what = reply.headers['content-type'] ?? 'no content type';
  const isNamed = expected === 'JSON' && /\bjson\b/i.test(what);
  const message = isNamed
    ? `The provider '${provider}' answered with ${what} that cannot be read.`
    : `The provider '${provider}' answered with ${what} where ${expected} was expected.`;
  return {
    kind: 'failed',
    refusal: refusals.badAnswer(provider, message),
    status: 502,
    body: body.subarray(0, MAX_ERROR_BYTES),
    malformed: true,
  };
}

/** An answer that lacks what an answer must contain. */
function incomplete(missing: string, body: Buffer, { relay }: Answered, provider: string): FailedAttempt {
  const message = `The provider '${provider}' gave an answer without ${missing}.`;
  return {
    kind: 'failed',
    refusal: refusals.badAnswer(provider, message),
    status: 502,
    body: body.subarray(0, MAX_ERROR_BYTES),
    malformed: true,
    spent: usageOfMalformed(relay, body, parseWhole(body)),
  };
}

function refused(reply: ProviderReply, body: Buffer, provider: Provider, { dialect }: Plan): FailedAttempt {
  const mapped = mapUpstreamError({ status: reply.status, headers: reply.headers, body, provider });
  const refusal = dialect === 'passthrough' ? refusalAsSent(mapped) : refusalFromUpstream(mapped);
  const { retryAfterSeconds } = refusal;
  const retryAfterMs = retryAfterSeconds === undefined ? undefined : retryAfterSeconds * 1000;
  // Cut after credentials are redacted: a credential that is cut in two would not be found.
  const redactedBody = redacted(body, provider).subarray(0, MAX_ERROR_BYTES);
  return { kind: 'failed', refusal, status: mapped.status, body: redactedBody, retryAfterMs };
}
