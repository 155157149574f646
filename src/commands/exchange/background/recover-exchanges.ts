/**
 * Ends the exchanges that a crash left open, so that none stays open in the log for ever. The recorded answer of the
 * provider passes through the same response stream again. If it is whole, the exchange is complete; if not, the exchange
 * failed, and its response is stored as `failed` with the output so far. A background response without any recorded
 * output is not ended here: it is returned to the caller, which resumes it, unless its client got an error instead of it.
 */
import { chunkReceived, costReserved, requestBodyReceived, usageRecorded } from '../../../events/catalogue/exchange.ts';
import { frameDelivered } from '../../../events/catalogue/guardrail.ts';
import { positionBefore, type RecordedEvent, type StreamName } from '../../../events/event.ts';
import { type EventLog, EventTooLarge } from '../../../events/log.ts';
import { createSplitter, recordedFormat, type StreamFormat } from '../../../providers/stream-frames.ts';
import { providerType } from '../../../providers/types.ts';
import { type KeyDirectory, recordedCaller, whyNotAccepted } from '../../access/key-directory.ts';
import { parseChunk } from '../../model-request/answer-body.ts';
import type { ParsedRequest } from '../../model-request/model-request.ts';
import { answerNotRecordable } from '../../model-request/upstream-refusals.ts';
import {
  boundOfOutput,
  type EstimatedTokens,
  isReported,
  promptTokens,
  type TokenUsage,
  unknownUsage,
} from '../../model-request/usage.ts';
import { type Pricing, RESERVATION } from '../../pricing/pricing.ts';
import { parsedMessage, SessionMeter } from '../../realtime/messages.ts';
import { Refusal, refusals } from '../../refusal.ts';
import type { ResponseArchive, StoredResponse } from '../../responses/archive.ts';
import { previousResponseOf, responseIdOf } from '../../responses/create-request.ts';
import { interruptedCall } from '../../responses/gateway-tools.ts';
import { isPending, type StorableResponse, withOutcome } from '../../responses/storable-response.ts';
import { everything, ownerOf } from '../../visibility.ts';
import { nullClient } from '../delivery/detached-client.ts';
import { deferredWorkKind, passthroughStream } from '../dialects/passthrough/passthrough-dialect.ts';
import { runsInGateway } from '../dialects/responses/responses-dialect.ts';
import { ExchangeRecord } from '../exchange-record.ts';
import { deliveredAnswer, type GuardedEndpoints } from '../guarding/guarded-endpoints.ts';
import type { Received } from '../plan.ts';
import * as events from '../record/end-events.ts';
import { noteConversationTurn } from '../record/end-events.ts';
import {
  clientHeadersOf,
  type Dialects,
  isGuarded,
  outputMade,
  parsedRequestOf,
  placeholdersIn,
  type RecordedExchange,
  readExchange,
  streamOfRecorded,
} from '../record/read-exchange.ts';
import type { ReplayDependencies } from '../record/replay-answer.ts';
import { countWhole, missingOfCalls, OutputCount, partOf, priced, withinLimit } from '../record/spending.ts';
import { changedSelector } from '../request-plugin.ts';
import type { AnswerStream } from '../response-stream.ts';
import type { ResumableExchange } from './background-response.ts';
import { type EndedAs, endedAs, type LeftClient, type LeftOpen, wasCancelled } from './open-exchange-tracker.ts';

/** A crash may leave thousands open, and each takes its own synced append. */
const MAX_CONCURRENT = 32;

export interface RecoveryDependencies extends ReplayDependencies {
  readonly guardedEndpoints: GuardedEndpoints;
  readonly pricing: Pricing;
  readonly keys: Pick<KeyDirectory, 'byId'>;
}

/**
 * @returns the exchanges to resume
 * @throws LogUnavailable
 */
export async function recoverExchanges(
  streams: Iterable<StreamName>,
  deps: RecoveryDependencies,
  why: LeftOpen,
  client: LeftClient = { wasRefused: false },
): Promise<RecordedExchange[]> {
  const resumable: RecordedExchange[] = [];
  const waiting = streams[Symbol.iterator]();
  const closeNext = async (): Promise<void> => {
    for (let next = waiting.next(); next.done !== true; next = waiting.next()) {
      const open = await closeExchange(next.value, deps, why, client);
      if (open !== undefined) resumable.push(open);
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, closeNext));
  return resumable.sort((a, b) => a.received.at - b.received.at);
}

async function closeExchange(
  stream: StreamName,
  deps: RecoveryDependencies,
  why: LeftOpen,
  client: LeftClient,
): Promise<RecordedExchange | undefined> {
  const recorded = await readExchange(stream, deps.log);
  if (recorded === undefined || recorded.end !== undefined) return undefined;
  const parsedRequest = parsedRequestOf(recorded, deps.dialects);
  const pending = await backgroundResponse(recorded, deps.archive);
  // Without the calls of its tools it would make them again.
  const isKnown = recorded.chunks.length === 0 && outputMade(recorded) !== undefined;
  const canResume = pending !== undefined && parsedRequest !== undefined && isKnown;
  // Its gateway may have ended before it read that.
  const isCancelled = pending !== undefined && (await wasCancelled(pending.id, deps.log));
  if (canResume && !client.wasRefused && !isCancelled) return recorded;
  await close(recorded, parsedRequest, pending, deps, isCancelled ? 'cancelled' : why, client);
  return undefined;
}

/** How to resume an exchange that was left open; undefined when the record does not hold its request. */
export function resumableExchange(
  recorded: RecordedExchange,
  dialects: Dialects,
  log: EventLog,
  keys: Pick<KeyDirectory, 'byId'>,
): ResumableExchange | undefined {
  const { request, received, attempt } = recorded;
  const dialect = dialects.get(request.dialect);
  const parsedRequest = parsedRequestOf(recorded, dialects);
  if (dialect === undefined || parsedRequest === undefined || received.body === undefined) return undefined;
  const { requestId = '', traceparent } = received.context;
  const { method, path, clientIp, authMethod, labels, sessionId } = request;
  const { keyId, key, ...callerFacts } = recordedCaller(ownerOf(received), keys);
  const caller = { ...callerFacts, authMethod, key };
  const isGone = keyId !== undefined && (key === undefined || whyNotAccepted(key, Date.now()) !== undefined);
  const body = bufferOf(received.body);
  const { plugins } = recorded;
  return {
    dialect,
    request: {
      caller,
      requestId,
      traceparent,
      method,
      path,
      headers: clientHeadersOf(recorded),
      clientIp,
      labels,
      sessionId,
      body,
    },
    client: nullClient,
    record: recordAgain(recorded, log),
    resumed: {
      parsedRequest: plugins.reduce(changedSelector, parsedRequest),
      attempts: attempt?.attempt ?? 0,
      workflow: request.workflow?.id,
      made: outputMade(recorded),
      ...(isGone ? { refused: refusals.keyNotActive(keyId) } : {}),
    },
    recordedAfter: positionBefore(received.position),
  };
}

/** The response that the exchange generates in the background; undefined when there is none or it has ended. */
async function backgroundResponse(
  recorded: RecordedExchange,
  archive: ResponseArchive,
): Promise<StoredResponse | undefined> {
  if (recorded.request.dialect !== 'responses') return undefined;
  const stored = await archive.find(responseIdOf(recorded.id), everything);
  return stored !== undefined && isPending(stored) ? stored : undefined;
}

async function close(
  recorded: RecordedExchange,
  parsedRequest: ParsedRequest | undefined,
  pending: StoredResponse | undefined,
  deps: RecoveryDependencies,
  why: EndedAs,
  { wasRefused }: LeftClient,
): Promise<void> {
  const refusal = endedAs[why];
  const status = why === 'cancelled' ? why : 'failed';
  const { attempt, chunks, request } = recorded;
  const record = recordAgain(recorded, deps.log);
  const stream = parsedRequest === undefined ? undefined : streamOfRecorded(recorded, parsedRequest, deps.dialects);
  const isWhole =
    stream !== undefined &&
    replay(
      stream,
      chunks,
      parsedRequest?.stream === true ? recordedFormat(attempt?.dialect, attempt?.calls) : undefined,
      refusal,
    );
  // The provider's answer may be whole and not evaluated: the client gets nothing more of it.
  const guarded =
    isGuarded(recorded) && !wasRefused ? guardedEnd(recorded, parsedRequest, record, deps, refusal) : undefined;
  const ended = isWhole && !isGuarded(recorded) && !wasRefused;
  const ofProvider = chunks.length > 0 && !wasRefused ? stream?.writer.response?.() : undefined;
  const response = guarded === undefined ? (ofProvider ?? withToolCalls(recorded, pending)) : guarded.response;
  const failed =
    pending === undefined || ended ? undefined : withOutcome(pending.response, pending.id, status, refusal, response);
  const responseId = keepResponse(recorded, parsedRequest, failed ?? response, pending, record, deps.dialects);

  const counted: Received = { chunks: chunks.length, bytes: sizeOf(chunks), firstByteMs: undefined };
  if (ended && attempt !== undefined) {
    const translated = attempt.dialect !== request.dialect && responseId === undefined;
    const json = translated ? stream.writer.response?.()?.json : undefined;
    const { visibility } = recordedCaller(ownerOf(recorded.received), deps.keys);
    if (parsedRequest !== undefined)
      await noteConversationTurn(deps.dialects.get(request.dialect), parsedRequest, stream.writer, record, {
        visibility,
      });
    events.noteCompleted(record, counted, {
      status: 200,
      attempt: attempt.attempt,
      provider: attempt.provider,
      model: attempt.model,
      finishReason: stream.writer.finishReason ?? null,
      responseId,
      answer: json === undefined ? undefined : Buffer.from(json),
    });
  } else {
    const sent = isGuarded(recorded) ? recorded.delivered : chunks;
    const sentStatus = wasRefused ? refusal.status : sent.length > 0 ? 200 : 0;
    events.noteFailed(record, refusal, { status: sentStatus, reason: why, chunks: chunks.length, responseId });
  }
  const recordsUsage = request.workflow?.off?.includes('usage') !== true;
  // Where bodies are not kept, nothing tells what the answer cost: the reservation is charged.
  const isUnread = recorded.isReserved && why !== 'cancelled' && chunks.every(({ body }) => body === undefined);
  let isCharged = request.dialect === 'realtime';
  if (isCharged) {
    if (recordsUsage && why !== 'cancelled') await noteUnfinished(recorded, record, deps);
  } else if (attempt !== undefined && chunks.length > 0 && recordsUsage && !isUnread && attempt.runsTools !== true) {
    const { provider, providerType: type } = attempt;
    const dialect = deps.dialects.get(request.dialect);
    const reader =
      dialect === undefined
        ? passthroughStreamOf(chunks, deferredWorkKind(request.method, request.path)).reader
        : stream?.reader;
    // Without recorded bodies the usage is unknown; only the fact that something was spent is certain.
    const usage = reader?.usage() ?? unknownUsage;
    const model = attempt.model || (reader?.model ?? '');
    const endpoint = dialect?.endpoint ?? pathOf(request.path);
    const isModelCall = dialect !== undefined || reader?.model !== undefined;
    if (isModelCall && !request.stream) countWhole(counted, usage, parseChunk(bytesOf(chunks).toString()));
    const isStream = request.stream || dialect === undefined;
    const isEstimated =
      counted.outputTokens !== undefined || (isStream && !(isWhole && isReported(usage) && usage.byCall === undefined));
    const json = parsedRequest?.json ?? {};
    const limit = attempt.outputLimit ?? boundOfOutput(json, endpoint, attempt.providerType);
    const unbounded =
      isModelCall && isEstimated ? estimateOf(recorded, parsedRequest, usage, counted, isWhole) : undefined;
    const estimate = unbounded && withinLimit(unbounded, limit, { json });
    const answerId = reader?.answerId;
    const { calls } = attempt;
    const spent = { provider, providerType: type, model, endpoint, answerId, usage, calls, isPartial: !isWhole };
    const work = reader?.deferredWork?.();
    if (work !== undefined) {
      const facts = { provider, providerType: type, model, endpoint, reserved: undefined };
      const parts = parsedRequest === undefined ? undefined : [partOf(model, parsedRequest.json)];
      events.noteDeferred(record, { parts, ...work }, facts, request);
      isCharged = true;
    }
    // A forwarded request need not cost anything, such as a list or a file.
    else if (dialect !== undefined || usage.source === 'provider' || estimate !== undefined) {
      const { charged, cost } = priced(spent, estimate, deps.pricing);
      events.noteUsage(record, charged, cost, request);
      isCharged = true;
    }
  }
  if (!isCharged && recordsUsage && why !== 'cancelled') noteReservation(recorded, record, deps.dialects);
  try {
    await record.flush('durable');
  } catch (error) {
    if (!(error instanceof EventTooLarge)) throw error;
    // The log does not accept what would be stored: the answer ends as in a running gateway.
    const { maxEventBytes } = deps.log.capabilities;
    const usage = record.withdraw(maxEventBytes / 2);
    const tooLarge = answerNotRecordable(attempt?.provider ?? request.dialect, maxEventBytes);
    const outcome = pending && withOutcome(pending.response, pending.id, 'failed', tooLarge, undefined);
    const failedId = keepResponse(recorded, parsedRequest, outcome, pending, record, deps.dialects);
    const sentStatus = wasRefused ? refusal.status : chunks.length > 0 ? 200 : 0;
    const facts = { status: sentStatus, reason: why, chunks: chunks.length, responseId: failedId };
    events.noteFailed(record, tooLarge, facts);
    for (const event of usage) record.note(event);
    await record.flush('durable');
  }
}

/**
 * The responses of a realtime session that had ended are charged. Those that had not are estimated from the record; where it
 * has no bodies, the reservation is charged. Where the log has reserved an amount for a further one, it is released.
 */
async function noteUnfinished(
  { attempt, request, isReserved }: RecordedExchange,
  record: ExchangeRecord,
  { log, pricing }: Pick<RecoveryDependencies, 'log' | 'pricing'>,
): Promise<void> {
  if (attempt === undefined) return;
  const meter = new SessionMeter();
  let reserved = Number(attempt.reservedCost ?? 0);
  let isUnread = false;
  for await (const { type, data, body } of log.readStream(record.stream)) {
    const message = body === undefined ? undefined : parsedMessage(bufferOf(body));
    if (type === usageRecorded.type) {
      const { totalCost } = usageRecorded.data.parse(data);
      reserved = Math.max(reserved, Number(totalCost ?? 0));
      isUnread = false;
    } else if (type === costReserved.type) reserved = Number(costReserved.data.parse(data).amount);
    else if (type === requestBodyReceived.type && message !== undefined) meter.readSent(message);
    else if (type === chunkReceived.type) {
      isUnread ||= body === undefined;
      if (message !== undefined) meter.read(message);
    }
  }
  const { provider, providerType: type, model = '' } = attempt;
  const endpoint = pathOf(request.path);
  const spent = { provider, providerType: type, model, endpoint, usage: unknownUsage, isPartial: true };
  const unfinished = meter.unfinished();
  if (isUnread && reserved > 0) {
    events.noteUsage(record, spent, costOfReservation(String(reserved)), request);
    return;
  }
  for (const { answerId, tokens } of unfinished) {
    const { charged, cost } = priced({ ...spent, answerId }, tokens, pricing);
    events.noteUsage(record, charged, cost, request);
  }
  // Of one gateway the reservation was in memory.
  if (unfinished.length > 0 || !isReserved || attempt.reservedCost !== undefined) return;
  const { charged, cost } = priced(spent, { inputTokens: 0, outputTokens: 0 }, pricing);
  events.noteUsage(record, charged, cost, request, attempt.attempt);
}

/** The response with the output that calls of tools have recorded; undefined when there is none. */
function withToolCalls(recorded: RecordedExchange, pending: StoredResponse | undefined): StorableResponse | undefined {
  const { items } = outputMade(recorded) ?? { items: [] };
  if (items.length === 0 || pending === undefined) return undefined;
  const output = items.map((item) => (item.status === 'calling' ? interruptedCall(item) : item));
  return { id: pending.id, status: 'failed', json: JSON.stringify({ ...pending.response, output }), output };
}

/** The provider may have served a call whose answer is not known: it costs what the budgets had reserved for it. */
function noteReservation(
  { attempt, isUnderWay, request }: RecordedExchange,
  record: ExchangeRecord,
  dialects: Dialects,
) {
  if (attempt?.reservedCost === undefined || attempt.reservedCost === '0' || !isUnderWay) return;
  const { provider, providerType, model = '', reservedCost: totalCost } = attempt;
  const endpoint = dialects.get(request.dialect)?.endpoint ?? pathOf(request.path);
  const spent = { provider, providerType, model, endpoint, usage: unknownUsage, isPartial: true };
  events.noteUsage(record, spent, costOfReservation(totalCost), request);
}

function costOfReservation(totalCost: string) {
  const caveat = 'the gateway stopped during the call: the cost is what the budgets had reserved for it';
  return { inputCost: null, outputCost: null, totalCost, priceSource: RESERVATION, caveat };
}

/** Records the end of a stream that guardrails evaluated. @returns the response to store, if there is one */
function guardedEnd(
  recorded: RecordedExchange,
  parsedRequest: ParsedRequest | undefined,
  record: ExchangeRecord,
  { dialects, guardedEndpoints }: RecoveryDependencies,
  refusal: Refusal,
): { readonly response: StorableResponse | undefined } {
  const { attempt, delivered, request } = recorded;
  const dialect = dialects.get(request.dialect);
  const answers = guardedEndpoints.get(dialect?.endpoint ?? '')?.answers;
  const frames = delivered.flatMap(({ body }) => body ?? []);
  if (attempt === undefined || parsedRequest === undefined || answers === undefined || frames.length === 0) {
    return { response: undefined };
  }
  const { provider, providerType: type, model = '', dialect: spoken } = attempt;
  const past = {
    ...{
      parsedRequest,
      clientHeaders: clientHeadersOf(recorded),
      exchangeId: recorded.id,
      createdAt: record.createdAt,
      historyReplayed: true,
    },
    ...{ provider: { name: provider }, providerType: type, model, dialect: spoken, now: () => record.createdAt },
  };
  const { rest, response } = deliveredAnswer(frames, answers, past, { refusal, status: 'failed' });
  if (rest !== undefined) {
    const data = { attempt: attempt.attempt, index: frames.length };
    record.note(frameDelivered.create(data, record.context, rest));
  }
  return { response };
}

/** Estimates the missing tokens of an answer whose provider did not report them. */
function estimateOf(
  { received, attempt, chunks }: RecordedExchange,
  parsedRequest: ParsedRequest | undefined,
  usage: TokenUsage,
  size: Received,
  isWhole: boolean,
): EstimatedTokens | undefined {
  const output = new OutputCount(attempt?.dialect ?? '', attempt?.calls);
  if (size.outputTokens === undefined) for (const { body } of chunks) output.add(body);
  const outputTokens = size.outputTokens ?? output.tokens(size);
  // On a provider's own API, an answer without events of a stream arrived in one piece.
  if (parsedRequest === undefined && outputTokens.every((tokens) => tokens === 0)) return undefined;
  const request = parsedRequest?.json ?? parseChunk(bufferOf(received.body ?? new Uint8Array()).toString());
  const hasEnded = isWhole || size.outputTokens !== undefined;
  return missingOfCalls(usage, promptTokens(request), outputTokens, hasEnded);
}

/** The stream of a forwarded answer, fed from the record. The answer is not generated again; only its usage is read. */
function passthroughStreamOf(
  chunks: readonly RecordedEvent[],
  begins: ReturnType<typeof deferredWorkKind>,
): AnswerStream {
  const stream = passthroughStream(begins);
  const bytes = bytesOf(chunks);
  const parsed = parseChunk(bytes.toString());
  if (parsed !== undefined) stream.whole(bytes, parsed);
  else for (const frame of createSplitter(bytes[0] === 0x7b ? 'lines' : 'events').push(bytes)) stream.frame(frame);
  return stream;
}

function pathOf(path: string): string {
  return path.split('?', 1)[0] ?? path;
}

/** The record of an exchange, ready for further events. */
function recordAgain({ id, received, last }: RecordedExchange, log: EventLog): ExchangeRecord {
  const context = { ...received.context, actor: 'system' as const };
  const elapsedMs = Math.max(0, last.at - received.at);
  const { actor: createdBy } = received.context;
  const begun = { lastRevision: last.revision, receivedAt: received.at, elapsedMs, createdBy };
  return new ExchangeRecord(log, id, context, begun);
}

/**
 * @param refusal why the exchange ends when the provider's answer is not whole
 * @returns whether the provider's answer is whole
 */
function replay(
  stream: AnswerStream,
  chunks: readonly RecordedEvent[],
  format: StreamFormat | undefined,
  refusal: Refusal,
): boolean {
  try {
    if (format === undefined) {
      const [only] = chunks;
      if (only?.body === undefined) return false;
      const bytes = bufferOf(only.body);
      stream.whole(bytes, parseChunk(bytes.toString()));
      return true;
    }
    let ended = false;
    const splitter = createSplitter(format);
    const frames = chunks.flatMap(({ body }) => (body === undefined ? [] : splitter.push(bufferOf(body))));
    const last = splitter.end();
    for (const frame of last === undefined ? frames : [...frames, last]) {
      const answer = stream.frame(frame);
      if (answer.refusal !== undefined) throw answer.refusal;
      ended ||= answer.terminal;
    }
    if (ended) return !stream.finish().cut;
    stream.abandon({ refusal, status: 'failed' });
    return false;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    stream.broken(error);
    return false;
  }
}

/** @returns the id under which the response is stored; undefined when it is not */
function keepResponse(
  recorded: RecordedExchange,
  parsedRequest: ParsedRequest | undefined,
  response: StorableResponse | undefined,
  pending: StoredResponse | undefined,
  record: ExchangeRecord,
  dialects: Dialects,
): string | undefined {
  const { attempt, request } = recorded;
  if (response === undefined) return undefined;
  if (pending !== undefined) {
    const { provider, providerType: type, model, native, previousResponseId, inputItems, placeholders } = pending;
    const facts = { provider, providerType: type, model, native, previousResponseId, placeholders };
    events.noteResponse(record, response, { ...facts, inputItems: JSON.stringify(inputItems) });
    return response.id;
  }
  const dialect = dialects.get(request.dialect);
  if (attempt === undefined || parsedRequest === undefined || dialect?.keeps?.(parsedRequest) !== true)
    return undefined;
  const { provider, providerType: type, model = '' } = attempt;
  // The response was cancelled or deleted before its exchange could be closed; that state is kept.
  if (runsInGateway(parsedRequest, type)) return undefined;
  events.noteResponse(record, response, {
    provider,
    providerType: type,
    model,
    native:
      attempt.dialect === 'responses' && attempt.runsTools !== true && providerType(type)?.responseLifecycle === 'yes',
    previousResponseId: previousResponseOf(parsedRequest),
    inputItems: dialect.inputItems?.(parsedRequest, response.id) ?? '[]',
    placeholders: placeholdersIn(recorded),
  });
  return response.id;
}

function bytesOf(chunks: readonly RecordedEvent[]): Buffer {
  return Buffer.concat(chunks.map(({ body }) => bufferOf(body ?? new Uint8Array())));
}

function sizeOf(chunks: readonly RecordedEvent[]): number {
  return chunks.reduce((bytes, { body }) => bytes + (body?.length ?? 0), 0);
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
