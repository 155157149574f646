import type { Caller } from './caller.ts';

/** A model request as it was received, before its body is read. */
export interface ModelRequest {
  readonly caller: Caller;
  readonly requestId: string;
  /** The exchange for which the gateway itself sends the request. */
  readonly causationId?: string | undefined;
  readonly traceparent?: string;
  readonly method: string;
  /** Path and query, credentials redacted. */
  readonly path: string;
  /** Lower-case names, credentials redacted. */
  readonly headers: Record<string, string>;
  readonly clientIp?: string;
  /** Labels of the key and of tagging headers, each once; undefined when there are none. */
  readonly labels?: readonly string[] | undefined;
  /**
   * The client's name of its session, within its user path. Taken from the headers, or from the body once it is
   * parsed.
   */
  sessionId?: string | undefined;
  readonly body: Buffer;
  /** Replaces `body` when it is too large to be read whole. Only a passthrough takes it. */
  readonly bodyPieces?: AsyncIterable<Buffer>;
}
