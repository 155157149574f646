/** The exchanges now running, so that a stop can wait for them, or cut them. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Client, EndReason, ModelRequest } from '../commands/exchange/client.ts';
import { refusals } from '../commands/refusal.ts';
import { redactHeaders, redactUrl } from './redaction.ts';
import { ReplyClient } from './reply-client.ts';
import { bodyOf, callerOf } from './server.ts';

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** How long a client that was cut may take to read that it was. */
const AFTER_CUT_MS = 2_000;

export class OpenExchanges {
  readonly #clients = new Set<ReplyClient>();
  readonly #stallTimeoutMs: number;
  #stopping = false;
  #idle: (() => void) | undefined;

  constructor(stallTimeoutMs: number) {
    this.#stallTimeoutMs = stallTimeoutMs;
  }

  get count(): number {
    return this.#clients.size;
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
    reply.hijack();
    const client = new ReplyClient(reply.raw, this.#stallTimeoutMs);
    this.#clients.add(client);
    try {
      await exchange(modelRequest, client);
    } finally {
      client.whenSent(() => {
        this.#clients.delete(client);
        if (this.#clients.size === 0) this.#idle?.();
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
    const cut = this.#clients.size;
    this.endAll('gateway_stopping');
    await this.#idleWithin(AFTER_CUT_MS);
    return cut;
  }

  async #idleWithin(ms: number): Promise<boolean> {
    if (this.#clients.size === 0) return true;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#idle = () => resolve(true);
    const timer = setTimeout(() => resolve(false), ms);
    const idle = await promise;
    clearTimeout(timer);
    return idle;
  }

  endAll(reason: EndReason): void {
    for (const client of this.#clients) client.endEarly(reason);
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
