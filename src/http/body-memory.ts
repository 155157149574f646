/** Memory of concurrent request bodies: large ones share a limit. */
import type { ServerResponse } from 'node:http';
import { refusals } from '../commands/refusal.ts';
import { Places } from './places.ts';

/** Smaller bodies are not counted: `MAX_CONCURRENT_REQUESTS` bounds them. */
export const UNCOUNTED_BYTES = 256 * 1024;
/** Bodies decoded at the same time. A decoder may fill the limit of its route before the size is known. */
const DECODERS = 2;

export class BodyMemory {
  readonly #limitBytes: number;
  readonly #decoders = new Places(DECODERS);
  #held = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /**
   * Counts a body until its response is closed. A single body is always accepted.
   * @throws Refusal 503 when the held bodies and this one exceed the limit
   */
  hold(bytes: number, response: ServerResponse): void {
    if (bytes <= UNCOUNTED_BYTES) return;
    if (this.#held > 0 && this.#held + bytes > this.#limitBytes) throw refusals.bodiesTooLarge(this.#limitBytes);
    // The response has closed already: no event would release the body.
    if (response.closed) return;
    this.#held += bytes;
    response.once('close', () => {
      this.#held -= bytes;
    });
  }

  /** Runs a decoder when one of the places for decoders is free. */
  async decode<Decoded>(run: () => Promise<Decoded>): Promise<Decoded> {
    const free = await this.#decoders.take();
    try {
      return await run();
    } finally {
      free?.();
    }
  }
}
