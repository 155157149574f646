/**
 * `Idempotency-Key`: one key, one answer. The first request with a key claims it in the log, in the same append that
 * records the request. For 24 hours, requests with the same key and body get that answer, also while it is still
 * being generated. A request that was refused or failed releases the key.
 */
import { createHash } from 'node:crypto';
import type { z } from 'zod';
import { exchangeCompleted } from '../../../events/catalogue/exchange.ts';
import { idempotencyKeyClaimed } from '../../../events/catalogue/response.ts';
import { type NewEvent, type StreamName, streamName } from '../../../events/event.ts';
import { wallClock } from '../../../events/event-id.ts';
import { type EventLog, type LogStatus, LogUnavailable, newestEvent } from '../../../events/log.ts';
import type { Client, ModelRequest } from '../../model-request/model-request.ts';
import { streamIncomplete } from '../../model-request/upstream-refusals.ts';
import { refusals } from '../../refusal.ts';
import type { ResponseArchive } from '../../responses/archive.ts';
import { responseIdOf } from '../../responses/create-request.ts';
import { everything } from '../../visibility.ts';
import type { RecordedAnswer, ReplayedPart } from '../answer-source.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import { type RecordedExchange, readExchange, recordedFailure } from './read-exchange.ts';
import { type AnswerPart, type ReplayDependencies, replayAnswer } from './replay-answer.ts';

const CLAIM_LIFETIME_MS = 24 * 60 * 60 * 1000;
const KEY = /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/;

/** The claim of a key that no running or answered request holds. It is appended with the request. */
export interface KeyClaim {
  readonly stream: StreamName;
  readonly event: NewEvent;
  /** Expected revision of the key's stream. A different revision means that another request has claimed the key. */
  readonly expectedRevision: 'noStream' | bigint;
}

interface KeyedRequest {
  readonly dialect: Pick<ExchangeDialect, 'endpoint'>;
  readonly request: ModelRequest;
  readonly record: ExchangeRecord;
  /** The end of its connection ends the wait for the answer of an exchange that is still running. */
  readonly client: Pick<Client, 'ended'>;
}

/**
 * @returns the answer under the request's key, once it has begun; the claim to make when there is none
 * @throws Refusal when the key is malformed, was used for another request, or its answer was not kept or was deleted;
 *   LogUnavailable while the answer cannot be continued
 */
export async function lookUpKey(keyed: KeyedRequest, deps: ReplayDependencies): Promise<KeyClaim | RecordedAnswer> {
  const { dialect, request, record, client } = keyed;
  const key = request.headers['idempotency-key'] ?? '';
  if (!KEY.test(key)) {
    throw refusals.invalidRequest('An Idempotency-Key has 1 to 255 printable ASCII characters.', 'Idempotency-Key');
  }
  const stream = keyStream(key, dialect.endpoint, request);
  const requestDigest = createHash('sha256').update(request.body).digest('hex');
  const event = idempotencyKeyClaimed.create({ exchangeId: record.id, requestDigest }, record.context);
  for (;;) {
    const newest = await newestEvent(stream, deps.log);
    const expectedRevision = newest === undefined ? 'noStream' : newest.revision;
    if (newest === undefined || newest.at <= wallClock() - CLAIM_LIFETIME_MS)
      return { stream, event, expectedRevision };
    const held = newest.data as z.infer<typeof idempotencyKeyClaimed.data>;
    const earlier = await readExchange(streamName('exchange', held.exchangeId), deps.log);
    if (earlier === undefined || !isRunningOrAnswered(earlier)) return { stream, event, expectedRevision };
    if (held.requestDigest !== requestDigest) throw refusals.idempotencyKeyReused();
    const answer = await beginReplay(earlier, deps, client.ended);
    if (answer !== undefined) return answer;
  }
}

/** The key's stream. Keys are scoped to the caller and the endpoint. */
function keyStream(key: string, endpoint: string, { caller }: ModelRequest): StreamName {
  const scope = JSON.stringify([caller.actor, caller.userPath ?? null, endpoint, key]);
  return streamName('idempotency', createHash('sha256').update(scope).digest('hex'));
}

function isRunningOrAnswered({ end }: RecordedExchange): boolean {
  return end === undefined || end.type === exchangeCompleted.type;
}

/** The answer of a request that its client or the gateway ended before there was an answer. */
export const noAnswer: RecordedAnswer = {
  source: 'record',
  exchangeId: undefined,
  requestedModel: '',
  stream: false,
  attempt: { attempt: 1, provider: '' },
  parts: (async function* () {})(),
};

/** @returns undefined when the earlier exchange ended without an answer */
async function beginReplay(
  earlier: RecordedExchange,
  deps: ReplayDependencies,
  ended: AbortSignal,
): Promise<RecordedAnswer | undefined> {
  await refuseDeleted(earlier, deps.archive);
  const { attempt = 1, provider = '', model } = earlier.attempt ?? {};
  const { stream } = earlier.request;
  const replayed = {
    source: 'record',
    exchangeId: earlier.id,
    requestedModel: earlier.request.model ?? '',
    stream,
    attempt: { attempt, provider, model },
  } as const;
  const pending = stream ? undefined : await pendingResponseOf(earlier, deps.archive);
  if (pending !== undefined) return { ...replayed, parts: only(pending) };
  const parts = whileWritable(deps.log, ended, (signal) => replayAnswer(earlier.id, deps, signal));
  const first = await parts.next();
  if (first.done === true) return { ...replayed, parts: noAnswer.parts };
  if (first.value.kind === 'end') {
    if (first.value.complete) throw refusals.answerNotKept();
    return undefined;
  }
  return { ...replayed, parts: after(first.value, parts) };
}

async function* only(bytes: Buffer): AsyncGenerator<ReplayedPart> {
  yield { kind: 'bytes', bytes };
  yield { kind: 'end', broken: undefined };
}

async function* after(first: AnswerPart, rest: AsyncGenerator<AnswerPart>): AsyncGenerator<ReplayedPart> {
  yield toReplayed(first);
  for await (const part of rest) yield toReplayed(part);
}

function toReplayed(part: AnswerPart): ReplayedPart {
  if (part.kind === 'bytes') return part;
  const { complete, exchange } = part;
  if (complete) return { kind: 'end', broken: undefined };
  const broken = recordedFailure(exchange)?.refusal ?? streamIncomplete(exchange.attempt?.provider ?? '');
  return { kind: 'end', broken };
}

/** Refuses to replay an answer that its client has deleted. @throws Refusal (404) */
async function refuseDeleted({ end }: RecordedExchange, archive: ResponseArchive): Promise<void> {
  if (end?.type !== exchangeCompleted.type) return;
  const { responseId } = end.data as z.infer<typeof exchangeCompleted.data>;
  if (responseId === undefined || (await archive.find(responseId, everything)) !== undefined) return;
  throw refusals.responseNotFound(responseId);
}

/** The current state of a background response, as JSON; undefined when the request did not create one. */
async function pendingResponseOf(earlier: RecordedExchange, archive: ResponseArchive): Promise<Buffer | undefined> {
  if (earlier.request.dialect !== 'responses') return undefined;
  const stored = await archive.find(responseIdOf(earlier.id), everything);
  return stored?.response.background === true ? Buffer.from(JSON.stringify(stored.response)) : undefined;
}

// Following an answer that is still being recorded ends when the log becomes unavailable: nothing can be added to it then.

/**
 * @param partsOf the parts of an answer until the signal is aborted, the last one an `end`
 * @throws LogUnavailable, outcome `none`, as soon as the log is unavailable and the answer has not ended
 */
async function* whileWritable(
  log: Pick<EventLog, 'status' | 'onStatusChange'>,
  ended: AbortSignal,
  partsOf: (signal: AbortSignal) => AsyncGenerator<AnswerPart>,
): AsyncGenerator<AnswerPart> {
  const unavailable = new AbortController();
  const check = ({ state, reason = 'it is unavailable' }: LogStatus) => {
    if (state === 'unavailable') unavailable.abort(new LogUnavailable(reason, 'none'));
  };
  const forget = log.onStatusChange(check);
  try {
    check(log.status());
    for await (const part of partsOf(AbortSignal.any([ended, unavailable.signal]))) {
      yield part;
      if (part.kind === 'end') return;
    }
    if (!ended.aborted) unavailable.signal.throwIfAborted();
  } finally {
    forget();
  }
}
