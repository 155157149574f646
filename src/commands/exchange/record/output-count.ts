/** Counts the output tokens of answers whose providers did not: of a recorded stream, and of an answer in one piece. */

import { isObject } from '../../../json/is-object.ts';
import { createSplitter, recordedFormat } from '../../../providers/stream-splitter.ts';
import { parseChunk } from '../../model-request/parse-chunk.ts';
import { tokensInBytes } from '../../model-request/token-estimate.ts';
import { isReported, type TokenUsage } from '../../model-request/usage.ts';
import type { Answered, Received } from '../outcome.ts';

/** Approximate bytes of one stream event without its text; used where bodies are not kept. */
const ENVELOPE_BYTES = 250;

/** The whole answer, as the client gets it. Its text is counted where its provider has not. @throws as `LiveRelay.whole` */
export function countedAnswer(
  { relay, received }: Pick<Answered, 'relay' | 'received'>,
  bytes: Buffer,
  parsed: unknown,
): Buffer | Promise<Buffer> {
  const count = () => countWhole(received, relay.usage(), parsed);
  let whole: Buffer | Promise<Buffer> | undefined;
  try {
    whole = relay.whole(bytes, parsed);
  } finally {
    if (!(whole instanceof Promise)) count();
  }
  return whole instanceof Promise ? whole.finally(count) : whole;
}

/**
 * Counts the text of an answer in one piece, unless its provider has counted its tokens. Nothing is counted in an answer
 * that no model generated.
 */
export function countWhole(received: Received, usage: TokenUsage, parsed: unknown): void {
  if (isReported(usage)) return;
  const bytes = bytesInAnswer(parsed);
  if (bytes !== undefined) received.outputTokens = tokensInBytes(bytes);
}

/** Counts made while the stream arrived. */
export interface StreamSize {
  readonly chunks: number;
  readonly bytes: number;
}

export class OutputCount {
  readonly #splitter;
  #bodies = 0;
  #textBytes = 0;
  /** Number of events that hold text. */
  #textEvents = 0;

  /** @param dialect the dialect spoken to the provider, in so many parallel calls */
  constructor(dialect: string, calls?: number) {
    this.#splitter = createSplitter(recordedFormat(dialect, calls), { maxFrameBytes: Number.MAX_SAFE_INTEGER });
  }

  /** @param body of one recorded chunk; undefined where bodies are not kept */
  add(body: Uint8Array | undefined): void {
    if (body === undefined) return;
    this.#bodies += 1;
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    for (const { data } of this.#splitter.push(bytes)) this.#take(data);
  }

  /** At least one token for each event with text. Without bodies: estimated from the number and size of the events. */
  tokens({ chunks, bytes }: StreamSize): number {
    if (this.#bodies === 0) return Math.max(chunks, tokensInBytes(Math.max(0, bytes - chunks * ENVELOPE_BYTES)));
    const last = this.#splitter.end();
    if (last !== undefined) this.#take(last.data);
    return Math.max(this.#textEvents, tokensInBytes(this.#textBytes));
  }

  #take(data: string | undefined): void {
    const event = data === undefined ? undefined : parseChunk(data);
    if (event === undefined) return;
    const bytes = bytesSaid(event);
    this.#textBytes += bytes;
    if (bytes > 0) this.#textEvents += 1;
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
  const { calls, choices, output, content, candidates, data, embeddings, done, status, type } = answer;
  // Of parallel calls.
  if (Array.isArray(calls)) {
    const texts = calls.map(bytesInAnswer).filter((bytes) => bytes !== undefined);
    return texts.length === 0 ? undefined : texts.reduce((sum, bytes) => sum + bytes);
  }
  if (status === 'failed' || status === 'queued' || status === 'in_progress') return undefined;
  const isText =
    [choices, output, candidates].some(Array.isArray) ||
    (type === 'message' && Array.isArray(content)) ||
    typeof done === 'boolean';
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
