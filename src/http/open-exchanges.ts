/** The exchanges now running, so that a stop can wait for them, or cut them. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Client, EndReason, ModelRequest } from '../commands/exchange/client.ts';
import { refusals } from '../commands/refusal.ts';
import { mannersOf } from './manners.ts';
import { redactHeaders, redactUrl } from './redaction.ts';
import { ReplyClient } from './reply-client.ts';
import { bodyOf, callerOf } from './server.ts';

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** How long a client that was cut may take to read that it was. */
const AFTER_CUT_MS = 2_000;

export class OpenExchanges {
  readonly #clients = new Set<ReplyClient>();
  /** Exchanges that have no client. */
  readonly #unattended = new Set<Promise<void>>();
  readonly #stallTimeoutMs: number;
  readonly #onCut: () => void;
  #stopping = false;
  #idle: (() => void) | undefined;

  /** @param onCut called when the open exchanges are to end early, for those that do not depend on their client */
  constructor(stallTimeoutMs: number, onCut: () => void = () => {}) {
    this.#stallTimeoutMs = stallTimeoutMs;
    this.#onCut = onCut;
  }

  get count(): number {
    return this.#clients.size + this.#unattended.size;
  }

  /** An exchange without a client, which a stop waits for like any other. */
  track(exchange: Promise<void>): void {
    this.#unattended.add(exchange);
    void exchange.finally(() => {
      this.#unattended.delete(exchange);
      if (this.count === 0) this.#idle?.();
    });
  }

  /** Hands a request to an exchange; the exchange answers on the hijacked response. */
  async run(
    request: FastifyRequest,
    reply: FastifyReply,
    exchange: (request: ModelRequest, client: Client) => Promise<void>,
  ): Promise<void> {
    if (this.#stopping) {
      reply.header('connection', 'close');
      throw refusals.stopping();
    }
    const modelRequest = toModelRequest(request);
    await this.attend(reply, (client) => exchange(modelRequest, client));
  }

  /** Answers on the hijacked response; a stop waits for it as for an exchange. */
  async attend(reply: FastifyReply, answer: (client: Client) => Promise<void>): Promise<void> {
    reply.hijack();
    const client = new ReplyClient(reply.raw, this.#stallTimeoutMs, mannersOf(reply.request));
    this.#clients.add(client);
    try {
      await answer(client);
    } finally {
      client.whenSent(() => {
        this.#clients.delete(client);
        if (this.count === 0) this.#idle?.();
      });
    }
  }

  /**
   * Takes no new exchange, waits until the open ones have ended and their answers are sent, and after `graceMs` ends
   * them early.
   * @returns how many had to be cut
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

function toModelRequest(request: FastifyRequest): ModelRequest {
  const { traceparent } = request.headers;
  return {
    caller: callerOf(request),
    requestId: request.id,
    traceparent: typeof traceparent === 'string' && TRACEPARENT.test(traceparent) ? traceparent : undefined,
    method: request.method,
    path: redactUrl(request.url),
    headers: redactHeaders(request.headers),
    clientIp: request.socket.remoteAddress,
    body: bodyOf(request),
  };
}
