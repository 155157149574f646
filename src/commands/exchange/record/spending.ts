/** The tokens of an answer, reported or estimated, and its cost: noted on the record, and charged to the caller. */

import { chunkReceived, requestBodyReceived } from '../../../events/catalogue/exchange.ts';
import { type EventLog, whenNewerEvent } from '../../../events/log.ts';
import { isObject } from '../../../json/is-object.ts';
import {
  createSplitter,
  type Frame,
  type FrameSplitter,
  recordedFormat,
  type StreamFormat,
  streamFormatOf,
} from '../../../providers/stream-frames.ts';
import type { RequestReservation } from '../../model-request/admission.ts';
import { parseChunk } from '../../model-request/answer-body.ts';
import type { ModelRequest, ParsedRequest } from '../../model-request/model-request.ts';
import type { Target } from '../../model-request/routing-types.ts';
import {
  boundOfOutput,
  callsFor,
  type DeferredWork,
  type EstimatedTokens,
  expectedOutput,
  isCounted,
  isReported,
  promptTokens,
  requestedAnswers,
  type TokenUsage,
  tokensInBytes,
  type WorkPart,
  withThinking,
} from '../../model-request/usage.ts';
import type { PricedUsage, Pricing, UsageCost } from '../../pricing/pricing.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import { type Answered, type AttemptEnd, isMade, type Plan, type Received } from '../plan.ts';
import type { ExchangePolicy } from '../policy.ts';
import type { AnswerReader } from '../response-stream.ts';
import { noteDeferred, noteUsage } from './end-events.ts';

export interface Spender {
  readonly dialect: ExchangeDialect;
  readonly parsedRequest: ParsedRequest;
  readonly record: ExchangeRecord;
  readonly request: ModelRequest;
  readonly reservation: RequestReservation | undefined;
  /** Where the workflow of the request records no usage, nothing is charged either. */
  readonly policy: Pick<ExchangePolicy, 'recordsUsage'>;
  readonly deps: { readonly pricing: Pricing };
}

interface SpendingFacts {
  readonly isPartial: boolean;
  /** Number of the failed attempt that spent it; undefined when the answer did. */
  readonly failedAttempt?: number;
  /** The estimate to charge when the provider did not report usage. */
  readonly estimate?: EstimatedTokens | undefined;
  /** More may be spent: the reservation stays. */
  readonly goesOn?: boolean;
}

/**
 * @param target the target that was called, which the reservation has entered
 * @returns nano-dollars; undefined where the cost is not known or not recorded
 */
export function noteSpending(
  { dialect, parsedRequest, record, request, reservation, policy, deps }: Spender,
  { provider, model }: Target,
  reader: Pick<AnswerReader, 'usage' | 'model' | 'answerId'>,
  { isPartial, failedAttempt, estimate, goesOn = false }: SpendingFacts,
): number | undefined {
  if (!policy.recordsUsage) return undefined;
  const spent = {
    provider: provider.name,
    providerType: provider.type,
    model: model || (reader.model ?? ''),
    endpoint: endpointOf(dialect, request.path),
    answerId: reader.answerId,
    usage: reader.usage(),
    units: dialect.units?.(parsedRequest),
    calls: callsFor(dialect.endpoint, provider.type, parsedRequest.json),
    isPartial,
  };
  let bounded: EstimatedTokens | undefined;
  if (estimate !== undefined) {
    const limited = dialect.passed?.() ?? { endpoint: dialect.endpoint, parsedRequest };
    const own = boundOfOutput(limited.parsedRequest.json, limited.endpoint, provider.type);
    bounded = withinLimit(estimate, reservation?.outputLimit({ provider, model }) ?? own, limited.parsedRequest);
  }
  const { charged, cost } = priced(spent, bounded, deps.pricing);
  noteUsage(record, charged, cost, request, failedAttempt);
  const isFailed = failedAttempt !== undefined || goesOn;
  reservation?.charge({ usage: charged.usage, estimate: charged.estimate, totalCost: cost.totalCost, isFailed });
  return cost.totalCost === null ? undefined : Number(cost.totalCost);
}

/** No answer is estimated longer than the limit that its provider got. */
export function withinLimit(
  estimate: EstimatedTokens,
  limit: number | undefined,
  { json }: Pick<ParsedRequest, 'json'>,
): EstimatedTokens {
  if (limit === undefined) return estimate;
  return { ...estimate, outputTokens: Math.min(estimate.outputTokens, limit * requestedAnswers(json)) };
}

/** The endpoint under which usage is recorded: on a provider's own API, the path of the request. */
function endpointOf({ name, endpoint }: Pick<ExchangeDialect, 'name' | 'endpoint'>, path: string): string {
  return name === 'passthrough' ? (path.split('?', 1)[0] ?? path) : endpoint;
}

/**
 * The estimate applies unless the cost is known without it: a price per request or per piece needs no tokens, and some
 * providers report the cost.
 */
export function priced(
  given: PricedUsage,
  estimate: EstimatedTokens | undefined,
  pricing: Pricing,
): { readonly charged: PricedUsage; readonly cost: UsageCost } {
  const usage = withThinking(given.usage, given.providerType);
  const spent = usage === given.usage ? given : { ...given, usage };
  const cost = pricing.costOf(spent);
  const isKnown =
    cost.totalCost !== null && (spent.usage.source === 'unknown' || cost.priceSource === 'provider_reported');
  if (estimate === undefined || isKnown) return { charged: spent, cost };
  const charged = { ...spent, estimate };
  return { charged, cost: pricing.costOf(charged) };
}

/**
 * The provider continues its work after the answer: its cost is recorded when it is over, and stays reserved until
 * then.
 */
export function noteDeferral(
  { dialect, parsedRequest, record, request, reservation, policy }: Spender,
  { provider, model }: Target,
  work: DeferredWork,
  reader: Pick<AnswerReader, 'model'>,
): void {
  if (!policy.recordsUsage) return;
  const named = model || (reader.model ?? '');
  const facts = {
    provider: provider.name,
    providerType: provider.type,
    model: named,
    endpoint: endpointOf(dialect, request.path),
    reserved: reservation?.defer(),
  };
  const parts = work.parts ?? (work.kind === 'response' ? [partOf(named, parsedRequest.json)] : undefined);
  noteDeferred(record, { ...work, parts }, facts, request);
}

/** The expected size of a response, charged if its provider never reports the usage. */
export function partOf(model: string, json: Readonly<Record<string, unknown>>): WorkPart {
  return { model, answers: 1, inputTokens: promptTokens(json), outputTokens: expectedOutput(json) };
}

// Estimates the tokens of an answer whose provider did not report them: the client left before the end, the stream
// broke, or the report is missing or cannot be read. The record is read again only for streams of these cases.

interface Estimating {
  readonly dialect: Pick<ExchangeDialect, 'mayBeFree'>;
  readonly parsedRequest: Pick<ParsedRequest, 'json'>;
  readonly request: Pick<ModelRequest, 'method'>;
  readonly record: Pick<ExchangeRecord, 'stream' | 'flush'>;
}

/**
 * A read may not see an append that was made just before. The stream is read up to this often until all chunks are
 * there.
 */
const MAX_READS = 4;

/** Undefined when the usage that the provider reported is charged. */
export function estimateUsage(
  end: AttemptEnd,
  exchange: Estimating,
  log: EventLog,
): Promise<EstimatedTokens | undefined> | EstimatedTokens | undefined {
  const { received, plan } = end;
  if (isMade(plan)) return undefined;
  const { reader } = end.answer;
  const { calls = 1 } = plan;
  const usage = reader.usage();
  const hasEnded = end.kind === 'whole' || end.kind === 'streamed' || (end.kind === 'blocked' && end.isWhole);
  if (hasEnded && isReported(usage) && usage.byCall === undefined) return undefined;
  const isStream =
    end.kind !== 'whole' && !(end.kind === 'streamed' && streamFormatOf(end.reply.headers) === undefined);
  if (!isStream && received.outputTokens === undefined) return undefined;
  if (end.kind === 'abandoned' && end.notCalled === true) return undefined;
  if (reader.deferredWork?.() !== undefined) return undefined;
  // On a provider's own API, a model's answer is recognised by the model that it names.
  const { dialect, request } = exchange;
  if (dialect.mayBeFree && (request.method !== 'POST' || reader.model === undefined)) return undefined;
  if (received.chunks === 0) {
    if (end.kind !== 'abandoned') return undefined;
    const inputTokens = promptTokens(sentTo(plan) ?? exchange.parsedRequest.json);
    return missingOfCalls(
      usage,
      inputTokens,
      Array.from({ length: calls }, () => 0),
      false,
    );
  }
  const isUploaded = plan.body !== undefined && !Buffer.isBuffer(plan.body);
  const missing = ({ outputTokens, upload }: Recorded) => {
    const inputTokens = promptTokens(sentTo(plan) ?? parseChunk(upload) ?? exchange.parsedRequest.json);
    return missingOfCalls(usage, inputTokens, outputTokens, hasEnded);
  };
  return received.outputTokens === undefined || isUploaded
    ? readRecorded(end, exchange, log).then(missing)
    : missing({ outputTokens: received.outputTokens, upload: '' });
}

/**
 * The tokens to charge for all parallel calls: for each, its report or the estimate.
 * @param inputTokens of one call
 * @param outputTokens of each call
 */
export function missingOfCalls(
  usage: TokenUsage,
  inputTokens: number,
  outputTokens: readonly number[],
  hasEnded: boolean,
): EstimatedTokens | undefined {
  if (usage.byCall === undefined) {
    const output = outputTokens.reduce((sum, tokens) => sum + tokens, 0);
    return missingTokens(usage, outputTokens.length * inputTokens, output, hasEnded);
  }
  const sum = { inputTokens: 0, outputTokens: 0 };
  for (const [call, { usage: own, isFinal }] of usage.byCall.entries()) {
    const missing = missingTokens(own, inputTokens, outputTokens[call] ?? 0, hasEnded || isFinal);
    sum.inputTokens += missing?.inputTokens ?? own.inputTokens ?? 0;
    sum.outputTokens += missing?.outputTokens ?? own.outputTokens ?? 0;
  }
  return sum;
}

/**
 * The tokens to charge instead of the reported usage; undefined when the report is charged. A side that the provider
 * did not count is charged by the estimate, the other one as it was reported. A provider that reports during the stream
 * has reported only the beginning of a stream that ended early: its report is charged unless the estimated output is
 * more than twice as large.
 */
export function missingTokens(
  usage: TokenUsage,
  inputTokens: number,
  outputTokens: number,
  hasEnded = false,
): EstimatedTokens | undefined {
  const isMore = outputTokens > 2 * (usage.outputTokens ?? 0);
  const output = usage.outputTokens === null || (!hasEnded && isMore) ? outputTokens : usage.outputTokens;
  const isCharged = isCounted(usage) && output === (usage.outputTokens ?? 0);
  return isCharged ? undefined : { inputTokens: usage.inputTokens ?? inputTokens, outputTokens: output };
}

/** The body that the provider got, with earlier turns; undefined for one that was sent piece by piece. */
function sentTo({ body }: Plan): unknown {
  return Buffer.isBuffer(body) ? parseChunk(body.toString()) : undefined;
}

interface Recorded {
  readonly outputTokens: readonly number[];
  /** The recorded part of a request body that was sent piece by piece. */
  readonly upload: string;
}

async function readRecorded(end: AttemptEnd, { record }: Estimating, log: EventLog): Promise<Recorded> {
  const { attempt, plan, received } = end;
  await record.flush('written');
  for (let reads = 1; ; reads++) {
    const output = new OutputCount(plan.dialect, plan.calls);
    const upload: Uint8Array[] = [];
    let chunks = 0;
    let newest: bigint | undefined;
    for await (const event of log.readStream(record.stream)) {
      newest = event.revision;
      if (event.type === requestBodyReceived.type && event.body !== undefined) upload.push(event.body);
      if (event.type !== chunkReceived.type) continue;
      if (chunkReceived.data.parse(event.data).attempt !== attempt) continue;
      chunks += 1;
      output.add(event.body);
    }
    if (chunks >= received.chunks || reads === MAX_READS) {
      const outputTokens = received.outputTokens ?? output.tokens(received);
      return { outputTokens, upload: Buffer.concat(upload).toString() };
    }
    await whenNewerEvent(record.stream, newest, log);
  }
}

// Counts the output tokens of answers whose providers did not: of a recorded stream, and of an answer in one piece.

/** A stream that begins with it has JSON lines. */
const OPEN_BRACE = 0x7b;
/** Approximate bytes of one stream event without its text; used where bodies are not kept. */
const ENVELOPE_BYTES = 250;

/** The whole answer, as the client gets it. Its text is counted where its provider has not. @throws as `ResponseStream.whole` */
export function countedAnswer(
  { answer, received }: Pick<Answered, 'answer' | 'received'>,
  bytes: Buffer,
  parsed: unknown,
): Buffer | Promise<Buffer> {
  let whole: Buffer | Promise<Buffer> | undefined;
  try {
    whole = answer.whole(bytes, parsed);
  } finally {
    if (!(whole instanceof Promise)) countWhole(received, answer.reader.usage(), parsed);
  }
  if (!(whole instanceof Promise)) return whole;
  return whole.finally(() => countWhole(received, answer.reader.usage(), parsed));
}

/**
 * Counts the text of an answer in one piece, unless its provider has counted its tokens. Nothing is counted in an answer
 * that no model generated.
 */
export function countWhole(received: Received, usage: TokenUsage, parsed: unknown): void {
  if (isReported(usage) && usage.byCall === undefined) return;
  const answers: unknown[] = isObject(parsed) && Array.isArray(parsed.calls) ? parsed.calls : [parsed];
  const texts = answers.map(bytesInAnswer);
  if (texts.some((bytes) => bytes !== undefined)) {
    received.outputTokens = texts.map((bytes) => tokensInBytes(bytes ?? 0));
  }
}

/** Counts made while the stream arrived. */
interface StreamSize {
  readonly chunks: number;
  readonly bytes: number;
}

export class OutputCount {
  readonly #format: StreamFormat;
  #splitter: FrameSplitter | undefined;
  #bodies = 0;
  /** Of each call: bytes of text, and the number of events that hold some. */
  readonly #texts: { bytes: number; events: number }[];

  /** @param dialect the dialect spoken to the provider, in so many parallel calls */
  constructor(dialect: string, calls = 1) {
    this.#texts = Array.from({ length: calls }, () => ({ bytes: 0, events: 0 }));
    this.#format = recordedFormat(dialect, calls);
  }

  /** @param body of one recorded chunk; undefined where bodies are not kept */
  add(body: Uint8Array | undefined): void {
    if (body === undefined) return;
    this.#bodies += 1;
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    this.#splitter ??= createSplitter(bytes[0] === OPEN_BRACE ? 'lines' : this.#format);
    for (const frame of this.#splitter.push(bytes)) this.#take(frame);
  }

  /**
   * Of each call, at least one token for each event with text. Without bodies: estimated from the number and size of the
   * events.
   */
  tokens({ chunks, bytes }: StreamSize): number[] {
    if (this.#bodies === 0) {
      const all = Math.max(chunks, tokensInBytes(Math.max(0, bytes - chunks * ENVELOPE_BYTES)));
      return this.#texts.map(() => Math.ceil(all / this.#texts.length));
    }
    const last = this.#splitter?.end();
    if (last !== undefined) this.#take(last);
    return this.#texts.map((text) => Math.max(text.events, tokensInBytes(text.bytes)));
  }

  #take({ data, call = '' }: Frame): void {
    const text = this.#texts[this.#texts.length === 1 ? 0 : Number.parseInt(call, 10)];
    const event = data === undefined ? undefined : parseChunk(data);
    if (event === undefined || text === undefined) return;
    const bytes = bytesSaid(event);
    text.bytes += bytes;
    if (bytes > 0) text.events += 1;
  }
}

// Counts the bytes of model text in an event of a stream or in a whole answer, for every dialect. Pure.

/** Members with text that a model generated. */
const TEXT: ReadonlySet<string> = new Set([
  'content',
  'text',
  'reasoning_content',
  'reasoning',
  'thinking',
  'refusal',
  'arguments',
  'partial_json',
  'response',
  'transcript',
]);

/** Arguments of a call, which some dialects send as an object. */
const CALL: ReadonlySet<string> = new Set(['arguments', 'input']);

/** Members of a whole answer in which the model's text is: choices of chat, items of responses, blocks of messages, and so on. */
const PARTS = ['choices', 'output', 'content', 'message', 'response', 'candidates'] as const;

/**
 * Bytes of the text of a whole answer. Undefined for one that no model generated, and for a response that has not ended or
 * has failed.
 */
function bytesInAnswer(answer: unknown): number | undefined {
  if (!isObject(answer)) return undefined;
  const { choices, output, content, candidates, data, embeddings, done, status, type, text, meta_info, stop } = answer;
  // SGLang's own API.
  if (typeof text === 'string' && isObject(meta_info)) return Buffer.byteLength(text);
  if (status === 'failed' || status === 'queued' || status === 'in_progress') return undefined;
  const isText =
    [choices, output, candidates].some(Array.isArray) ||
    (type === 'message' && Array.isArray(content)) ||
    typeof done === 'boolean' ||
    // llama.cpp's own API.
    (typeof content === 'string' && typeof stop === 'boolean');
  if (isText) return PARTS.reduce((bytes, name) => bytes + bytesSaid({ [name]: answer[name] }), 0);
  const [first]: unknown[] = Array.isArray(data) ? data : [];
  const isEmbedding = Array.isArray(embeddings) || (isObject(first) && 'embedding' in first);
  return isEmbedding ? 0 : undefined;
}

/** Bytes of UTF-8. Audio does not count, and neither do events of the Responses API that repeat earlier text. */
function bytesSaid(event: Readonly<Record<string, unknown>>): number {
  const { type, delta } = event;
  if (typeof type === 'string' && type.startsWith('response.')) {
    const isText = type.endsWith('.delta') && !type.endsWith('audio.delta');
    return isText && typeof delta === 'string' ? Buffer.byteLength(delta) : 0;
  }
  let bytes = 0;
  const rest: unknown[] = [event];
  while (rest.length > 0) {
    const value = rest.pop();
    if (Array.isArray(value)) for (const each of value) rest.push(each);
    else if (isObject(value)) {
      for (const [name, member] of Object.entries(value)) {
        if (typeof member === 'string') bytes += TEXT.has(name) ? Buffer.byteLength(member) : 0;
        else if (CALL.has(name) && isObject(member)) bytes += bytesOfCall(member);
        else rest.push(member);
      }
    }
  }
  return bytes;
}

function bytesOfCall(given: Readonly<Record<string, unknown>>): number {
  const text = JSON.stringify(given);
  return text === '{}' ? 0 : Buffer.byteLength(text);
}
