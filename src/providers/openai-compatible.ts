/** The base of every provider, built for OpenAI's API; a type adds only its row of differences and its listing. */
import { parseExactly } from '../json/exact-json.ts';
import {
  type Dialect,
  dialects,
  type Provider,
  type ProviderCall,
  type ProviderCapabilities,
  type ProviderModel,
  type ProviderReply,
  type ProxiedProviderConfig,
  RESPONSES_PROBE_MS,
} from './provider.ts';
import { listedEntries, providerModelOf } from './provider-listing.ts';
import { credentialsIn, redactorOf } from './redact.ts';
import { openSessionSocket } from './session-socket.ts';
import { createTransport } from './transport.ts';
import { lateAnswer } from './transport-failure.ts';
import type { ProviderType } from './types.ts';
import { mapUpstreamError, retryAfterOf, retryAfterSecondsIn, UpstreamError } from './upstream-error.ts';
import { UpstreamSockets } from './upstream-sockets.ts';

const MAX_LISTING_BYTES = 8 * 1024 * 1024;
const LISTING_TIMEOUT_MS = 10_000;
const ANSWER_LIMIT = { ms: 600_000, setting: 'HTTP_TIMEOUT' };

/** Reads a JSON document of the provider's server. @throws ProviderFailure, UpstreamError */
export type ReadJson = (
  path: string,
  signal: AbortSignal,
  timeoutMs?: number,
  /** For a document that is read by POST. */
  body?: object,
) => Promise<unknown>;

interface Differences {
  readonly row: ProviderType;
  /** Instead of the configured base URL. */
  readonly base?: BaseUrl;
  /** Instead of `GET {base}/models`. */
  readonly listModels?: (readJson: ReadJson, base: BaseUrl, signal: AbortSignal) => Promise<ProviderModel[]>;
}

const openAiPaths: Partial<Record<Dialect, string>> = {
  chat: '/chat/completions',
  responses: '/responses',
  embeddings: '/embeddings',
};
const agent = ['user-agent', 'chancery', 'accept-encoding', 'identity'];

/** Headers that the transport sets itself, or that must not cross a hop (RFC 9110 §7.6.1). */
const notForwarded = new Set([
  'host',
  'connection',
  'keep-alive',
  'content-length',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'accept-encoding',
  'proxy-authorization',
  'proxy-connection',
]);

const SOCKET_PING_MS = 30_000;

/** @throws Error for an invalid base URL */
export function createOpenAiCompatible(config: ProxiedProviderConfig, differences: Differences): Provider {
  const { row } = differences;
  const base = differences.base ?? parseBaseUrl(config.baseUrl, row.defaultPath);
  const transport = createTransport({
    provider: config.name,
    origin: base.origin,
    proxyOf: config.proxyOf,
    proxyUrl: config.proxyUrl,
    tls: config.tls,
    localAddresses: config.localAddresses ?? config.source !== 'stored',
    connections: config.connections,
    timeouts: config.timeouts,
  });
  const { headers: always = {} } = config;
  const own = [...without(optionHeaders(config, row), always), ...Object.entries(always).flat()];
  const fixed = without(Object.entries(row.headers ?? {}).flat(), always);
  const headersOf = (credentials: readonly string[]): HeaderSet =>
    headerSet([...credentials, ...own, ...without(agent, always)]);
  const keyless = headersOf(base.basicAuth === undefined ? [] : ['authorization', base.basicAuth]);
  const perKey = config.apiKeys.map((key) => headersOf(credentialsFor(key, row)));
  const credentials = Math.max(1, perKey.length);
  const paused = new PausedCredentials(credentials);
  let turn = 0;
  /** The next of several credentials in turn, skipping those paused for the model. */
  const nextCredential = (model: string): number => {
    const first = turn++ % credentials;
    for (let next = first; next < first + credentials; next++) {
      if (!paused.isPaused(next % credentials, model)) return next % credentials;
    }
    return first;
  };
  const observed = (reply: Promise<ProviderReply>, credential: number, model: string): Promise<ProviderReply> =>
    reply.then((answer) => {
      if (answer.status === 429) {
        const seconds = retryAfterSecondsIn(retryAfterOf(answer.headers), Date.now());
        if (seconds !== undefined) paused.pause(credential, model, seconds * 1000);
      }
      return answer;
    });
  const paths = new Map<Dialect, string>();
  const urls = new Map<Dialect, string>();
  for (const dialect of dialects) {
    const path = (row.paths ?? openAiPaths)[dialect];
    if (path === undefined) continue;
    paths.set(dialect, base.path + path);
    urls.set(dialect, withQuery(base.path + path, base.query));
  }
  const socketPath = row.webSockets ? urls.get('responses') : undefined;
  const sockets =
    socketPath !== undefined
      ? new UpstreamSockets({
          ...{ provider: config.name, transport, url: base.origin + socketPath },
          ...{ timeouts: config.timeouts, mayBegin: config.mayCall, pingMs: config.socketPingMs ?? SOCKET_PING_MS },
        })
      : undefined;
  // Of a value such as `Bearer token` also the second word alone.
  const longValues = Object.values(always)
    .flatMap((value) => [value, value.replace(/^\S+ +(?=\S+$)/, '')])
    .filter((value) => value.length >= 8);
  const redact = redactorOf([
    ...config.apiKeys,
    ...credentialsIn(config.baseUrl),
    ...credentialsIn(transport.proxyUrl),
    ...longValues,
  ]);
  /** Milliseconds since the epoch until which `/v1/responses` is not tried. */
  let withoutResponsesUntil = 0;
  const listed: ProviderCapabilities = {
    chat: 'yes',
    responses: row.responses,
    embeddings: row.embeddings,
    responseLifecycle: row.responseLifecycle,
    serves: row.serves,
    passthrough: row.passthrough,
  };

  let capabilities = listed;

  const readJson: ReadJson = async (path, signal, timeoutMs = LISTING_TIMEOUT_MS, postBody) => {
    const timeout = AbortSignal.timeout(timeoutMs);
    const accepting = [
      ...(perKey[credentials === 1 ? 0 : nextCredential('')] ?? keyless).any,
      ...fixed,
      'accept',
      'application/json',
    ];
    try {
      const reply = await transport.send({
        path: withQuery(path, base.query),
        signal: AbortSignal.any([signal, timeout]),
        ...(postBody === undefined ? { method: 'GET', headers: accepting } : posted(accepting, postBody)),
      });
      const body = await reply.body.bytes(MAX_LISTING_BYTES);
      const { status, headers } = reply;
      const provider = { name: config.name, redact };
      if (status !== 200) throw new UpstreamError(mapUpstreamError({ status, headers, body, provider }));
      return parseListing(config.name, body, headers['content-type']);
    } catch (error) {
      throw timeout.aborted && !signal.aborted ? lateAnswer(config.name) : error;
    }
  };

  const sendOverHttp = (call: ProviderCall, credential: number): Promise<ProviderReply> => {
    const { dialect, body, stream, headers: extra, requestId, signal } = call;
    const { json, eventStream, names } = perKey[credential] ?? keyless;
    const headers = (stream ? eventStream : json).concat(requestId);
    if (extra !== undefined) {
      for (const [name, value] of Object.entries(extra)) if (!names.has(name)) headers.push(name, value);
    }
    if (fixed.length > 0) headers.push(...without(fixed, extra));
    const path = urls.get(dialect);
    if (path === undefined) throw new Error(`provider ${config.name} does not speak ${dialect}`);
    return transport.send({
      method: 'POST',
      path,
      headers,
      body,
      signal,
      mayIdle: !stream,
      mayBegin: config.mayCall,
    });
  };

  return {
    name: config.name,
    type: config.type,
    options: config.options,
    answerLimit: config.timeouts?.answer ?? ANSWER_LIMIT,
    get capabilities() {
      if (capabilities.responses === 'no' && Date.now() >= withoutResponsesUntil) capabilities = listed;
      return capabilities;
    },
    learnResponses(supported, learnedAt = Date.now()) {
      withoutResponsesUntil = learnedAt + RESPONSES_PROBE_MS;
      capabilities = supported === undefined ? listed : { ...listed, responses: supported ? 'yes' : 'no' };
    },
    redact,
    address: `${base.origin}${base.path}?${base.query}`,
    pathOf: (dialect) => paths.get(dialect),
    pausedMs: paused.waitMs,
    async listModels(signal) {
      if (differences.listModels !== undefined) return differences.listModels(readJson, base, signal);
      const entries = listedEntries(await readJson(`${base.path}/models`, signal), row.modelIdPrefix);
      if (entries === undefined) throw notAListing(config.name, 'JSON of another shape');
      return entries.map((entry) => providerModelOf(entry, config.type));
    },
    send(call) {
      const { model = '', headers: extra, client } = call;
      const next = () => (credentials === 1 ? 0 : nextCredential(model));
      if (client === undefined || sockets === undefined || call.dialect !== 'responses' || !call.stream) {
        const credential = next();
        return observed(sendOverHttp(call, credential), credential, model);
      }
      const kept = sockets.credentialOf(client);
      const credential = kept === undefined || paused.isPaused(kept, model) ? next() : kept;
      const { any, names } = perKey[credential] ?? keyless;
      const headers = handshakeHeaders([...any, ...without(fixed, extra)], names, extra);
      const reply = sockets.send(call, client, { credential, headers });
      return observed(
        reply.then((answer) => answer ?? sendOverHttp(call, credential)),
        credential,
        model,
      );
    },
    canSteer: (client, responseId) => sockets?.canSteer(client, responseId) === true,
    remembers: (client, responseId) => sockets?.remembers(client, responseId) === true,
    forward({ method, path, openAi, model = '', headers, body, socket, requestId, signal }) {
      const credential = credentials === 1 ? 0 : nextCredential(model);
      const { any, names } = perKey[credential] ?? keyless;
      const agentOfClient = own.includes('user-agent') ? undefined : headers['user-agent'];
      const passed = Object.entries(headers).filter(([name]) => !notForwarded.has(name) && !names.has(name));
      if (agentOfClient !== undefined) passed.push(['user-agent', agentOfClient]);
      // A type with no route below its base has OpenAI's routes at its root.
      const served = openAi && row.servedFromBase?.length !== 0 ? undefined : row.servedFromBase;
      const isOfRoot = socket !== undefined && openAi !== true && row.sockets?.path === 'root';
      const target = withQuery(isOfRoot ? resolveDots(path) : passthroughPath(path, base, served), base.query);
      const others = agentOfClient === undefined ? any : without(any, { 'user-agent': agentOfClient });
      const all = [...passed.flat(), ...without(fixed, headers), ...others, 'x-request-id', requestId];
      // A streamed body keeps its announced length: not every server accepts a body of unknown length.
      const length = headers['content-length'];
      if (body !== undefined && !(body instanceof Uint8Array) && length !== undefined)
        all.push('content-length', length);
      const { mayCall: mayBegin } = config;
      const reply =
        socket === undefined
          ? transport.send({ method, path: target, headers: all, body, signal, mayBegin })
          : openSessionSocket(
              { provider: config.name, transport, timeouts: config.timeouts, mayBegin },
              {
                url: base.origin + target,
                headers: socketHeaders(all, config.apiKeys[credential], row),
                maxMessageBytes: socket.maxMessageBytes,
                signal,
              },
            );
      return observed(reply, credential, model);
    },
    async close(when = 'now') {
      await Promise.all([sockets?.close(when), transport.close(when)]);
    },
  };
}

/** Those of a trace are of one call, not of all that the connection has. */
const ofOneCall = new Set(['traceparent', 'tracestate', 'content-type', 'accept']);

function handshakeHeaders(
  own: readonly string[],
  names: ReadonlySet<string>,
  extra: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [at, name] of own.entries()) if (at % 2 === 0) headers[name] = own[at + 1] ?? '';
  for (const [name, value] of Object.entries(extra)) {
    if (!names.has(name) && !ofOneCall.has(name)) headers[name] = value;
  }
  return headers;
}

function posted(headers: readonly string[], document: object) {
  const body = Buffer.from(JSON.stringify(document));
  return { method: 'POST', headers: [...headers, 'content-type', 'application/json'], body };
}

/** The headers of calls with one API key, as flat lists of names and values, built once. */
interface HeaderSet {
  readonly any: readonly string[];
  /** These two end with the name of the header whose value differs per call. */
  readonly json: readonly string[];
  readonly eventStream: readonly string[];
  /** Names that a request cannot set. */
  readonly names: ReadonlySet<string>;
}

function headerSet(any: readonly string[]): HeaderSet {
  const withAccept = (accept: string): string[] => [
    ...any,
    ...['content-type', 'application/json', 'accept', accept, 'x-request-id'],
  ];
  return {
    any,
    json: withAccept('application/json'),
    eventStream: withAccept('text/event-stream'),
    names: new Set(['x-request-id', ...any.filter((_, index) => index % 2 === 0)]),
  };
}

/** With the key of a WebSocket, where it is sent in another header than that of a request. */
function socketHeaders(headers: readonly string[], key: string | undefined, { sockets }: ProviderType) {
  if (key === undefined || sockets === undefined) return headers;
  return [...without(headers, { authorization: '' }), sockets.auth, key];
}

function credentialsFor(key: string, { auth }: ProviderType): string[] {
  return auth === 'bearer' ? ['authorization', `Bearer ${key}`] : [auth, key];
}

/** A flat list of headers without those for which the client sends its own value. */
function without(headers: readonly string[], given?: Readonly<Record<string, string>>): readonly string[] {
  if (given === undefined) return headers;
  return headers.filter((_, index) => given[headers[index - (index % 2)] ?? ''] === undefined);
}

function optionHeaders(config: ProxiedProviderConfig, row: ProviderType): string[] {
  return Object.entries(row.optionHeaders ?? {}).flatMap(([header, option]) => {
    const value = config.options[option];
    return value === undefined || value === '' ? [] : [header, value];
  });
}

function parseListing(provider: string, body: Buffer, contentType: string | undefined): unknown {
  try {
    return parseExactly(body.toString());
  } catch {
    throw notAListing(provider, contentType);
  }
}

export function notAListing(provider: string, got = 'no content type'): UpstreamError {
  return new UpstreamError({
    status: 502,
    type: 'provider_error',
    code: null,
    message: `it answered the model listing with something else (${got})`,
    param: null,
    provider,
  });
}

/**
 * The path of a passthrough request on the provider's server. A leading `v1/` is the gateway's spelling, so it is
 * removed below the base URL; on a server with further routes at its root it is kept for those. Dot segments are
 * resolved first: a path never leaves the base.
 * @param path begins with `/` and may have a query
 */
function passthroughPath(path: string, base: BaseUrl, servedFromBase?: readonly string[]): string {
  const safe = /\.\.|%2e|\\/i.test(path) ? resolveDots(path) : path;
  const mark = safe.indexOf('?');
  const route = mark === -1 ? safe : safe.slice(0, mark);
  const query = mark === -1 ? '' : safe.slice(mark);
  const withoutV1 = route === '/v1' ? '/' : route.startsWith('/v1/') ? route.slice(3) : route;
  if (servedFromBase === undefined || servedFromBase.includes(withoutV1.slice(1))) {
    return base.path + withoutV1 + query;
  }
  return base.root + route + query;
}

function resolveDots(path: string): string {
  const { pathname, search } = new URL(`http://host${path}`);
  return pathname + search;
}

// Credentials of a provider that are paused for a model after a 429 with `Retry-After`. Providers' limits are per
// credential and model, so other models and other credentials stay in use.

/** A longer `Retry-After` pauses for this long: the provider may raise the limit earlier. */
export const MAX_PAUSE_MS = 5 * 60_000;
/** Maximum number of remembered models. Beyond it the oldest entry is dropped, and its model is called again. */
export const MAX_MODELS = 1000;
const MAX_MODEL_LENGTH = 512;

export class PausedCredentials {
  readonly #count: number;
  readonly #now: () => number;
  /** For each model, when the pause of each credential ends. */
  readonly #until = new Map<string, Float64Array>();

  /**
   * @param count of credentials, which are numbered from 0
   * @param now milliseconds of a monotonic clock
   */
  constructor(count: number, now: () => number = () => performance.now()) {
    this.#count = count;
    this.#now = now;
  }

  /** @param ms values above `MAX_PAUSE_MS` are reduced to it */
  pause(credential: number, model: string, ms: number): void {
    if (!(ms > 0) || model === '' || model.length > MAX_MODEL_LENGTH) return;
    let until = this.#until.get(model);
    if (until === undefined) {
      this.#makeRoom();
      until = new Float64Array(this.#count);
      this.#until.set(model, until);
    }
    until[credential] = this.#now() + Math.min(ms, MAX_PAUSE_MS);
  }

  isPaused(credential: number, model: string): boolean {
    return (this.#until.get(model)?.[credential] ?? 0) > this.#now();
  }

  /** Milliseconds until a credential may be used for the model; 0 when one may be used now. */
  readonly waitMs = (model: string): number => {
    const until = this.#until.get(model);
    return until === undefined ? 0 : Math.max(0, Math.min(...until) - this.#now());
  };

  #makeRoom(): void {
    if (this.#until.size < MAX_MODELS) return;
    const now = this.#now();
    for (const [model, until] of this.#until) if (until.every((end) => end <= now)) this.#until.delete(model);
    if (this.#until.size < MAX_MODELS) return;
    for (const model of this.#until.keys()) {
      this.#until.delete(model);
      return;
    }
  }
}

/** A provider's base URL, split once so that a call only joins strings. */
export interface BaseUrl {
  /** Scheme, host and port. */
  readonly origin: string;
  /** Without a trailing slash, for example `/v1`. */
  readonly path: string;
  /** The server's root: the path without its final `/v1`; empty for most. */
  readonly root: string;
  /** Query string of every call, without `?`; empty for most. */
  readonly query: string;
  /** The `Authorization` value for credentials written into the URL. */
  readonly basicAuth?: string;
}

/** @throws Error when it is not an absolute http or https URL; the message omits it, since it may hold a password. */
export function parseBaseUrl(text: string, defaultPath = '/v1'): BaseUrl {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new Error('the base URL must be an absolute URL that begins with http:// or https://');
  }
  const given = url.pathname.replace(/\/+$/, '').replace(/\/{2,}/g, '/');
  const path = given === '' ? defaultPath : given;
  const credentials = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return {
    origin: url.origin,
    path,
    root: path.endsWith('/v1') ? path.slice(0, -3) : path,
    query: url.search.slice(1),
    ...(credentials === ':' ? {} : { basicAuth: `Basic ${Buffer.from(credentials).toString('base64')}` }),
  };
}

/** Adds a base URL's query to a path. A name that is also in the path's own query keeps the path's value. */
function withQuery(path: string, query: string): string {
  if (query === '') return path;
  const mark = path.indexOf('?');
  if (mark === -1) return `${path}?${query}`;
  const own = new URLSearchParams(path.slice(mark));
  const added = query.split('&').filter((pair) => !own.has(decodeURIComponent(pair.split('=')[0] ?? '')));
  return added.length === 0 ? path : `${path}&${added.join('&')}`;
}
