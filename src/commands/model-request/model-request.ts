import type { Caller } from './caller.ts';

/** A model request as it came in, its body not yet looked at. */
export interface ModelRequest {
  readonly caller: Caller;
  readonly requestId: string;
  readonly traceparent?: string;
  readonly method: string;
  /** Path and query, credentials redacted. */
  readonly path: string;
  /** Lower-case names, credentials redacted. */
  readonly headers: Record<string, string>;
  readonly clientIp?: string;
  /** Of the key and of tagging headers, each once; undefined when there are none. */
  readonly labels?: readonly string[] | undefined;
  /**
   * What the client calls its session, within its user path. Told by its headers; what a body says of it is filled in
   * once that is parsed.
   */
  sessionId?: string | undefined;
  readonly body: Buffer;
  /** Instead of `body`: what is too large to wait for. Only a passthrough takes it. */
  readonly bodyPieces?: AsyncIterable<Buffer>;
}
