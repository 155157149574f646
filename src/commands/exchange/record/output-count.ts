/** Counts the output tokens of a recorded stream, event by event, without keeping any of it. */
import { createSplitter, recordedFormat } from '../../../providers/stream-splitter.ts';
import { parseChunk } from '../../model-request/parse-chunk.ts';
import { tokensInBytes } from '../../model-request/token-estimate.ts';
import { bytesSaid } from './said-text.ts';

/** Approximate bytes of one stream event without its text; used where bodies are not kept. */
const ENVELOPE_BYTES = 250;

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

  /** @param dialect the dialect spoken to the provider */
  constructor(dialect: string) {
    this.#splitter = createSplitter(recordedFormat(dialect), { maxFrameBytes: Number.MAX_SAFE_INTEGER });
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
