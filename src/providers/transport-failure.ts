/**
 * Transport errors in words that may be shown to a client: no addresses, no credentials. The provider's name is added
 * where they are shown.
 */
import { LOCAL_ADDRESS } from './checked-lookup.ts';
import { ProviderFailure, type TimeLimit } from './provider.ts';
import { PROXY_REFUSED } from './proxies.ts';

const MAY_NOT_BEGIN = 'MAY_NOT_BEGIN';

const reasons: Readonly<Record<string, string>> = {
  [MAY_NOT_BEGIN]: 'this gateway was not sure to be the only one with the request',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection closed',
  [LOCAL_ADDRESS]: 'its host name resolves to an address that is not allowed for providers added at run time',
  ENOTFOUND: 'its host name is unknown',
  EAI_AGAIN: 'its host name could not be looked up',
  EHOSTUNREACH: 'no route to its host',
  ENETUNREACH: 'no route to its network',
  ETIMEDOUT: 'connecting took too long',
  UND_ERR_CONNECT_TIMEOUT: 'connecting took too long',
  [PROXY_REFUSED]: 'the proxy did not connect to it',
  UND_ERR_ABORTED: 'the proxy did not connect to it',
  UND_ERR_HEADERS_TIMEOUT: 'the proxy did not answer in time',
  UND_ERR_PRX_CONN: 'the proxy closed the connection',
  UND_ERR_PRX_TLS: 'the certificate of its proxy is for another host',
  UND_ERR_SOCKET: 'connection closed',
  UND_ERR_DESTROYED: 'the gateway is stopping',
  UND_ERR_CLOSED: 'it is no longer configured',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'the answer is not as long as announced',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate chain is self-signed',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate cannot be verified',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host',
};

function codeOf(error: Error): string | undefined {
  return 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

function reasonOf(error: Error): string {
  if (error.name === 'HTTPParserError') return 'it did not speak HTTP';
  const code = codeOf(error);
  return code === undefined ? 'connection failed' : (reasons[code] ?? code);
}

/** Whether the other side has closed the connection. */
export function isClosedConnection(error: Error): boolean {
  const code = codeOf(error);
  return code === 'ECONNRESET' || code === 'EPIPE' || code === 'UND_ERR_SOCKET';
}

/** A call that was not allowed to begin when it had a connection. */
export function mayNotBegin(): Error {
  return Object.assign(new Error('not sent'), { code: MAY_NOT_BEGIN });
}

/** Whether the proxy answered with 407 (RFC 9110 §15.5.8), to a tunnel or to the request. undici has no code for it. */
export function isProxyRefusal(error: Error): boolean {
  const code = codeOf(error);
  return (code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_ABORTED') && error.message.includes('(407)');
}

export function proxyRefused(provider: string, error: Error): ProviderFailure {
  const message = 'its proxy refuses the user and password of the gateway (status 407)';
  return new ProviderFailure(provider, 'proxy_refused', message, error);
}

/** The request was not sent. */
export function unreachable(provider: string, error: Error, isProxied: boolean): ProviderFailure {
  const how = isProxied ? ' through its proxy' : '';
  return new ProviderFailure(provider, 'unreachable', `it could not be reached${how} (${reasonOf(error)})`, error);
}

/** Nothing of the answer has arrived. */
export function disconnected(provider: string): ProviderFailure {
  return new ProviderFailure(provider, 'disconnected', 'its WebSocket ended before it answered');
}

/**
 * The request was sent, and the answer did not arrive completely.
 * @param arrived bytes of the answer's body
 */
export function streamCut(provider: string, error: Error, idle: TimeLimit, arrived: number): ProviderFailure {
  const code = codeOf(error);
  if (code === 'UND_ERR_BODY_TIMEOUT') {
    const message = `it sent nothing for ${inSeconds(idle)}, ${soFar(arrived)}`;
    return new ProviderFailure(provider, 'idle', message, error);
  }
  if (code === 'UND_ERR_HEADERS_OVERFLOW') {
    return new ProviderFailure(provider, 'too_large', 'it sent too many headers', error);
  }
  return new ProviderFailure(provider, 'broken', `the connection was interrupted (${reasonOf(error)})`, error);
}

export function tooLarge(provider: string, maxBytes: number): ProviderFailure {
  return new ProviderFailure(provider, 'too_large', `it answered with more than ${maxBytes} bytes`);
}

export function cancelled(provider: string, isSent = true): ProviderFailure {
  return new ProviderFailure(provider, 'aborted', 'the call was cancelled', undefined, isSent);
}

/** @param limit undefined when no setting determines it */
export function lateAnswer(provider: string, limit?: TimeLimit): ProviderFailure {
  const message =
    limit === undefined
      ? 'it did not answer in time'
      : `it did not answer within ${inSeconds(limit)}, and no byte of its answer had arrived`;
  return new ProviderFailure(provider, 'timeout', message);
}

/** @param arrived bytes of the answer's body */
export function unfinished(provider: string, limit: TimeLimit, arrived: number, cause: unknown): ProviderFailure {
  const message = `its answer took longer than ${inSeconds(limit)}, ${soFar(arrived)}`;
  return new ProviderFailure(provider, 'timeout', message, cause);
}

/** `1.5 s (HTTP_TIMEOUT)` */
export function inSeconds({ ms, setting }: TimeLimit): string {
  return `${ms / 1000} s (${setting})`;
}

function soFar(arrived: number): string {
  if (arrived === 0) return 'and no byte of its answer had arrived after the headers';
  return `after ${arrived} ${arrived === 1 ? 'byte' : 'bytes'} of its answer had arrived`;
}
