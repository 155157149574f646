/** The open exchanges, so that a stop can wait for them or end them. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Client, EndReason, ModelRequest } from '../commands/model-request/model-request.ts';
import { noSessions, type Sessions } from '../commands/model-request/session.ts';
import { refusals } from '../commands/refusal.ts';
import { clientErrorFormatOf } from './client-error-format.ts';
import { redactHeaders, redactUrl } from './redaction.ts';
import { ReplyClient } from './reply-client.ts';
import { noTags, type RequestTags } from './request-tags.ts';
import { bodyOf, callerOf } from './server.ts';

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** How long the client of an exchange that was ended early may take to read the error. */
const AFTER_CUT_MS = 2_000;

/** Tags and sessions of a request, beside its content. */
export interface RequestMarks {
  readonly tags: RequestTags;
  readonly sessions: Sessions;
}

/** A caller that waits for the exchanges which are open now. */
interface Waiting {
  readonly open: Set<ReplyClient | Promise<void>>;
  readonly done: () => void;
}

export class OpenExchanges {
  readonly #clients = new Set<ReplyClient>();
  /** Exchanges that have no client. */
  readonly #detached = new Set<Promise<void>>();
  readonly #stallTimeoutMs: number;
  readonly #onCut: () => void;
  readonly #marks: RequestMarks;
  readonly #limit: number;
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
    marks: RequestMarks = { tags: noTags, sessions: noSessions },
    limit = Number.POSITIVE_INFINITY,
  ) {
    this.#limit = limit;
    this.#stallTimeoutMs = stallTimeoutMs;
    this.#onCut = onCut;
    this.#marks = marks;
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

  /** Passes a request to an exchange, which answers on the hijacked response. */
  async run(
    request: FastifyRequest,
    reply: FastifyReply,
    exchange: (request: ModelRequest, client: Client) => Promise<void>,
  ): Promise<void> {
    if (this.#stopping) {
      reply.header('connection', 'close');
      throw refusals.stopping();
    }
    if (this.count >= this.#limit) {
      this.#overloads++;
      throw refusals.overloaded(this.#limit);
    }
    const modelRequest = this.modelRequestOf(request);
    await this.serve(reply, (client) => exchange(modelRequest, client));
  }

  /** The request in the form that an exchange uses. */
  modelRequestOf(request: FastifyRequest): ModelRequest {
    return toModelRequest(request, this.#marks);
  }

  /** Answers on the hijacked response; a stop waits for it like for an exchange. */
  async serve(reply: FastifyReply, answer: (client: Client) => Promise<void>): Promise<void> {
    reply.hijack();
    const client = new ReplyClient(reply.raw, this.#stallTimeoutMs, clientErrorFormatOf(reply.request));
    this.#clients.add(client);
    try {
      await answer(client);
    } finally {
      client.whenSent(() => {
        this.#clients.delete(client);
        this.#over(client);
      });
    }
  }

  /** Resolves once every exchange that is open now has ended, regardless of newer ones. */
  async whenOpenEnded(): Promise<void> {
    const open = new Set<ReplyClient | Promise<void>>([...this.#clients, ...this.#detached]);
    if (open.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting = [...this.#waiting, { open, done: resolve }];
    await promise;
  }

  #over(one: ReplyClient | Promise<void>): void {
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

function toModelRequest(request: FastifyRequest, { tags, sessions }: RequestMarks): ModelRequest {
  const { traceparent } = request.headers;
  const caller = callerOf(request);
  return {
    caller,
    requestId: request.id,
    traceparent: typeof traceparent === 'string' && TRACEPARENT.test(traceparent) ? traceparent : undefined,
    method: request.method,
    path: redactUrl(request.url),
    headers: redactHeaders(request.headers),
    clientIp: request.socket.remoteAddress,
    labels: tags.labelsOf(request.headers, caller.key),
    sessionId: sessions.inHeaders(request.headers, caller.userPath),
    body: bodyOf(request),
  };
}
