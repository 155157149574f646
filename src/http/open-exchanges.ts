/** The HTTP side of exchanges: the client of each, and the open ones, so that a stop can wait for them or end them. */

import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isEventStream } from '../commands/model-request/answer-body.ts';
import {
  type Client,
  type EndReason,
  type ModelRequest,
  noSessions,
  type Sessions,
  type StreamKeptOpen,
} from '../commands/model-request/model-request.ts';
import { type Refusal, refusals } from '../commands/refusal.ts';
import { type Clients, peers } from './client-address.ts';
import { type ClientErrorFormat, clientErrorFormatOf, isStillSending, refusalHeaders } from './errors.ts';
import { noTags, type RequestTags, redactHeaders, redactUrl } from './request-head.ts';
import { bodyOf, callerOf } from './server.ts';

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** How long the client of an exchange that was ended early may take to read the error. */
const AFTER_CUT_MS = 2_000;

/** Tags, session and client of a request, beside its content. */
interface RequestMarks {
  readonly tags: RequestTags;
  readonly sessions: Sessions;
  readonly clients: Clients;
}

/** A client that a stop can end. */
interface OpenClient {
  endEarly(reason: EndReason): void;
}

/** A caller that waits for the exchanges which are open now. */
interface Waiting {
  readonly open: Set<OpenClient | Promise<void>>;
  readonly done: () => void;
}

export class OpenExchanges {
  readonly #clients = new Set<OpenClient>();
  /** Exchanges that have no client. */
  readonly #detached = new Set<Promise<void>>();
  #stallTimeoutMs: number;
  readonly #onCut: () => void;
  readonly #marks: RequestMarks;
  #limit: number;
  #overloads = 0;
  #waiting: readonly Waiting[] = [];
  #stopping = false;
  #idle: (() => void) | undefined;

  /**
   * @param onCut called when the open exchanges must end early, for those that do not depend on their client
   * @param limit of concurrent exchanges; a request beyond it is refused with 503
   */
  constructor(
    stallTimeoutMs: number,
    onCut: () => void = () => {},
    marks: RequestMarks = { tags: noTags, sessions: noSessions, clients: peers },
    limit = Number.POSITIVE_INFINITY,
  ) {
    this.#limit = limit;
    this.#stallTimeoutMs = stallTimeoutMs;
    this.#onCut = onCut;
    this.#marks = marks;
  }

  /** For requests that begin from now on. */
  follow(stallTimeoutMs: number, limit: number): void {
    this.#stallTimeoutMs = stallTimeoutMs;
    this.#limit = limit;
  }

  /** Number of requests refused because of the limit. */
  get overloads(): number {
    return this.#overloads;
  }

  get count(): number {
    return this.#clients.size + this.#detached.size;
  }

  /** Registers an exchange without a client, which a stop waits for like any other. */
  track(exchange: Promise<void>): void {
    this.#detached.add(exchange);
    void exchange.finally(() => {
      this.#detached.delete(exchange);
      this.#over(exchange);
    });
  }

  /** Passes a request to an exchange, which answers on the hijacked response. @throws Refusal 503 */
  run(
    request: FastifyRequest,
    reply: FastifyReply,
    exchange: (request: ModelRequest, client: Client) => Promise<void>,
  ): Promise<void> {
    if (this.#stopping) reply.header('connection', 'close');
    this.#checkRoom();
    const modelRequest = this.modelRequestOf(request);
    return this.serve(reply, (client) => exchange(modelRequest, client));
  }

  /** Runs an exchange whose client is not an HTTP response. @throws Refusal 503 */
  async runFor(client: OpenClient, exchange: () => Promise<void>): Promise<void> {
    this.#checkRoom();
    this.#clients.add(client);
    try {
      await exchange();
    } finally {
      this.#clients.delete(client);
      this.#over(client);
    }
  }

  get isStopping(): boolean {
    return this.#stopping;
  }

  #checkRoom(): void {
    if (this.#stopping) throw refusals.stopping();
    if (this.count < this.#limit) return;
    this.#overloads++;
    throw refusals.overloaded(this.#limit);
  }

  /** The request in the form that an exchange uses. */
  modelRequestOf(request: FastifyRequest): ModelRequest {
    const { tags, sessions, clients } = this.#marks;
    const { traceparent } = request.headers;
    const caller = callerOf(request);
    return {
      caller,
      requestId: request.id,
      traceparent: typeof traceparent === 'string' && TRACEPARENT.test(traceparent) ? traceparent : undefined,
      method: request.method,
      path: redactUrl(request.url),
      headers: redactHeaders(request.headers),
      clientIp: clients.addressOf(request),
      clientSubject: request.socket.arrival?.subject,
      labels: tags.labelsOf(request.headers, caller.key),
      sessionId: sessions.inHeaders(request.headers, caller.userPath),
      body: bodyOf(request),
    };
  }

  /** Answers on the hijacked response; a stop waits for it like for an exchange. */
  async serve(reply: FastifyReply, answer: (client: Client) => Promise<void>): Promise<void> {
    reply.hijack();
    const client = new ReplyClient(reply.raw, this.#stallTimeoutMs, clientErrorFormatOf(reply.request));
    this.#clients.add(client);
    try {
      await answer(client);
    } finally {
      const over = () => {
        this.#clients.delete(client);
        this.#over(client);
      };
      // When the operating system has accepted all bytes, or the connection is closed.
      if (reply.raw.writableFinished || reply.raw.destroyed) over();
      else reply.raw.once('close', over);
    }
  }

  /** Resolves once every exchange that is open now has ended, regardless of newer ones. */
  async whenOpenEnded(): Promise<void> {
    const open = new Set<OpenClient | Promise<void>>([...this.#clients, ...this.#detached]);
    if (open.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting = [...this.#waiting, { open, done: resolve }];
    await promise;
  }

  #over(one: OpenClient | Promise<void>): void {
    if (this.count === 0) this.#idle?.();
    if (this.#waiting.length === 0) return;
    for (const { open, done } of this.#waiting) if (open.delete(one) && open.size === 0) done();
    this.#waiting = this.#waiting.filter(({ open }) => open.size > 0);
  }

  /**
   * Accepts no new exchange, waits until the open ones have ended and their answers are sent, and after `graceMs` ends
   * them early.
   * @returns how many were ended early
   */
  async stop(graceMs: number): Promise<number> {
    this.#stopping = true;
    if (await this.#idleWithin(graceMs)) return 0;
    const cut = this.count;
    this.endAll('gateway_stopping');
    await this.#idleWithin(AFTER_CUT_MS);
    return cut;
  }

  async #idleWithin(ms: number): Promise<boolean> {
    if (this.count === 0) return true;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#idle = () => resolve(true);
    const timer = setTimeout(() => resolve(false), ms);
    const idle = await promise;
    clearTimeout(timer);
    return idle;
  }

  endAll(reason: EndReason): void {
    for (const client of this.#clients) client.endEarly(reason);
    if (reason === 'gateway_stopping') this.#onCut();
  }
}

const EVENT_STREAM_HEADERS = { 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' };

const ONE_WRITE_BYTES = 8 * 1024;

export class ReplyClient implements Client {
  readonly #response: ServerResponse;
  readonly #controller = new AbortController();
  readonly ended = this.#controller.signal;
  readonly #stallTimeoutMs: number;
  readonly #format: ClientErrorFormat;
  begun = false;
  isKeptOpen = false;
  #keptOpen: StreamKeptOpen | undefined;
  /** While the connection takes no more bytes. */
  #draining: Promise<void> | undefined;

  constructor(response: ServerResponse, stallTimeoutMs: number, format: ClientErrorFormat) {
    this.#response = response;
    this.#stallTimeoutMs = stallTimeoutMs;
    this.#format = format;
    response.once('close', () => {
      if (!response.writableFinished) this.endEarly('client_gone');
    });
    // A write to a socket that has just closed must not crash the process: 'close' follows and ends the exchange.
    response.on('error', () => {});
    if (response.destroyed || response.socket?.destroyed) this.endEarly('client_gone');
  }

  endEarly(reason: EndReason): void {
    if (!this.ended.aborted) this.#controller.abort(reason);
  }

  answer(status: number, headers: Record<string, string>, body: Uint8Array): void {
    if (this.isKeptOpen) throw new Error('a whole answer cannot follow the head of an event stream');
    this.begun = true;
    this.#response.writeHead(status, { ...this.#headers(headers), 'content-length': body.length });
    // One string is sent with the head in a single write; longer bodies are not worth the copy.
    if (body.length > ONE_WRITE_BYTES) this.#response.end(body);
    else this.#response.end(Buffer.from(body.buffer, body.byteOffset, body.length).toString('latin1'), 'latin1');
  }

  refuse(refusal: Refusal, headers: Record<string, string>): void {
    if (this.begun || this.isKeptOpen) {
      const last = this.begun ? undefined : this.#keptOpen?.failure(refusal);
      if (last === undefined) this.#response.destroy();
      else this.#response.end(last);
      return;
    }
    const body = Buffer.from(JSON.stringify(this.#format.errorBody(refusal, headers['x-request-id'])));
    const contentType = { 'content-type': 'application/json; charset=utf-8' };
    const close: Record<string, string> = isStillSending(this.#response.req) ? { connection: 'close' } : {};
    this.answer(refusal.status, { ...headers, ...refusalHeaders(refusal), ...contentType, ...close }, body);
  }

  keepOpen(comments: Uint8Array, stream: StreamKeptOpen): void {
    if (!this.isKeptOpen) {
      this.#writeHead(200, stream.headers);
      this.isKeptOpen = true;
      this.#keptOpen = stream;
    }
    if (!this.#response.destroyed) this.#response.write(comments);
  }

  begin(status: number, headers: Record<string, string>): void {
    this.begun = true;
    if (!this.isKeptOpen) this.#writeHead(status, headers);
  }

  #writeHead(status: number, given: Record<string, string>): void {
    const headers = this.#headers(given);
    const isEvents = isEventStream(headers);
    this.#response.writeHead(status, isEvents ? { ...headers, ...EVENT_STREAM_HEADERS } : headers);
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    if (this.#response.destroyed || this.#response.write(bytes)) return undefined;
    return this.#drained();
  }

  end(): void {
    this.#response.end();
  }

  #headers(given: Record<string, string>): Record<string, string> {
    const { idHeader } = this.#format;
    const id = idHeader === undefined ? undefined : given['x-request-id'];
    const headers = idHeader === undefined || id === undefined ? given : { ...given, [idHeader]: id };
    return headers.vary === undefined ? headers : withOwnVary(headers, this.#response.getHeader('vary'));
  }

  /** All that wait share one timer and one pair of listeners. */
  #drained(): Promise<void> {
    this.#draining ??= drained(this.#response, this.#stallTimeoutMs, () => {
      this.#draining = undefined;
    });
    return this.#draining;
  }
}

/**
 * Resolves, after `over`, when the connection takes bytes again or is closed. It is closed when it takes none for the time.
 */
export function drained(
  connection: {
    on(event: 'drain' | 'close', listener: () => void): unknown;
    off(event: 'drain' | 'close', listener: () => void): unknown;
    destroy(): unknown;
  },
  stallTimeoutMs: number,
  over: () => void,
): Promise<void> {
  return new Promise((resolve) => {
    const stalled = setTimeout(() => connection.destroy(), stallTimeoutMs);
    const done = () => {
      clearTimeout(stalled);
      connection.off('drain', done);
      connection.off('close', done);
      over();
      resolve();
    };
    connection.on('drain', done);
    connection.on('close', done);
  });
}

/**
 * Puts the gateway's own `Vary` before the provider's: the gateway's lists the headers that decide its CORS headers,
 * so a cache needs both.
 * @param own the header that is already set on the response
 */
export function withOwnVary(headers: Record<string, string>, own: unknown): Record<string, string> {
  const { vary } = headers;
  if (vary === undefined || typeof own !== 'string') return headers;
  const names = vary.split(',').map((name) => name.trim().toLowerCase());
  return names.includes('*') || names.includes(own.toLowerCase()) ? headers : { ...headers, vary: `${own}, ${vary}` };
}
