/** Counts the output tokens of answers whose providers did not: of a recorded stream, and of an answer in one piece. */
import { createSplitter, recordedFormat } from '../../../providers/stream-splitter.ts';
import { parseChunk } from '../../model-request/parse-chunk.ts';
import { tokensInBytes } from '../../model-request/token-estimate.ts';
import { isReported, type TokenUsage } from '../../model-request/usage.ts';
import type { Answered, Received } from '../outcome.ts';
import { bytesInAnswer, bytesSaid } from './said-text.ts';

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
