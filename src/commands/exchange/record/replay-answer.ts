/**
 * The answer of an exchange as its client got it, generated again from the record: first the recorded part, then,
 * while the exchange still runs, each part as it is added.
 */
import { exchangeCompleted } from '../../../events/catalogue/exchange.ts';
import { type RecordedEvent, type StreamName, streamName } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import { createSplitter, type Frame, type FrameSplitter, recordedFormat } from '../../../providers/stream-frames.ts';
import { parseChunk } from '../../model-request/answer-body.ts';
import type { ParsedRequest } from '../../model-request/model-request.ts';
import { earlyEnd } from '../../model-request/upstream-refusals.ts';
import type { Refusal } from '../../refusal.ts';
import type { ResponseArchive } from '../../responses/archive.ts';
import { everything } from '../../visibility.ts';
import { type AnswerTemplate, templateOf } from '../reissuing/reissued-answer.ts';
import type { AnswerStream } from '../response-stream.ts';
import {
  type Dialects,
  earlyEndOf,
  isGuarded,
  parsedRequestOf,
  type RecordedExchange,
  recordedFailure,
  streamOfRecorded,
  withEvent,
} from './read-exchange.ts';

export interface ReplayDependencies {
  readonly log: EventLog;
  readonly dialects: Dialects;
  readonly archive: ResponseArchive;
}

export type AnswerPart =
  /** More of the answer; all of it when it is not a stream. */
  | { readonly kind: 'bytes'; readonly bytes: Buffer }
  /** The answer ended: `complete`, or early. */
  | { readonly kind: 'end'; readonly complete: boolean; readonly exchange: RecordedExchange };

/**
 * Always ends with an `end`, unless the signal is aborted or there is no such exchange on record.
 * @throws the errors of reading the log
 */
export async function* replayAnswer(
  exchangeId: string,
  deps: ReplayDependencies,
  signal: AbortSignal,
): AsyncGenerator<AnswerPart> {
  let recorded: RecordedExchange | undefined;
  let parsedRequest: ParsedRequest | undefined;
  let stream: StreamReplay | undefined;
  for await (const event of eventsOfExchange(streamName('exchange', exchangeId), deps.log, signal)) {
    const attemptBefore = recorded?.attempt;
    recorded = withEvent(recorded, event);
    if (recorded === undefined) continue;
    parsedRequest ??= parsedRequestOf(recorded, deps.dialects);
    if (recorded.attempt !== attemptBefore) stream = undefined;
    if (event.body !== undefined && recorded.delivered.at(-1) === event) {
      recorded = { ...recorded, chunks: [] };
      yield { kind: 'bytes', bytes: bufferOf(event.body) };
    } else if (isGuarded(recorded)) {
      recorded = { ...recorded, chunks: [] };
    } else if (parsedRequest?.stream === true && event.body !== undefined && recorded.chunks.at(-1) === event) {
      stream ??= new StreamReplay(recorded, parsedRequest, deps.dialects);
      const bytes = stream.push(event.body);
      // The response stream keeps the state that it needs, so that clients that follow a long answer do not hold all of it in
      // memory.
      recorded = { ...recorded, chunks: [] };
      if (bytes.length > 0) yield { kind: 'bytes', bytes };
    }
    if (recorded.end === undefined) continue;
    const complete = recorded.end.type === exchangeCompleted.type;
    if (recorded.hit !== undefined) {
      if (complete) yield* copyOf(recorded, recorded.hit.exchangeId, deps, signal);
      yield { kind: 'end', complete, exchange: recorded };
      return;
    }
    const final = await finalJson(recorded, deps.archive);
    const last =
      stream !== undefined
        ? stream.end(recorded, final)
        : complete && !recorded.request.stream
          ? replayWhole(recorded, parsedRequest, deps.dialects, final)
          : undefined;
    if (last !== undefined && last.length > 0) yield { kind: 'bytes', bytes: last };
    yield { kind: 'end', complete, exchange: recorded };
    return;
  }
}

/** A whole recorded answer, ready to be sent again under other ids; undefined when it cannot be. */
export async function recordedTemplate(
  exchangeId: string,
  deps: ReplayDependencies,
  signal: AbortSignal,
): Promise<AnswerTemplate | undefined> {
  const pieces: Buffer[] = [];
  for await (const part of replayAnswer(exchangeId, deps, signal)) {
    if (part.kind === 'bytes') {
      pieces.push(part.bytes);
      continue;
    }
    const { dialect, stream } = part.exchange.request;
    return part.complete ? templateOf(dialect, stream, Buffer.concat(pieces)) : undefined;
  }
  return undefined;
}

/** The copy of an earlier answer that the response cache gave this client. */
async function* copyOf(
  { id, received }: RecordedExchange,
  earlier: string,
  deps: ReplayDependencies,
  signal: AbortSignal,
): AsyncGenerator<AnswerPart> {
  const template = await recordedTemplate(earlier, deps, signal);
  const bytes = template?.render({ exchangeId: id, createdAt: Math.floor(received.at / 1000) });
  if (bytes !== undefined) yield { kind: 'bytes', bytes };
}

/** The events of an exchange up to its end, as they are recorded. */
async function* eventsOfExchange(
  stream: StreamName,
  log: EventLog,
  signal: AbortSignal,
): AsyncGenerator<RecordedEvent> {
  let last: RecordedEvent | undefined;
  for await (const event of log.readStream(stream)) {
    last = event;
    yield event;
  }
  if (last === undefined) return;
  for await (const item of log.subscribe({ after: last.position, filter: { streams: [stream] }, signal })) {
    if ('stream' in item) yield item;
  }
}

/** Passes the provider's stream through the response stream that the exchange had. */
class StreamReplay {
  readonly #stream: AnswerStream | undefined;
  readonly #splitter: FrameSplitter;
  #completedAt: number | undefined;
  /** The failure that the provider reported; later parts of its stream were not passed on. */
  #refusal: Refusal | undefined;

  constructor(recorded: RecordedExchange, parsedRequest: ParsedRequest, dialects: Dialects) {
    this.#stream = streamOfRecorded(recorded, parsedRequest, dialects, () => this.#completedAt);
    this.#splitter = createSplitter(recordedFormat(recorded.attempt?.dialect, recorded.attempt?.calls));
  }

  push(chunk: Uint8Array): Buffer {
    return this.#take(this.#splitter.push(bufferOf(chunk)));
  }

  #take(frames: readonly Frame[]): Buffer {
    const bytes: Buffer[] = [];
    for (const frame of frames) {
      if (this.#refusal !== undefined) break;
      const answer = this.#stream?.frame(frame);
      this.#refusal = answer?.refusal;
      if (answer?.bytes !== undefined) bytes.push(answer.bytes);
    }
    return Buffer.concat(bytes);
  }

  end(ended: RecordedExchange, final: Record<string, unknown> | undefined): Buffer | undefined {
    if (typeof final?.completed_at === 'number') this.#completedAt = final.completed_at;
    const last = this.#splitter.end();
    const lastBytes = last === undefined ? Buffer.alloc(0) : this.#take([last]);
    const recorded = this.#ending(ended);
    return recorded === undefined ? lastBytes : Buffer.concat([lastBytes, recorded]);
  }

  #ending(recorded: RecordedExchange): Buffer | undefined {
    if (recorded.end?.type === exchangeCompleted.type) return this.#stream?.finish().bytes;
    const failure = recordedFailure(recorded);
    // A stream that failed before its first byte was answered with an HTTP error instead.
    if (failure?.reason === 'provider_error') return undefined;
    const broken = this.#refusal ?? (failure?.reason === 'stream_broken' ? failure.refusal : undefined);
    if (broken !== undefined) return this.#stream?.broken(broken);
    return this.#stream?.abandon(failure === undefined ? earlyEnd('client_gone') : earlyEndOf(failure));
  }
}

function replayWhole(
  recorded: RecordedExchange,
  parsedRequest: ParsedRequest | undefined,
  dialects: Dialects,
  final: Record<string, unknown> | undefined,
): Buffer | undefined {
  if (final !== undefined) return Buffer.from(JSON.stringify(final));
  const chunk = recorded.chunks[0]?.body;
  if (chunk === undefined || parsedRequest === undefined || isGuarded(recorded)) return undefined;
  const bytes = bufferOf(chunk);
  return streamOfRecorded(recorded, parsedRequest, dialects)?.whole(bytes, parseChunk(bytes.toString()));
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The final answer of the client, when it differs from the provider's: the stored response, or the recorded answer. */
async function finalJson(
  recorded: RecordedExchange,
  archive: ResponseArchive,
): Promise<Record<string, unknown> | undefined> {
  const { end, attempt, request } = recorded;
  if (end === undefined || (attempt?.dialect === request.dialect && !isGuarded(recorded))) return undefined;
  if (end.body !== undefined) return parseChunk(new TextDecoder().decode(end.body));
  const { responseId } = end.data as { responseId?: string };
  const stored = responseId === undefined ? undefined : await archive.find(responseId, everything);
  return stored?.response;
}
