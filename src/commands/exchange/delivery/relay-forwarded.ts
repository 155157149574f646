/**
 * Forwards an answer of any kind unchanged: an event stream event by event; a short JSON text whole, so that it gets
 * a content length and its usage is read; everything else piece by piece.
 */
import { createHash, type Hash } from 'node:crypto';
import { answerReceived, chunkReceived } from '../../../events/catalogue/exchange.ts';
import { ProviderFailure, type ProviderReply, type ReplyBody } from '../../../providers/provider.ts';
import { isErrorBody } from '../../../providers/upstream-error.ts';
import { isEventStream, isJson } from '../../model-request/media-type.ts';
import { refusalFromFailure } from '../../model-request/refusal-from-upstream.ts';
import { streamTooLong } from '../../model-request/stream-refusals.ts';
import { parseWhole, wholeBody } from '../../model-request/whole-body.ts';
import type { Refusal } from '../../refusal.ts';
import { missingIn } from '../answer-shape.ts';
import type { Answered, AttemptOptions } from '../outcome.ts';
import type { ForwardPlan } from '../plan.ts';
import { countedAnswer } from '../record/output-count.ts';
import type { BeforeFirstByte } from './opening.ts';
import { relayBytes } from './relay-bytes.ts';
import { relayStream } from './relay-stream.ts';

/** JSON answers up to this size are read whole. */
const MAX_WHOLE_BYTES = 1024 * 1024;

export interface ForwardedOptions extends AttemptOptions, Answered {
  readonly reply: ProviderReply;
  readonly plan: ForwardPlan;
  readonly headers: Record<string, string>;
  readonly beforeFirstByte: BeforeFirstByte;
}

export type ForwardedEnd =
  | { readonly kind: 'whole'; readonly bytes: Buffer }
  | { readonly kind: 'streamed'; readonly rest: Buffer[] }
  | { readonly kind: 'broken'; readonly refusal: Refusal; readonly rest: Buffer[]; readonly cut: boolean }
  | { readonly kind: 'abandoned'; readonly rest: Buffer[]; readonly cut: true }
  | { readonly kind: 'blocked'; readonly refusal: Refusal; readonly isWhole: boolean }
  | {
      readonly kind: 'failed';
      readonly refusal: Refusal;
      readonly failure?: ProviderFailure;
      readonly malformed?: boolean;
    }
  /** The body is an error, whatever the status. */
  | { readonly kind: 'error_body'; readonly bytes: Buffer }
  /** The body lacks what the answer must contain. */
  | { readonly kind: 'incomplete'; readonly bytes: Buffer; readonly missing: string };

/** @throws LogUnavailable, ProviderFailure */
export async function relayForwarded(given: ForwardedOptions): Promise<ForwardedEnd> {
  const { plan, record, attempt, received } = given;
  if (plan.digestOnly !== true) return relayByKind(given);
  const hash = createHash('sha256');
  const reply = { ...given.reply, body: digested(given.reply.body, hash) };
  const end = await relayByKind({ ...given, reply, keepBodies: false });
  if (end.kind === 'whole' || end.kind === 'streamed') {
    const contentType = reply.headers['content-type'];
    const { bytes } = received;
    record.note(answerReceived.create({ attempt, contentType, bytes, sha256: hash.digest('hex') }, record.context));
  }
  return end;
}

async function relayByKind(options: ForwardedOptions): Promise<ForwardedEnd> {
  const { reply, plan } = options;
  if (isEventStream(reply.headers)) return relayEvents(options);
  const announced = Number(reply.headers['content-length'] ?? Number.POSITIVE_INFINITY);
  const hasBody = plan.call.method !== 'HEAD' && reply.status !== 204 && reply.status !== 304;
  const isShortJson = isJson(reply.headers) && announced <= MAX_WHOLE_BYTES;
  return hasBody && (plan.readsWhole || isShortJson) ? relayWhole(options) : relayPieces(options, hasBody);
}

async function relayEvents(options: ForwardedOptions): Promise<ForwardedEnd> {
  const { plan, target } = options;
  const closesAfterEnd = plan.dialect !== 'passthrough';
  const end = await relayStream({ ...options, provider: target.provider.name, closesAfterEnd });
  if (end.kind === 'complete') return { kind: 'streamed', rest: end.rest };
  if (end.kind === 'broken') return { ...end, cut: end.rest.length === 0 };
  return end.kind === 'abandoned' ? { ...end, cut: true } : end;
}

async function relayWhole(options: ForwardedOptions): Promise<ForwardedEnd> {
  const { reply, plan, relay, record, attempt, received, keepBodies, maxAnswerBytes } = options;
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
  return { kind: 'whole', bytes: await countedAnswer({ relay, received }, bytes, parsed) };
}

async function relayPieces(options: ForwardedOptions, hasBody: boolean): Promise<ForwardedEnd> {
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
    held = await relayBytes({ ...options, beforeFirstByte, onPiece: (piece) => seen.take(piece) });
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
