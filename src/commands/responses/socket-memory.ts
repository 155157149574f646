/** The responses of a WebSocket that are not stored, for later turns on it, and the life of its connections to providers. */
import { parseExactly } from '../../json/exact-json.ts';
import type { ProviderCall } from '../../providers/provider.ts';
import { sees, type VisibilityScope } from '../visibility.ts';
import type { StoredResponse } from './archive.ts';

export interface RememberedResponse extends Omit<StoredResponse, 'native' | 'revision' | 'response' | 'inputItems'> {
  /** The response object as JSON text. */
  readonly json: string;
  /** Its input items as JSON text. */
  readonly inputItems: string;
}

/** Input for a response that runs on the socket. */
export type Steering = NonNullable<ProviderCall['steers']>;

/** Of one socket, and of all in the process. */
const MAX_BYTES = 64 * 1024 * 1024;
const MAX_TOTAL_BYTES = 512 * 1024 * 1024;
let total = 0;

export class SocketMemory {
  /** The oldest first. */
  readonly #responses = new Map<string, RememberedResponse>();
  #bytes = 0;
  readonly #socket = new AbortController();
  /** Aborted when the socket is closed. */
  readonly whileOpen = this.#socket.signal;

  get isEmpty(): boolean {
    return this.#responses.size === 0;
  }

  /** Older responses make room; one that is too large is not kept. */
  keep(response: RememberedResponse): void {
    this.remove(response.id);
    this.#responses.set(response.id, response);
    this.#count(bytesOf(response));
    for (const id of this.#responses.keys()) {
      if (this.#bytes <= MAX_BYTES && total <= MAX_TOTAL_BYTES) return;
      this.remove(id);
    }
  }

  find(id: string, visibility: VisibilityScope): StoredResponse | undefined {
    const found = this.#responses.get(id);
    if (found === undefined || !sees(visibility, found)) return undefined;
    const { json, inputItems, ...facts } = found;
    // No provider can look it up.
    const stored = { ...facts, native: false, revision: 0n };
    return {
      ...stored,
      response: parseExactly(json) as StoredResponse['response'],
      inputItems: parseExactly(inputItems) as StoredResponse['inputItems'],
    };
  }

  remove(id: string): void {
    const removed = this.#responses.get(id);
    if (removed === undefined) return;
    this.#responses.delete(id);
    this.#count(-bytesOf(removed));
  }

  /** Also what is kept later is cleared by the next call. */
  close(): void {
    this.#socket.abort();
    this.#responses.clear();
    this.#count(-this.#bytes);
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    total += bytes;
  }
}

/** Texts have one or two bytes for each character. */
function bytesOf({ json, inputItems, placeholders }: RememberedResponse): number {
  const hidden = placeholders.reduce((sum, { placeholder, value }) => sum + placeholder.length + value.length, 0);
  return 2 * (json.length + inputItems.length + hidden) + 1024;
}
