/**
 * HTTP/1.1 connections to one origin, kept alive, direct or through a proxy. Every outgoing HTTP connection of the
 * gateway is opened here (`npm run check`), except those to ClickHouse.
 */
import type { LookupFunction, Socket } from 'node:net';
import { Readable } from 'node:stream';
import { buildConnector, type Dispatcher, Pool, ProxyAgent } from 'undici';
import { checkedLookup, checkHostOf, hostOf } from './checked-lookup.ts';
import type { CloseWhen, ProviderReply, ProviderTimeouts, TlsTexts } from './provider.ts';
import { type ConnectSettings, type ProxyOf, socksConnector, tunnelConnector } from './proxies.ts';
import { UpstreamCall } from './upstream-call.ts';

export interface TransportOptions {
  /** Name of the provider in failures. */
  readonly provider: string;
  /** Scheme, host and port. */
  readonly origin: string;
  /** The proxies of the whole gateway, which who operates it has chosen. */
  readonly proxyOf: ProxyOf;
  /** Proxy for these connections instead, with its credentials; `none`: they are direct. */
  readonly proxyUrl?: string | undefined;
  /**
   * False: loopback, link-local and cloud metadata addresses are refused for the origin and for `proxyUrl`. Every
   * address is checked that is connected to; where a proxy resolves the name of the origin, only an address in `origin`
   * is. Default true.
   */
  readonly localAddresses?: boolean;
  /** Resolves host names. Default: the system's resolver. */
  readonly lookup?: LookupFunction;
  readonly tls?: TlsTexts | undefined;
  /** Calls beyond this many at once wait for a free connection. Default 1,024. */
  readonly connections?: number;
  readonly timeouts?: ProviderTimeouts;
}

export interface TransportRequest {
  readonly method: string;
  /** Path and query, as sent. */
  readonly path: string;
  /** Name, value, name, value, … without `host`, `content-length` and hop-by-hop headers. */
  readonly headers: string[];
  readonly body?: Uint8Array | AsyncIterable<Uint8Array>;
  readonly signal: AbortSignal;
  /** Pauses of the answer are allowed, because its reader limits the whole of it. */
  readonly mayIdle?: boolean;
  /** Asked when there is a connection, before the first byte is sent; false: nothing is sent. */
  readonly mayBegin?: (() => boolean) | undefined;
}

export interface Transport {
  /** The proxy that it uses, with its credentials, or `none`. */
  readonly proxyUrl: string;
  /**
   * Resolves with the answer's headers. Redirects are answers like any other. No request is ever sent twice: a call gets
   * another connection when a kept one is reset before anything of the request was written. Once something was written,
   * a reset does not show whether the provider has read it, so the call fails.
   * @throws ProviderFailure
   */
  send(request: TransportRequest): Promise<ProviderReply>;
  /** A new connection to the origin, on the way that requests take; it belongs to the caller. @throws Error */
  open(): Promise<Socket>;
  /** Ends active calls, or, with `idle`, waits for them. */
  close(when?: CloseWhen): Promise<void>;
}

export const HEADERS_LIMIT = { ms: 600_000, setting: 'HTTP_RESPONSE_HEADER_TIMEOUT' };
export const IDLE_LIMIT = { ms: 300_000, setting: 'HTTP_STREAM_IDLE_TIMEOUT' };

/** @throws Error when `origin` or `proxyUrl` has an address that is not allowed */
export function createTransport(options: TransportOptions): Transport {
  const { provider, origin, timeouts = {} } = options;
  const { headers: headersLimit = HEADERS_LIMIT, idle = IDLE_LIMIT } = timeouts;
  const poolOptions: Pool.Options = {
    connections: options.connections ?? 1024,
    pipelining: 1,
    allowH2: false,
    maxHeaderSize: 64 * 1024,
    // A call's own timer includes the wait for a connection; this one would start after it.
    headersTimeout: 0,
    // Restarted by every piece and suspended while the socket is paused: an idle timeout, not a limit of the whole.
    bodyTimeout: idle.ms,
  };
  const proxyUrl = options.proxyUrl ?? options.proxyOf(origin) ?? 'none';
  const settings = settingsOf(options, proxyUrl);
  const pool = dispatcherOf(options, proxyUrl, settings, poolOptions);
  const isProxied = proxyUrl !== 'none';

  let destroyed = false;

  return {
    proxyUrl,
    send({ method, path, headers, body, signal, mayIdle = false, mayBegin }) {
      return new Promise((resolve, reject) => {
        const bodiless = method === 'HEAD';
        const bodyTimeout = mayIdle ? 0 : idle.ms;
        const isHeld = body === undefined || body instanceof Uint8Array;
        const sent = isHeld ? body : Readable.from(body, { objectMode: false });
        const dispatch = (to: UpstreamCall) =>
          pool.dispatch({ origin, method, path, headers, body: sent, bodyTimeout }, to);
        // A body that is streamed may have been read already.
        const again = isHeld ? dispatch : undefined;
        const call = new UpstreamCall(
          { provider, signal, headers: headersLimit, idle, bodiless, mayBegin, again, isProxied },
          resolve,
          reject,
        );
        if (!signal.aborted) dispatch(call);
      });
    },
    open() {
      const { protocol, host, port } = new URL(origin);
      const { promise, resolve, reject } = Promise.withResolvers<Socket>();
      connectorOf(proxyUrl, settings)({ protocol, host, hostname: hostOf(origin), port }, (error, socket) =>
        error === null ? resolve(socket) : reject(error),
      );
      return promise;
    },
    async close(when = 'now') {
      if (when === 'idle' && !destroyed) return pool.close();
      destroyed = true;
      return pool.destroy();
    },
  };
}

/** Of the connections to the origin, and to the proxy. */
interface Settings {
  readonly toOrigin: ConnectSettings & TlsTexts;
  readonly toProxy: ConnectSettings;
}

/** @throws Error for an address that is not allowed */
function settingsOf(options: TransportOptions, proxyUrl: string): Settings {
  const { origin, localAddresses = true, tls } = options;
  if (!localAddresses) checkHostOf(origin);
  const toOrigin = { ...connectOptions(options, localAddresses), ...tls };
  if (proxyUrl === 'none') return { toOrigin, toProxy: toOrigin };
  const mayBeLocal = localAddresses || options.proxyUrl === undefined;
  if (!mayBeLocal) checkHostOf(proxyUrl);
  return { toOrigin, toProxy: connectOptions(options, mayBeLocal) };
}

function connectorOf(proxyUrl: string, { toOrigin, toProxy }: Settings): buildConnector.connector {
  if (proxyUrl === 'none') return buildConnector({ ...toOrigin, allowH2: false });
  const connector = isSocks(proxyUrl) ? socksConnector : tunnelConnector;
  return connector(proxyUrl, toOrigin, toProxy);
}

function isSocks(proxyUrl: string): boolean {
  return /^socks/i.test(proxyUrl);
}

function dispatcherOf(
  { origin, tls }: TransportOptions,
  proxyUrl: string,
  { toOrigin, toProxy }: Settings,
  poolOptions: Pool.Options,
): Dispatcher {
  if (proxyUrl === 'none') return new Pool(origin, { ...poolOptions, connect: toOrigin });
  if (isSocks(proxyUrl)) {
    return new Pool(origin, { ...poolOptions, connect: socksConnector(proxyUrl, toOrigin, toProxy) });
  }
  return new ProxyAgent({
    uri: proxyUrl,
    connectTimeout: toProxy.timeout,
    proxyTls: toProxy,
    ...(tls === undefined ? {} : { requestTls: tls }),
    // The given options contain the proxy's own function for connecting.
    factory: (origin, given): Dispatcher => new Pool(origin, { ...poolOptions, ...given }),
    // Of the requests that open tunnels.
    clientFactory: (proxy, given) => new Pool(proxy, { ...given, headersTimeout: toProxy.timeout }),
  });
}

function connectOptions({ timeouts, lookup }: TransportOptions, localAddresses: boolean): ConnectSettings {
  const used = localAddresses ? lookup : checkedLookup(lookup);
  return { timeout: timeouts?.connectMs ?? 10_000, ...(used === undefined ? {} : { lookup: used }) };
}
