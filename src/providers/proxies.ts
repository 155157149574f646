/** Which proxy an outgoing connection takes, and connections through SOCKS. */
import { lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction, Socket } from 'node:net';
import { buildConnector, Pool } from 'undici';
import { contains, networkOf } from '../network/networks.ts';
import { hostOf, LOCALHOST, localKindOf } from './checked-lookup.ts';

/** Addresses begin with `http://`, `https://`, `socks5://` or `socks5h://` and may have a user and a password. */
export interface ProxySettings {
  /** For origins with `https`. */
  readonly https?: string | undefined;
  /** For origins with `http`. */
  readonly http?: string | undefined;
  /** What is reached directly: `*`, names with all names below them, addresses and networks, with or without a port. */
  readonly bypass: readonly string[];
}

/** The proxy for an origin; undefined: it is reached directly. */
export type ProxyOf = (origin: string) => string | undefined;

export const withoutProxy: ProxyOf = () => undefined;

/**
 * Loopback is always reached directly, since for the proxy it is another machine. Networks are compared with addresses
 * in origins only: a name may be resolved by the proxy.
 */
export function proxiesOf({ https, http, bypass }: ProxySettings): ProxyOf {
  if (https === undefined && http === undefined) return withoutProxy;
  const bypasses = bypass.map(bypassRule);
  return (origin) => {
    const { protocol, port } = new URL(origin);
    const isSecure = protocol === 'https:';
    const host = hostOf(origin).replace(/\.$/, '');
    if (LOCALHOST.test(host) || (isIP(host) !== 0 && localKindOf(host) === 'loopback')) return undefined;
    const at = port === '' ? (isSecure ? '443' : '80') : port;
    if (bypasses.some((matches) => matches(host, at))) return undefined;
    return isSecure ? https : http;
  };
}

function bypassRule(entry: string): (host: string, port: string) => boolean {
  const [, inBrackets, bare, port] = /^(?:\[(.+)\]|([^:]+|.*:.*:.*))(?::(\d+))?$/.exec(entry.toLowerCase()) ?? [];
  const matches = hostRule(inBrackets ?? bare ?? '');
  return (host, at) => (port === undefined || port === at) && matches(host);
}

function hostRule(given: string): (host: string) => boolean {
  if (given === '*') return () => true;
  const network = networkOf(given);
  if (network !== undefined) {
    const networks = [network];
    return (host) => contains(networks, host);
  }
  const name = given.replace(/^\*?\./, '').replace(/\.$/, '');
  return (host) => host === name || host.endsWith(`.${name}`);
}

export interface ConnectSettings {
  readonly timeout: number;
  readonly lookup?: LookupFunction;
}

/** Error code of a SOCKS proxy that did not connect. */
export const PROXY_REFUSED = 'ERR_PROXY_REFUSED';

/**
 * Connects through a SOCKS 5 proxy (RFC 1928, RFC 1929). As for curl, `socks5` resolves names here, and `socks5h` sends
 * them to the proxy.
 * @param toOrigin its lookup resolves the names; TLS to the origin has its other settings
 */
export function socksConnector(
  proxyUrl: string,
  toOrigin: buildConnector.BuildOptions & ConnectSettings,
  toProxy: ConnectSettings,
): buildConnector.connector {
  const proxy = new URL(proxyUrl);
  const openProxy = buildConnector({ ...toProxy, allowH2: false });
  const secure = buildConnector({ ...toOrigin, allowH2: false });
  const { hostname } = proxy;
  const port = proxy.port === '' ? '1080' : proxy.port;
  const { lookup = systemLookup, timeout } = toOrigin;

  async function tunnel(host: string, toPort: number): Promise<Socket> {
    const { SocksClient } = await import('socks');
    const destination = proxy.protocol === 'socks5h:' || isIP(host) !== 0 ? host : await addressOf(host, lookup);
    const socket = await new Promise<Socket>((resolve, reject) => {
      openProxy({ hostname: hostOf(proxyUrl), host: hostname, protocol: 'http:', port }, (error, opened) =>
        error === null ? resolve(opened) : reject(error),
      );
    });
    const credentials = {
      ...(proxy.username !== '' && { userId: decodeURIComponent(proxy.username) }),
      ...(proxy.username !== '' && { password: decodeURIComponent(proxy.password) }),
    };
    try {
      await SocksClient.createConnection({
        proxy: { host: hostname, port: Number(port), type: 5, ...credentials },
        command: 'connect',
        destination: { host: destination, port: toPort },
        timeout,
        existing_socket: socket,
      });
    } catch (error) {
      // The library's error contains its options, and with them the password.
      const message = error instanceof Error ? error.message : String(error);
      throw Object.assign(new Error(message), { code: PROXY_REFUSED });
    }
    return socket;
  }

  return (options, callback) => {
    const isSecure = options.protocol === 'https:';
    const toPort = options.port === '' ? (isSecure ? 443 : 80) : Number(options.port);
    tunnel(options.hostname, toPort).then(
      (socket) => (isSecure ? secure({ ...options, httpSocket: socket }, callback) : callback(null, socket)),
      (error) => callback(error, null),
    );
  };
}

/**
 * Connects through a tunnel of an HTTP proxy (RFC 9110 §9.3.6), also to an origin without TLS.
 * @param toOrigin as of `socksConnector`
 */
export function tunnelConnector(
  proxyUrl: string,
  toOrigin: buildConnector.BuildOptions & ConnectSettings,
  toProxy: ConnectSettings,
): buildConnector.connector {
  const { origin, username, password } = new URL(proxyUrl);
  const secure = buildConnector({ ...toOrigin, allowH2: false });
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const authorization =
    username === '' ? {} : { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` };

  async function tunnel(to: string): Promise<Socket> {
    const pool = new Pool(origin, { connect: { ...toProxy, allowH2: false }, headersTimeout: toProxy.timeout });
    try {
      const { statusCode, socket } = await pool.connect({ path: to, headers: { host: to, ...authorization } });
      if (statusCode === 200 && socket instanceof Socket) return socket;
      socket.on('error', () => {}).destroy();
      throw Object.assign(new Error(`the proxy answered with status ${statusCode}`), { code: PROXY_REFUSED });
    } finally {
      // The tunnel is no connection of the pool any more.
      void pool.destroy();
    }
  }

  return (options, callback) => {
    const isSecure = options.protocol === 'https:';
    const host = isIP(options.hostname) === 6 ? `[${options.hostname}]` : options.hostname;
    tunnel(`${host}:${options.port === '' ? (isSecure ? 443 : 80) : options.port}`).then(
      (socket) => (isSecure ? secure({ ...options, httpSocket: socket }, callback) : callback(null, socket)),
      (error) => callback(error, null),
    );
  };
}

function addressOf(host: string, lookup: LookupFunction): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  lookup(host, {}, (error, address) => {
    const [first] = typeof address === 'string' ? [address] : address.map((one) => one.address);
    if (error !== null || first === undefined) reject(error ?? new Error(`${host} has no address`));
    else resolve(first);
  });
  return promise;
}
