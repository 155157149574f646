/** Short HTTP calls: of guardrails to servers such as a Presidio analyzer, and to authorization servers. */
import { LRUCache } from 'lru-cache';
import { localKindIn } from '../../providers/checked-lookup.ts';
import { ProviderFailure, type ProviderReply } from '../../providers/provider.ts';
import type { ProxyOf } from '../../providers/proxies.ts';
import { createTransport, type Transport } from '../../providers/transport.ts';

export const MAX_SERVER_ANSWER_BYTES = 4 * 1024 * 1024;
/** Origins with open connections. Those of the least recently used one end when there are more. */
const MAX_ORIGINS = 64;
const CONNECTIONS = 64;
const CALL_MS = 60_000;
const LIMIT = { ms: CALL_MS, setting: 'limit of the gateway' };

/** What may be called: `anywhere`, or everywhere but loopback, link-local and cloud metadata addresses. */
export type Reachable = 'anywhere' | 'no local addresses';

interface ServerRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: AbortSignal;
}

interface ServerAnswer {
  readonly status: number;
  readonly headers: ProviderReply['headers'];
  text(): Promise<string>;
}

interface ServerCallsOptions {
  /** Milliseconds from the call to the end of the answer. */
  readonly callMs?: number;
  /** What the calls are for, in errors. Default: `guardrail`. */
  readonly caller?: string;
}

/**
 * Connections are kept alive per origin. Redirects are answers like any other, and an answer has at most
 * `MAX_SERVER_ANSWER_BYTES`. Errors name the origin, and nothing else of the request.
 */
export class ServerCalls {
  readonly #transports = new LRUCache<string, Transport>({
    max: MAX_ORIGINS,
    dispose: (transport) => void transport.close('idle').catch(() => {}),
  });
  readonly #proxyOf: ProxyOf;
  readonly #callMs: number;
  readonly #caller: string;
  #isClosed = false;

  constructor(proxyOf: ProxyOf, { callMs = CALL_MS, caller = 'guardrail' }: ServerCallsOptions = {}) {
    this.#proxyOf = proxyOf;
    this.#callMs = callMs;
    this.#caller = caller;
  }

  /** @returns a function that calls what is reachable; it rejects with an error that says why a call failed */
  fetchFrom(reachable: Reachable) {
    return async (url: string, { method, headers, body, signal }: ServerRequest): Promise<ServerAnswer> => {
      const { origin, pathname, search } = new URL(url);
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(), this.#callMs);
      try {
        const reply = await this.#transport(origin, reachable).send({
          method,
          path: `${pathname}${search}`,
          headers: Object.entries({ ...headers, 'accept-encoding': 'identity' }).flat(),
          body: Buffer.from(body),
          signal: AbortSignal.any([signal, late.signal]),
        });
        const text = (await reply.body.bytes(MAX_SERVER_ANSWER_BYTES)).toString();
        return { status: reply.status, headers: reply.headers, text: () => Promise.resolve(text) };
      } catch (error) {
        if (!(error instanceof ProviderFailure)) throw error;
        const why = late.signal.aborted ? `it did not answer within ${this.#callMs / 1000} s` : error.message;
        throw new Error(`the call of ${origin} failed: ${why}`);
      } finally {
        clearTimeout(timer);
      }
    };
  }

  /** Ends the active calls. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const transports = [...this.#transports.values()];
    await Promise.all(transports.map((transport) => transport.close('now')));
  }

  #transport(origin: string, reachable: Reachable): Transport {
    if (this.#isClosed) throw new Error(`${origin} is not called: the gateway is stopping`);
    const kind = reachable === 'anywhere' ? undefined : localKindIn(origin);
    if (kind !== undefined) {
      const cure = `declare the ${this.#caller} in the configuration, or set ALLOW_PRIVATE_PROVIDERS=true`;
      throw new Error(`${origin} is not called, because its address is ${kind}: ${cure}`);
    }
    const key = `${reachable} ${origin}`;
    let transport = this.#transports.get(key);
    if (transport === undefined) {
      transport = createTransport({
        provider: origin,
        origin,
        proxyOf: this.#proxyOf,
        localAddresses: reachable === 'anywhere',
        connections: CONNECTIONS,
        timeouts: { connectMs: 10_000, headers: LIMIT, idle: LIMIT },
      });
      this.#transports.set(key, transport);
    }
    return transport;
  }
}
