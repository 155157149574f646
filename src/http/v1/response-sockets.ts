/**
 * `GET /v1/responses`: responses over a WebSocket. Each message `response.create` is one exchange, with the checks of a request; each
 * event of its answer is one message.
 */
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import { MessageClient } from '../../commands/exchange/delivery/message-client.ts';
import type { ExchangeDialect } from '../../commands/exchange/dialect.ts';
import type { Client, ModelRequest } from '../../commands/model-request/model-request.ts';
import { type Refusal, refusals } from '../../commands/refusal.ts';
import { SocketMemory, type Steering } from '../../commands/responses/socket-memory.ts';
import {
  type CreateMessage,
  readSocketMessage,
  type SteerMessage,
  steeringBody,
  streamIdIn,
} from '../../commands/responses/socket-messages.ts';
import type { BodyBounds } from '../../json/body-scan.ts';
import { anyKey, emptyAnswer, type Routes } from '../api/route-schema.ts';
import type { Authenticator } from '../auth.ts';
import type { BodyMemory } from '../bodies.ts';
import { toRefusal } from '../errors.ts';
import { drained, type OpenExchanges } from '../open-exchanges.ts';
import {
  GOING_AWAY,
  type OpenSocket,
  type OpenSockets,
  POLICY_VIOLATION,
  SERVICE_RESTART,
  type SocketLimits,
} from '../open-sockets.ts';
import type { RequestRecorder } from '../request-recorder.ts';
import { checkedJson } from '../server.ts';

interface ResponseSocketsOptions {
  readonly exchanges: OpenExchanges;
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly recorder: RequestRecorder;
  /** The dialect of `POST /v1/responses`, with the turns that a socket remembers. */
  readonly dialectOf: (memory: SocketMemory, generate: boolean, steers?: Steering) => ExchangeDialect;
  readonly run: (dialect: ExchangeDialect, request: ModelRequest, client: Client) => Promise<void>;
  /** Read for each message. */
  readonly bodyBounds: BodyBounds;
  readonly stallTimeoutMs: number;
  readonly sockets: OpenSockets;
  readonly limits: SocketLimits;
}

const connect = anyKey('connectResponses', 'Create responses over a WebSocket', {
  description: 'An upgrade to a WebSocket; see docs/websocket.md.',
  tag: 'responses',
  exposeHeadRoute: false,
  response: { 101: emptyAnswer('The connection is a WebSocket') },
  errors: [400, 426, 429, 503],
});

export function registerResponseSockets(app: Routes, options: ResponseSocketsOptions): void {
  app.get('/v1/responses', connect, (request, reply) =>
    options.sockets.accept(
      request,
      reply,
      (webSocket, connection) => new ResponseSocket(webSocket, connection, request, options, app.bodyMemory),
    ),
  );
}

/** Responses in flight on one socket. */
const MAX_STREAMS = 16;
/** Messages of one socket that are answered at the same time, the refused ones included; further ones wait unread. */
const MAX_ANSWERING = 2 * MAX_STREAMS;

interface HeldMessages {
  readonly client: MessageClient;
  readonly messages: string[];
  /** Until it resolves, no more is read of the provider. */
  readonly sent: PromiseWithResolvers<void>;
}

interface AnswerOptions {
  readonly given?: CreateMessage;
  /** The message of a refusal, instead of an error. */
  readonly refused?: (refusal: Refusal) => object | string;
  readonly steers?: Steering;
}

class ResponseSocket implements OpenSocket {
  readonly #webSocket: WebSocket;
  readonly #socket: Socket;
  readonly #request: FastifyRequest;
  readonly #options: ResponseSocketsOptions;
  readonly #bodyMemory: BodyMemory;
  /** The responses in flight, by their streams. */
  readonly #turns = new Map<string, MessageClient>();
  /** Those that begin after the one in flight, which their input steers. */
  readonly #steers = new Map<string, MessageClient>();
  /** Messages of these that wait for the last one of the response before. */
  readonly #held = new Map<string, HeldMessages>();
  /** The bodies of the requests for the responses in flight. */
  readonly #bodies = new WeakMap<MessageClient, Buffer>();
  readonly #openedAt = performance.now();
  #usedAt = this.#openedAt;
  #pingedAt = this.#openedAt;
  #isAlive = true;
  readonly #memory = new SocketMemory();
  #answering = 0;
  /** Messages that had arrived when too many were answered. No more are read, so they fit in one read of the connection. */
  readonly #waiting: (readonly [message: Buffer, isBinary: boolean])[] = [];
  /** While the client reads too slowly, no message of it is read. */
  #draining: Promise<void> | undefined;

  constructor(
    webSocket: WebSocket,
    socket: Socket,
    request: FastifyRequest,
    options: ResponseSocketsOptions,
    bodyMemory: BodyMemory,
  ) {
    this.#webSocket = webSocket;
    this.#socket = socket;
    this.#request = request;
    this.#options = options;
    this.#bodyMemory = bodyMemory;
    webSocket.on('message', (message: Buffer, isBinary) => this.#receive(message, isBinary));
    webSocket.on('pong', () => {
      this.#isAlive = true;
    });
    // 'close' follows.
    webSocket.on('error', () => {});
    webSocket.once('close', () => {
      this.#endTurns();
      this.#memory.close();
    });
  }

  /** Closes the socket when its key is not accepted any more, or a limit of its time is reached. */
  check(now: number): void {
    const { exchanges, limits } = this.#options;
    if (this.#webSocket.readyState !== this.#webSocket.OPEN) return;
    const refusal = this.#authenticate();
    if (refusal !== undefined && isFinal(refusal)) {
      this.#closeRefused(refusal);
      return;
    }
    if (now - this.#pingedAt >= limits.pingMs && !this.#ping(now)) return;
    if (this.#turns.size > 0) return;
    if (exchanges.isStopping) this.close(SERVICE_RESTART, 'the gateway is stopping');
    else if (this.#isTooOld(now)) {
      new MessageClient({ send: (message) => this.#send(message), over() {} }, '').refuse(this.#tooOld(), {});
      this.close(GOING_AWAY, 'websocket_connection_limit_reached');
    } else if (now - this.#usedAt >= limits.idleMs) this.close(GOING_AWAY, 'idle');
  }

  /** @returns false when the last ping was not answered: the connection is ended */
  #ping(now: number): boolean {
    // A client that reads slowly has its answers before the ping, and its own time limit.
    if (this.#draining !== undefined) return true;
    if (!this.#isAlive) {
      this.destroy();
      return false;
    }
    this.#isAlive = false;
    this.#pingedAt = now;
    this.#webSocket.ping();
    return true;
  }

  close(code: number, reason: string): void {
    this.#webSocket.close(code, reason);
  }

  destroy(): void {
    this.#webSocket.terminate();
  }

  #closeRefused({ code, status }: Refusal): void {
    this.#endTurns();
    this.close(POLICY_VIOLATION, code ?? String(status));
  }

  #endTurns(): void {
    for (const turn of [...this.#turns.values(), ...this.#steers.values()]) turn.endEarly('client_gone');
  }

  #isTooOld(now: number): boolean {
    return now - this.#openedAt >= this.#options.limits.maxAgeMs;
  }

  #tooOld(): Refusal {
    return refusals.socketTooOld(Math.round(this.#options.limits.maxAgeMs / 60_000));
  }

  /** The caller of the next request, by the state of its key now. @returns why there is none */
  #authenticate(): Refusal | undefined {
    const request = this.#request;
    request.caller = undefined;
    try {
      request.caller = this.#options.authenticator.authenticate(request);
      return undefined;
    } catch (error) {
      return toRefusal(error);
    }
  }

  #receive(message: Buffer, isBinary: boolean): void {
    if (this.#answering < MAX_ANSWERING) {
      this.#take(message, isBinary);
      return;
    }
    this.#waiting.push([message, isBinary]);
    this.#webSocket.pause();
  }

  #takeWaiting(): void {
    while (this.#answering < MAX_ANSWERING) {
      const next = this.#waiting.shift();
      if (next === undefined) {
        this.#resume();
        return;
      }
      this.#take(...next);
    }
  }

  #resume(): void {
    if (this.#draining === undefined && this.#waiting.length === 0) this.#webSocket.resume();
  }

  #take(message: Buffer, isBinary: boolean): void {
    this.#usedAt = performance.now();
    let read: ReturnType<typeof readSocketMessage>;
    try {
      if (isBinary) throw refusals.invalidRequest('Messages must be text.', null);
      read = readSocketMessage(checkedJson(this.#request, message, this.#options.bodyBounds));
      if (read.kind === 'cancel') {
        this.#turnToCancel(read.streamId, read.responseId).endEarly('cancelled');
        return;
      }
      if (read.kind === 'steer') {
        this.#steer(read, message);
        return;
      }
    } catch (error) {
      void this.#answer(streamIdIn(message), message, toRefusal(error));
      return;
    }
    void this.#answer(read.streamId, read.body, this.#whyNot(read), { given: read });
  }

  #whyNot({ streamId }: CreateMessage): Refusal | undefined {
    if (this.#isTooOld(performance.now())) return this.#tooOld();
    if (this.#turns.has(streamId)) return refusals.responseInFlight();
    return this.#turns.size >= MAX_STREAMS ? refusals.tooManyStreams(MAX_STREAMS) : undefined;
  }

  /** The input is a request for the response that its provider begins after the one that runs, with the settings of that one. */
  #steer({ previousId, input }: SteerMessage, message: Buffer): void {
    const steered = this.#turnOf(previousId);
    const body = steered && this.#bodies.get(steered);
    let pending: string | undefined;
    const steer = { previous_response_id: previousId, input };
    const failed = ({ code, message: why }: Refusal) =>
      pending ?? {
        ...{ type: 'response.steer.failed', sequence_number: 0, steer },
        error: { type: 'invalid_request_error', code, message: why },
      };
    if (steered === undefined || body === undefined) {
      void this.#answer('', message, refusals.notSteered(previousId), { refused: failed });
      return;
    }
    const { streamId } = steered;
    const refusal = this.#steers.has(streamId) ? refusals.tooManySteers() : undefined;
    const steers = {
      responseId: previousId,
      pending: (sent: string) => {
        pending = sent;
      },
    };
    const request = steeringBody(body, steer);
    void this.#answer(streamId, refusal === undefined ? request : message, refusal, { refused: failed, steers });
  }

  /** @throws Refusal 404 */
  #turnToCancel(streamId: string, responseId: string | undefined): MessageClient {
    const turn = this.#turns.get(streamId);
    if (turn !== undefined && (responseId === undefined || turn.responseId === responseId)) return turn;
    const named = responseId === undefined ? undefined : this.#turnOf(responseId);
    if (named === undefined) throw refusals.responseNotFound(responseId ?? '');
    return named;
  }

  #turnOf(responseId: string): MessageClient | undefined {
    return [...this.#turns.values()].find((one) => one.responseId === responseId);
  }

  /** One exchange, also of a message that is refused. Never rejects. */
  async #answer(
    streamId: string,
    body: Buffer,
    refusal: Refusal | undefined,
    { given, refused, steers }: AnswerOptions = {},
  ): Promise<void> {
    const { exchanges, recorder, run } = this.#options;
    const request = this.#request;
    const client = new MessageClient(
      {
        send: (message) => this.#sendOf(streamId, client, message),
        over: () => this.#turnOver(streamId, client),
      },
      streamId,
      refused,
    );
    if (refusal === undefined) {
      this.#bodies.set(client, body);
      const isNext = steers !== undefined && this.#turns.has(streamId);
      (isNext ? this.#steers : this.#turns).set(streamId, client);
      if (isNext) this.#held.set(streamId, { client, messages: [], sent: Promise.withResolvers() });
    }
    this.#answering += 1;
    const requestId = randomUUID();
    request.arrivedAt = performance.now();
    try {
      const notAccepted = this.#authenticate();
      if (notAccepted !== undefined) throw notAccepted;
      const release = this.#bodyMemory.take(body.length);
      try {
        await exchanges.runFor(client, () => {
          const modelRequest = exchanges.modelRequestOf(request);
          const { 'idempotency-key': _ofUpgrade, ...headers } = modelRequest.headers;
          if (given?.idempotencyKey !== undefined) headers['idempotency-key'] = given.idempotencyKey;
          return run(
            this.#dialectFor(refusal, given?.generate, steers),
            { ...modelRequest, requestId, headers, body },
            client,
          );
        });
      } finally {
        release();
      }
    } catch (error) {
      const why = toRefusal(error);
      if (request.caller !== undefined) await recorder.refused(request, why).catch(() => {});
      client.refuse(why, { 'x-request-id': requestId });
      if (isFinal(why)) this.#closeRefused(why);
    }
    client.close();
    this.#answering -= 1;
    // As OpenAI does it: after a failure the client repeats the whole input.
    const hasFailed = refusal === undefined && !client.hasSucceeded && client.ended.reason !== 'cancelled';
    if (hasFailed) this.#memory.remove(given?.previousId ?? '');
    // What the last exchange has remembered after the end of the socket.
    if (this.#webSocket.readyState === this.#webSocket.CLOSED) this.#memory.close();
    if (exchanges.isStopping && this.#turns.size === 0) this.close(SERVICE_RESTART, 'the gateway is stopping');
    if (this.#waiting.length > 0 || this.#webSocket.isPaused) this.#takeWaiting();
  }

  #turnOver(streamId: string, client: MessageClient): void {
    const next = this.#steers.get(streamId);
    const held = this.#held.get(streamId);
    if (next === client) {
      this.#steers.delete(streamId);
      // It was refused, and no response follows.
      if (held?.messages.length === 0) this.#held.delete(streamId);
      return;
    }
    if (this.#turns.get(streamId) !== client) return;
    this.#turns.delete(streamId);
    this.#steers.delete(streamId);
    if (next !== undefined) this.#turns.set(streamId, next);
    // After the last message of this response.
    if (held !== undefined) queueMicrotask(() => this.#release(streamId, held));
  }

  #release(streamId: string, { messages, sent }: HeldMessages): void {
    this.#held.delete(streamId);
    for (const message of messages) this.#send(message);
    sent.resolve();
  }

  /** A response may begin before the end of the one before is on disk, and so sent. */
  #sendOf(streamId: string, client: MessageClient, message: string): Promise<void> | undefined {
    const held = this.#held.get(streamId);
    if (held?.client !== client) return this.#send(message);
    held.messages.push(message);
    return held.sent.promise;
  }

  #dialectFor(refusal: Refusal | undefined, generate = true, steers?: Steering): ExchangeDialect {
    const dialect = this.#options.dialectOf(this.#memory, generate, steers);
    return refusal === undefined ? dialect : { ...dialect, take: async () => ({ ok: false, refusal }) };
  }

  #send(message: string): Promise<void> | undefined {
    if (this.#webSocket.readyState !== this.#webSocket.OPEN) return undefined;
    // One write for all messages of a read of the provider.
    if (this.#socket.writableCorked === 0) {
      this.#socket.cork();
      process.nextTick(() => this.#socket.uncork());
    }
    this.#webSocket.send(message);
    if (!this.#socket.writableNeedDrain) return undefined;
    if (this.#draining === undefined) {
      this.#webSocket.pause();
      this.#draining = drained(this.#socket, this.#options.stallTimeoutMs, () => {
        this.#draining = undefined;
        this.#resume();
      });
    }
    return this.#draining;
  }
}

/** Whether the key is not accepted: no later message can be. */
function isFinal({ status }: Refusal): boolean {
  return status === 401 || status === 403;
}
