/** The record of a request, and its outcome. */
import type { IncomingMessage } from 'node:http';

/** `open` until the answer was sent whole (`answered`), the client left (`aborted`) or a fault cut it (`cut`). */
export type Outcome = 'open' | 'answered' | 'aborted' | 'cut';

export interface RecordedRequest {
  readonly method: string;
  /** With the query string. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
  /** The body unchanged, for bodies that are not text. */
  readonly bytes: Buffer;
  /** The port of the provider on which it arrived. */
  readonly port: number;
  /** When its body had arrived, on the clock of `performance.now()`. */
  readonly at: number;
  readonly outcome: Outcome;
  readonly aborted: boolean;
  /** Stream frames handed to the socket so far. */
  readonly framesSent: number;
  /** Resolves when the outcome is known. */
  readonly ended: Promise<Outcome>;
}

export class Recording implements RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly bytes: Buffer;
  readonly port: number;
  readonly at = performance.now();
  readonly #ended = Promise.withResolvers<Outcome>();
  outcome: Outcome = 'open';
  framesSent = 0;

  constructor(request: IncomingMessage, bytes: Buffer) {
    this.method = request.method ?? 'GET';
    this.path = request.url ?? '/';
    this.headers = request.headers;
    this.bytes = bytes;
    this.port = request.socket.localPort ?? 0;
  }

  get body(): string {
    return this.bytes.toString();
  }

  get aborted(): boolean {
    return this.outcome === 'aborted';
  }

  get ended(): Promise<Outcome> {
    return this.#ended.promise;
  }

  end(outcome: Outcome): void {
    this.outcome = outcome;
    this.#ended.resolve(outcome);
  }
}
