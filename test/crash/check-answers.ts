/** The bytes a client received are in the log, and an answer it got whole is recorded as whole. */
import { isDeepStrictEqual } from 'node:util';
import { type Refusal, refusals } from '../../src/commands/refusal.ts';
import { LogUnavailable } from '../../src/events/log.ts';
import { isObject } from '../../src/json/is-object.ts';
import { endsOf } from './check-exchanges.ts';
import { checkGuardedAnswer, isWholeAnswer } from './check-guarded.ts';
import {
  type Answer,
  type Conversation,
  dataOf,
  framesOf,
  GATEWAY_FRAME,
  type LogFailure,
  objectOf,
  type SentRequest,
  streamedResponse,
  type Violation,
} from './evidence.ts';
import { metFailure } from './log-failures.ts';
import { eventOf, numberIn, piecesOf, type RecordedExchange, type RecordedLog, textIn } from './recorded-log.ts';

const DONE = 'data: [DONE]\n\n';
const UNKNOWN = new LogUnavailable('', 'unknown');
const NOT_CONFIRMED = refusals.answerNotRecorded(UNKNOWN);
/** An answer from the cache is recorded whole with its request. */
const NOT_CONFIRMED_REQUEST = refusals.logUnavailable(UNKNOWN);
const LOG_UNAVAILABLE = [
  ...[refusals.logUnavailable(), refusals.logUnavailable(UNKNOWN)],
  ...[refusals.answerNotRecorded(undefined), NOT_CONFIRMED],
];

/** `gateway_stopped`: it was killed before the log could be written again. */
const FAILED_WITH_LOG = new Set(['log_unavailable', 'gateway_stopped']);

type Complain = (check: string, what: string) => void;

export function checkAnswers(
  conversations: readonly Conversation[],
  log: RecordedLog,
  logFailures: readonly LogFailure[] = [],
): Violation[] {
  const found: Violation[] = [];
  const claimed = new Map<string, string>();
  for (const { request, answer } of conversations) {
    if (request.route === 'retrieve' || request.route === 'delete') continue;
    const exchangeId = answer.headers['x-exchange-id'];
    const requestId = request.requestId ?? answer.headers['x-request-id'];
    const name = `${request.method} ${request.path} (request ${requestId}, exchange ${exchangeId})`;
    const complain: Complain = (check, what) => found.push({ check, what: `${name}: ${what}` });
    const recorded = requestId === undefined ? [] : (log.byRequestId.get(requestId) ?? []);
    if (recorded.length > 1) complain('recorded once', `the log has it ${recorded.length} times`);
    checkRequestBody(request, log.exchanges.get(recorded[0] ?? ''), complain);
    if (answer.status === undefined) continue;
    const isLogUnavailable = isRefusal(answer, LOG_UNAVAILABLE);
    if (isLogUnavailable && !metFailure(answer, logFailures)) {
      complain('answers', 'answered 503 log_unavailable while the log could be written');
    }
    if (exchangeId === undefined) {
      const isUnserved = recorded.length === 0 && isRefusal(answer, [refusals.noWorker()]);
      if (!isLogUnavailable && !isUnserved && !isRefusal(answer, [refusals.stopping()]))
        complain(
          'answers',
          `answered ${answer.status} without an x-exchange-id: ${answer.body.toString('utf8', 0, 300)}`,
        );
      continue;
    }
    if (claimed.has(exchangeId)) complain('recorded once', `${claimed.get(exchangeId)} was the same exchange`);
    claimed.set(exchangeId, name);
    const exchange = log.exchanges.get(exchangeId);
    if (exchange === undefined) {
      // Its first event could not be recorded.
      if (isLogUnavailable) continue;
      complain('answers', `answered ${answer.status}, and the log has no such exchange`);
      continue;
    }
    if (recorded[0] !== exchangeId) complain('answers', `the log has the request as exchange ${recorded[0]}`);
    if (isLogUnavailable) checkNotRecorded(answer, exchange, complain);
    else checkAnswer(request, answer, exchange, log, complain);
  }
  return found;
}

/**
 * The body of a large passthrough comes in pieces after `attempt.started`, each recorded before the provider gets it:
 * the last ones may be missing when the exchange was cut short, or all of them when that happened before the first.
 */
function checkRequestBody(request: SentRequest, exchange: RecordedExchange | undefined, complain: Complain): void {
  if (exchange === undefined || request.body === undefined) return;
  const events = exchange.events.filter(({ type }) => type === 'request.received' || type === 'request.body_received');
  const recorded = Buffer.concat(events.map(({ body }) => body ?? Buffer.alloc(0)));
  const isPart = recorded.equals(request.body.subarray(0, recorded.length));
  const [received] = events;
  const isInPieces = textIn(received, 'dialect') === 'passthrough' && received?.body === undefined;
  const mayBePart = (isInPieces || events.length > 1) && eventOf(exchange, 'exchange.completed') === undefined;
  if (!isPart || (recorded.length < request.body.length && !mayBePart)) {
    complain('requests', `the log has ${recorded.length} bytes that are not the ${request.body.length} that were sent`);
  }
}

function isRefusal({ status, body }: Answer, refusals: readonly Refusal[]): boolean {
  const error = objectOf(body)?.error;
  if (status !== 503 || !isObject(error)) return false;
  // Errors of Messages have no code.
  return refusals.some(({ code, message }) => error.code === code || error.message === message);
}

/** Its end was recorded when the log could be written again, or at the next start; with the error it may be complete. */
function checkNotRecorded({ body }: Answer, exchange: RecordedExchange, complain: Complain): void {
  const [end] = endsOf(exchange);
  const isUnknown = [NOT_CONFIRMED, NOT_CONFIRMED_REQUEST].some(({ message }) => body.includes(message));
  if (end?.type === 'exchange.completed' && isUnknown) return;
  const isFailed = end?.type === 'exchange.failed' && FAILED_WITH_LOG.has(textIn(end, 'code') ?? '');
  if (!isFailed) complain('answers', `answered 503 log_unavailable, and the log says ${end?.type}`);
}

function checkAnswer(
  request: SentRequest,
  answer: Answer,
  exchange: RecordedExchange,
  log: RecordedLog,
  complain: Complain,
): void {
  const { status = 0 } = answer;
  const [end] = endsOf(exchange);
  if (status >= 400) {
    const reported = end?.type === 'request.refused' || end?.type === 'exchange.failed';
    if (!reported || numberIn(end, 'status') !== status) {
      complain('answers', `answered ${status}, and the log says ${end?.type} ${numberIn(end, 'status')}`);
    }
    return;
  }
  if (request.guarded !== undefined) {
    checkGuardedAnswer(request, request.guarded, answer, exchange, log, complain);
    return;
  }
  if (isCopy(request, exchange)) {
    checkCopy(request, answer, exchange, log, complain);
    return;
  }
  // Translated for both providers: their texts are known in advance, and compared by check-cached.ts and check-plugin.ts.
  if (request.route === 'messages') return;
  const translated = request.route === 'responses' && request.provider === 'llamacpp';
  if (!request.stream) {
    if (answer.end !== 'whole') return;
    if (end?.type !== 'exchange.completed')
      complain('completed', `a whole answer arrived, and the log says ${end?.type}`);
    else if (translated) checkTranslated(request, answer, exchange, log, complain);
    else if (
      !unnamed(Buffer.concat(piecesOf(exchange)), request, exchange).equals(unnamed(answer.body, request, exchange))
    ) {
      complain('bytes', `${answer.body.length} bytes arrived that are not those of the recorded pieces`);
    } else if (request.route === 'responses') checkStored(request, objectOf(answer.body), log, complain);
    return;
  }
  if (translated) checkTranslatedStream(answer, exchange, complain);
  else checkStream(request, answer, exchange, complain);
  if (request.route === 'responses') checkStored(request, streamedResponse(answer.body).final, log, complain);
  const complete = answer.end === 'whole' && end?.type === 'exchange.completed';
  if (answer.end === 'whole' && !complete && end?.type !== 'exchange.failed') {
    complain('completed', `the stream ended in an orderly way, and the log says ${end?.type}`);
  }
}

/** Its bytes are those of another exchange: answers under one key are compared, and those from the cache by check-cached.ts. */
function isCopy({ idempotencyKey }: SentRequest, exchange: RecordedExchange): boolean {
  const isReplayed = idempotencyKey !== undefined && eventOf(exchange, 'answer.replayed') !== undefined;
  return isReplayed || eventOf(exchange, 'cache.hit') !== undefined;
}

/** A response from the cache is stored once more, for its own caller. */
function checkCopy(
  request: SentRequest,
  answer: Answer,
  exchange: RecordedExchange,
  log: RecordedLog,
  complain: Complain,
): void {
  if (answer.end !== 'whole') return;
  if (!request.stream || isWholeAnswer(request, answer)) expectCompleted(exchange, complain);
  if (request.route !== 'responses' || eventOf(exchange, 'cache.hit') === undefined) return;
  const seen = request.stream ? streamedResponse(answer.body).final : objectOf(answer.body);
  if (seen === undefined) complain('bytes', 'a response from the cache has no end');
  checkStored(request, seen, log, complain);
}

/** The whole answer is in its own `response` stream, or, when it is not kept, with the end of the exchange. */
function checkTranslated(
  request: SentRequest,
  answer: Answer,
  exchange: RecordedExchange,
  log: RecordedLog,
  complain: Complain,
): void {
  if (request.store === false) {
    const body = Buffer.from(eventOf(exchange, 'exchange.completed')?.body ?? []);
    if (!body.equals(answer.body)) complain('bytes', 'exchange.completed does not hold the answer that arrived');
    return;
  }
  const id = objectOf(answer.body)?.id;
  const stored = typeof id === 'string' ? log.responses.get(id)?.events[0] : undefined;
  const head = Buffer.concat([Buffer.from('{"response":'), answer.body, Buffer.from(',')]);
  if (
    !Buffer.from(stored?.body ?? [])
      .subarray(0, head.length)
      .equals(head)
  ) {
    complain('bytes', `response.stored of ${id} does not hold the answer that arrived`);
  }
}

/**
 * Without the members of a response that the gateway adds to those of the provider: `provider`, in whole answers and in
 * events that it writes again; and the name of the response before, where the gateway sent its turns in place of it. That
 * is so for providers with responses of their own when that response came from the cache.
 */
function unnamed(bytes: Buffer, { route }: SentRequest, exchange: RecordedExchange): Buffer {
  if (route !== 'responses') return bytes;
  const text = bytes.toString().replaceAll(/,"provider":"[^"]*"/g, '');
  return Buffer.from(
    eventOf(exchange, 'history.replayed') === undefined
      ? text
      : text.replaceAll(/"previous_response_id":\s*(?:null|"[^"]*")/g, '"previous_response_id":0'),
  );
}

/** Every byte is a recorded one, in order; at the very end the gateway may have added frames of its own. */
function checkStream(request: SentRequest, answer: Answer, exchange: RecordedExchange, complain: Complain): void {
  const body = unnamed(answer.body, request, exchange);
  const pieces = piecesOf(exchange).map((piece) => unnamed(piece, request, exchange));
  const passedOn =
    request.route === 'chat' && request.wantsUsage !== true ? pieces.filter((piece) => !isUsageOnly(piece)) : pieces;
  const recorded = Buffer.concat(passedOn);
  const shared = Math.min(recorded.length, body.length);
  if (!recorded.subarray(0, shared).equals(body.subarray(0, shared))) {
    const { frames } = framesOf(body);
    const at = frames.findIndex((frame, index) => !frame.equals(passedOn[index] ?? Buffer.alloc(0)));
    const end = endsOf(exchange)[0]?.type;
    complain('bytes', `frame ${at} of the ${frames.length} that arrived is not the recorded one (${end})`);
    return;
  }
  checkGatewayFrames(body.subarray(shared), recorded.length === 0, exchange, complain);
  if (isWholeStream(request, body)) expectCompleted(exchange, complain);
}

function checkGatewayFrames(added: Buffer, nothingRecorded: boolean, exchange: RecordedExchange, complain: Complain) {
  if (added.length === 0) return;
  const end = endsOf(exchange)[0]?.type;
  if (nothingRecorded) return complain('bytes', `${added.length} bytes arrived, and no piece is recorded`);
  if (end === 'exchange.completed' && DONE.startsWith(added.toString())) return;
  const frames = framesOf(added).frames.map(String);
  if (end === 'exchange.failed' && frames.every((frame) => GATEWAY_FRAME.test(frame))) return;
  complain('bytes', `${added.length} bytes arrived beyond what is recorded, and the log says ${end}`);
}

function isUsageOnly(frame: Buffer): boolean {
  const data = dataOf(frame);
  return isObject(data?.usage) && Array.isArray(data.choices) && data.choices.length === 0;
}

/** The client got the frame that ends a whole answer. */
function isWholeStream(request: SentRequest, body: Buffer): boolean {
  if (request.route === 'responses') return streamedResponse(body).final?.status === 'completed';
  return body.subarray(-DONE.length).equals(Buffer.from(DONE)) && !body.includes('data: {"error":');
}

function expectCompleted(exchange: RecordedExchange, complain: Complain): void {
  const end = endsOf(exchange)[0]?.type;
  if (end !== 'exchange.completed') complain('completed', `the terminal event arrived, and the log says ${end}`);
}

function checkTranslatedStream({ body }: Answer, exchange: RecordedExchange, complain: Complain): void {
  const { text, sequence, final } = streamedResponse(body);
  const said = piecesOf(exchange).map(deltaText).join('');
  if (!said.startsWith(text)) complain('bytes', 'the text that arrived is not what the recorded pieces say');
  if (sequence.some((number, index) => number !== index)) complain('sequence', `the events are numbered ${sequence}`);
  if (final?.status !== 'completed') return;
  expectCompleted(exchange, complain);
  if (text !== said) complain('bytes', 'the answer was called complete, and its text is not all of what is recorded');
}

/** A response that its client got whole was stored as such, before anything was done with it. */
function checkStored(
  request: SentRequest,
  seen: Record<string, unknown> | undefined,
  log: RecordedLog,
  complain: Complain,
) {
  if (seen === undefined || request.store === false) return;
  const stored = typeof seen.id === 'string' ? log.responses.get(seen.id)?.events[0] : undefined;
  const response = stored?.body === undefined ? undefined : objectOf(Buffer.from(stored.body))?.response;
  if (!isDeepStrictEqual(response, seen)) {
    complain('bytes', `response.stored of ${seen.id} (${textIn(stored, 'status')}) is not what its client got`);
  }
}

function deltaText(frame: Buffer): string {
  const choices = dataOf(frame)?.choices;
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
  const delta = isObject(choice) && isObject(choice.delta) ? choice.delta.content : undefined;
  return typeof delta === 'string' ? delta : '';
}
