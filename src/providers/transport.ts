/** The way out: HTTP/1.1 to one origin, over kept-alive connections. */
import { Readable } from 'node:stream';
import { Pool } from 'undici';
import type { ProviderReply } from './provider.ts';
import { UpstreamCall } from './upstream-call.ts';

export interface TransportOptions {
  /** Named in failures. */
  readonly provider: string;
  /** Scheme, host and port. */
  readonly origin: string;
  /** Calls beyond this many at once wait for a free connection. Default 1,024. */
  readonly connections?: number;
  readonly connectTimeoutMs?: number;
  readonly headersTimeoutMs?: number;
  readonly idleTimeoutMs?: number;
}

export interface TransportRequest {
  readonly method: string;
  /** Path and query, as they go on the wire. */
  readonly path: string;
  /** Name, value, name, value, … without `host`, `content-length` and hop-by-hop headers. */
  readonly headers: string[];
  readonly body?: Uint8Array | AsyncIterable<Uint8Array>;
  readonly signal: AbortSignal;
}

export interface Transport {
  /**
   * Resolves with the answer's headers. Redirects are answers like any other. Nothing is ever sent twice.
   * @throws ProviderFailure
   */
  send(request: TransportRequest): Promise<ProviderReply>;
  /** Breaks off what is still running. */
  close(): Promise<void>;
}

export function createTransport(options: TransportOptions): Transport {
  const { provider, origin, headersTimeoutMs = 600_000 } = options;
  const pool = new Pool(origin, {
    connections: options.connections ?? 1024,
    pipelining: 1,
    allowH2: false,
    connect: { timeout: options.connectTimeoutMs ?? 10_000 },
    maxHeaderSize: 64 * 1024,
    // A call's own timer counts the wait for a connection too; this one would begin after it.
    headersTimeout: 0,
    // Restarted by every piece and suspended while the socket is paused: an idle timeout, not a limit on the whole.
    bodyTimeout: options.idleTimeoutMs ?? 300_000,
  });

  return {
    send({ method, path, headers, body, signal }) {
      return new Promise((resolve, reject) => {
        const bodiless = method === 'HEAD';
        const call = new UpstreamCall({ provider, signal, headersTimeoutMs, bodiless }, resolve, reject);
        if (!call.over) pool.dispatch({ method, path, headers, body: toDispatch(body) }, call);
      });
    },
    close: () => pool.destroy(),
  };
}

function toDispatch(body: TransportRequest['body']): Uint8Array | Readable | undefined {
  return body === undefined || body instanceof Uint8Array ? body : Readable.from(body, { objectMode: false });
}
