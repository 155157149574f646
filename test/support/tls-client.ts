/** Clients with TLS: one request over HTTP/1.1 or HTTP/2, with certificates of a test's own authority. */
import { once } from 'node:events';
import { type ClientHttp2Session, type ClientHttp2Stream, connect, type IncomingHttpHeaders } from 'node:http2';
import { request as httpsRequest } from 'node:https';
import { buffer } from 'node:stream/consumers';
import type { SecureContextOptions } from 'node:tls';
import { Agent, fetch as undiciFetch } from 'undici';

export interface TlsAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

interface TlsRequest {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
}

export async function http1(
  url: string,
  { method = 'GET', headers = {}, body }: TlsRequest,
  tls: SecureContextOptions,
): Promise<TlsAnswer> {
  const request = httpsRequest(url, { method, headers, agent: false, ...tls });
  request.end(body);
  const [response] = await once(request, 'response');
  return { status: response.statusCode, headers: response.headers, body: await buffer(response) };
}

/** Opens a connection; a test closes it. */
export async function openHttp2(url: string, tls: SecureContextOptions): Promise<ClientHttp2Session> {
  const session = connect(url, tls);
  session.on('error', () => {});
  await once(session, 'connect');
  return session;
}

/** Begins a request; its answer is read by `answerOf`. */
export function begin(
  session: ClientHttp2Session,
  path: string,
  { method = 'GET', headers = {}, body }: TlsRequest = {},
): ClientHttp2Stream {
  const stream = session.request({ ':method': method, ':path': path, ...headers });
  stream.on('error', () => {});
  stream.end(body);
  return stream;
}

export async function answerOf(stream: ClientHttp2Stream): Promise<TlsAnswer> {
  const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders];
  return { status: Number(headers[':status']), headers, body: await buffer(stream) };
}

/** `fetch` that accepts the certificates of this authority, with a default `authorization`. */
export function fetchWith(url: string, tls: SecureContextOptions, key: string) {
  const dispatcher = new Agent({ connect: tls });
  return (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    if (!headers.has('authorization')) headers.set('authorization', `Bearer ${key}`);
    const options = { ...init, headers, dispatcher };
    return undiciFetch(`${url}${path}`, options as never) as unknown as Promise<Response>;
  };
}
