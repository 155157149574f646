/**
 * WebSockets to a provider's `/v1/responses` (OpenAI: "WebSocket mode"; xAI and Azure have the same protocol). Each client
 * on a WebSocket has one of its own, over its turns. A turn is a call like one over HTTP: its first message decides its
 * status, and its messages are read as the events of a stream.
 */
import type { Dispatcher } from 'undici';
import type { WebSocket } from 'ws';
import { isObject } from '../json/is-object.ts';
import type { CloseWhen, ProviderCall, ProviderReply, ProviderTimeouts } from './provider.ts';
import { MAX_FRAME_BYTES } from './stream-frames.ts';
import { HEADERS_LIMIT, IDLE_LIMIT, type Transport } from './transport.ts';
import { cancelled, disconnected, tooLarge } from './transport-failure.ts';
import { filled, parsedObject, rewriteMembers } from './translate/json.ts';
import { UpstreamCall } from './upstream-call.ts';

interface UpstreamSocketsOptions {
  readonly provider: string;
  readonly transport: Transport;
  /** Of `/responses`, with the scheme `http` or `https`. */
  readonly url: string;
  readonly timeouts: ProviderTimeouts | undefined;
  readonly mayBegin: (() => boolean) | undefined;
}

/** What a connection is opened with. A call that needs other headers is sent over HTTP. */
interface Handshake {
  readonly credential: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** Of one client. */
interface Place {
  socket: UpstreamSocket | undefined;
  isOpening: boolean;
  /** A connection has ended: the next call is sent over HTTP. */
  isSkipped: boolean;
}

/** How long no connection is tried after one was refused. */
const AFTER_REFUSAL_MS = 60_000;
/** OpenAI and xAI end connections after an hour. */
const MAX_AGE_MS = 55 * 60_000;
/** Between two pings. A connection whose last ping was not answered is ended. */
const PING_MS = 30_000;
const NORMAL_CLOSURE = 1000;
/** How long a provider may take to close its side. */
const CLOSE_WITHIN_MS = 1_000;

/** Members of a body that messages do not have. */
const ofHttp = { stream: undefined, background: undefined, type: '"response.create"' };

export class UpstreamSockets {
  readonly #options: UpstreamSocketsOptions;
  readonly #places = new Map<AbortSignal, Place>();
  #refusedUntil = 0;
  #isClosed = false;
  #idle: (() => void) | undefined;

  constructor(options: UpstreamSocketsOptions) {
    this.#options = options;
  }

  /** The credential of the client's connection. */
  credentialOf(client: AbortSignal): number | undefined {
    return this.#free(client)?.handshake.credential;
  }

  remembers(client: AbortSignal, responseId: string): boolean {
    return this.#free(client)?.remembered === responseId;
  }

  /**
   * @returns undefined: the call has to be sent over HTTP, and nothing of it was sent
   * @throws ProviderFailure
   */
  async send(call: ProviderCall, client: AbortSignal, handshake: Handshake): Promise<ProviderReply | undefined> {
    const { provider } = this.#options;
    const { continues, signal } = call;
    let socket = this.#free(client);
    if (socket !== undefined && !isSame(socket.handshake, handshake)) socket = undefined;
    if (continues !== undefined) {
      if (socket?.remembered !== continues) throw disconnected(provider);
    } else {
      socket ??= await this.#opened(client, handshake, signal);
      if (signal.aborted) throw cancelled(provider);
    }
    if (socket?.isFree !== true) return undefined;
    const { buffer, byteOffset, byteLength } = call.body;
    return socket.call(rewriteMembers(Buffer.from(buffer, byteOffset, byteLength), ofHttp), signal);
  }

  /** Resolves when the connections are closed. */
  async close(when: CloseWhen): Promise<void> {
    this.#isClosed = true;
    for (const { socket } of this.#places.values()) {
      if (when === 'now') socket?.destroy();
      else socket?.closeWhenFree();
    }
    if (this.#openCount() === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#idle = resolve;
    await promise;
  }

  #openCount(): number {
    let open = 0;
    for (const { socket } of this.#places.values()) if (socket !== undefined) open += 1;
    return open;
  }

  /** The client's connection, when it has no call. One that is too old is closed. */
  #free(client: AbortSignal): UpstreamSocket | undefined {
    const place = this.#places.get(client);
    const socket = place?.socket;
    if (place === undefined || socket === undefined || !socket.isFree) return undefined;
    if (!socket.isTooOld) return socket;
    place.socket = undefined;
    socket.closeWhenFree();
    return undefined;
  }

  #placeOf(client: AbortSignal): Place {
    let place = this.#places.get(client);
    if (place === undefined) {
      place = { socket: undefined, isOpening: false, isSkipped: false };
      this.#places.set(client, place);
      client.addEventListener(
        'abort',
        () => {
          this.#places.get(client)?.socket?.closeWhenFree();
          this.#places.delete(client);
        },
        { once: true },
      );
    }
    return place;
  }

  async #opened(client: AbortSignal, handshake: Handshake, signal: AbortSignal): Promise<UpstreamSocket | undefined> {
    if (client.aborted || this.#isClosed || performance.now() < this.#refusedUntil) return undefined;
    const place = this.#placeOf(client);
    if (place.isOpening || place.socket !== undefined) return undefined;
    if (place.isSkipped) {
      place.isSkipped = false;
      return undefined;
    }
    place.isOpening = true;
    const connecting = this.#connected(handshake);
    const webSocket = await Promise.race([connecting, whenAborted(signal)]);
    place.isOpening = false;
    if (webSocket === undefined) {
      if (signal.aborted) void connecting.then((late) => late?.terminate());
      else this.#refusedUntil = performance.now() + AFTER_REFUSAL_MS;
      return undefined;
    }
    const { provider, timeouts, mayBegin, transport } = this.#options;
    const socket = new UpstreamSocket(webSocket, handshake, {
      ...{ provider, mayBegin, isProxied: transport.proxyUrl !== 'none' },
      ...{ headers: timeouts?.headers ?? HEADERS_LIMIT, idle: timeouts?.idle ?? IDLE_LIMIT },
      over: (byProvider) => {
        // Another may have taken its place.
        if (place.socket === socket) {
          place.socket = undefined;
          place.isSkipped = byProvider;
        }
        if (this.#openCount() === 0) this.#idle?.();
      },
    });
    if (client.aborted || this.#isClosed) {
      socket.destroy();
      return undefined;
    }
    place.socket = socket;
    return socket;
  }

  /** Undefined when there is no connection: the call over HTTP shows why. */
  async #connected({ headers }: Handshake): Promise<WebSocket | undefined> {
    const { transport, url, timeouts } = this.#options;
    try {
      const [{ WebSocket }, socket] = await Promise.all([import('ws'), transport.open()]);
      const webSocket = new WebSocket(url.replace(/^http/, 'ws'), {
        createConnection: () => socket,
        headers,
        perMessageDeflate: false,
        maxPayload: MAX_FRAME_BYTES,
        handshakeTimeout: timeouts?.connectMs ?? 10_000,
      });
      await new Promise<void>((resolve, reject) => {
        webSocket.once('open', resolve);
        webSocket.on('error', reject);
      });
      return webSocket;
    } catch {
      return undefined;
    }
  }
}

function whenAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}

function isSame(one: Handshake, other: Handshake): boolean {
  return one.credential === other.credential && JSON.stringify(one.headers) === JSON.stringify(other.headers);
}

interface UpstreamSocketOptions
  extends Pick<ConstructorParameters<typeof UpstreamCall>[0], 'provider' | 'mayBegin' | 'isProxied' | 'headers' | 'idle'> {
  /** Called once, when the connection has ended. */
  readonly over: (byProvider: boolean) => void;
}

/** The call that a connection has. */
interface Turn {
  readonly call: UpstreamCall;
  readonly controller: Dispatcher.DispatchController;
  /** Since the first message. */
  idle: NodeJS.Timeout | undefined;
  responseId: string | undefined;
}

const EVENT_STREAM = { 'content-type': 'text/event-stream' };
const FRAME_END = Buffer.from('\n\n');
const ENDS: ReadonlySet<string> = new Set(['response.completed', 'response.incomplete', 'response.failed', 'error']);
const TYPE = /^\s*{\s*"type"\s*:\s*"([\w.]+)"/;
const RESPONSE_ID = /"response"\s*:\s*{\s*"id"\s*:\s*"([^"\\]+)"/;
/** In which the type and the id are looked for. */
const HEAD_BYTES = 256;

class UpstreamSocket {
  readonly handshake: Handshake;
  /** The response that the provider can continue from its memory, which has the last one only. */
  remembered: string | undefined;
  readonly #webSocket: WebSocket;
  readonly #options: UpstreamSocketOptions;
  readonly #openedAt = performance.now();
  readonly #pings: NodeJS.Timeout;
  #turn: Turn | undefined;
  #isAlive = true;
  #isClosing = false;
  #error: unknown;

  constructor(webSocket: WebSocket, handshake: Handshake, options: UpstreamSocketOptions) {
    this.#webSocket = webSocket;
    this.handshake = handshake;
    this.#options = options;
    this.#pings = setInterval(() => this.#ping(), PING_MS).unref();
    webSocket.on('message', (message: Buffer, isBinary) => this.#receive(message, isBinary));
    webSocket.on('pong', () => {
      this.#isAlive = true;
    });
    webSocket.on('error', (error) => {
      this.#error = error;
    });
    webSocket.once('close', () => this.#over());
  }

  get isFree(): boolean {
    return this.#turn === undefined && !this.#isClosing && this.#webSocket.readyState === this.#webSocket.OPEN;
  }

  get isTooOld(): boolean {
    return performance.now() - this.#openedAt >= MAX_AGE_MS;
  }

  closeWhenFree(): void {
    this.#isClosing = true;
    if (this.#turn !== undefined) return;
    this.#webSocket.close(NORMAL_CLOSURE);
    setTimeout(() => this.#webSocket.terminate(), CLOSE_WITHIN_MS).unref();
  }

  destroy(): void {
    this.#isClosing = true;
    this.#webSocket.terminate();
  }

  /** @throws ProviderFailure */
  call(message: Buffer, signal: AbortSignal): Promise<ProviderReply> {
    return new Promise((resolve, reject) => {
      const call = new UpstreamCall({ ...this.#options, signal, bodiless: false }, resolve, reject);
      let isSent = false;
      let isAborted = false;
      const controller: Dispatcher.DispatchController = {
        get aborted() {
          return isAborted;
        },
        get paused() {
          return false;
        },
        reason: null,
        abort: (reason) => {
          isAborted = true;
          if (!isSent) call.onResponseError(null, reason);
          // The provider has no message that ends a response.
          else if (this.#turn?.call === call) this.destroy();
        },
        pause: () => this.#webSocket.pause(),
        resume: () => this.#webSocket.resume(),
      };
      call.onRequestStart(controller);
      if (isAborted || signal.aborted) return;
      isSent = true;
      this.remembered = undefined;
      this.#turn = { call, controller, idle: undefined, responseId: undefined };
      this.#webSocket.send(message, { binary: false });
    });
  }

  #receive(message: Buffer, isBinary: boolean): void {
    this.#isAlive = true;
    const turn = this.#turn;
    // Between turns a provider announces the end of the connection.
    if (turn === undefined) return;
    if (isBinary) {
      this.#webSocket.terminate();
      return;
    }
    const head = message.toString('latin1', 0, HEAD_BYTES);
    const type = TYPE.exec(head)?.[1] ?? typeIn(message);
    const { call, controller } = turn;
    if (turn.idle === undefined) {
      if (type === 'error') {
        this.#refused(message, turn);
        return;
      }
      turn.idle = setTimeout(() => this.#expire(turn), this.#options.idle.ms);
      call.onResponseStart(controller, 200, EVENT_STREAM);
    } else turn.idle.refresh();
    if (type === 'response.created') turn.responseId = RESPONSE_ID.exec(head)?.[1];
    call.onResponseData(controller, eventOf(type, message));
    if (type === undefined || !ENDS.has(type)) return;
    if (type === 'response.completed' || type === 'response.incomplete') this.remembered = turn.responseId;
    this.#ended();
    call.onResponseEnd();
  }

  /** The first message is an error: the answer is that of HTTP with its status. */
  #refused(message: Buffer, { call, controller }: Turn): void {
    const given = parsedObject(message.toString()) ?? {};
    const error = isObject(given['error']) ? given['error'] : given;
    this.#ended();
    if (error['code'] === 'websocket_connection_limit_reached') {
      call.fail(disconnected(this.#options.provider));
      this.closeWhenFree();
      return;
    }
    const { status } = given;
    const isStatus = typeof status === 'number' && Number.isInteger(status) && status >= 400 && status <= 599;
    const { type: _type, ...members } = error;
    const body = error === given ? Buffer.from(JSON.stringify({ error: members })) : message;
    const headers = { ...headersIn(given['headers']), 'content-type': 'application/json' };
    call.onResponseStart(controller, isStatus ? status : 500, headers);
    call.onResponseData(controller, body);
    call.onResponseEnd();
  }

  #ended(): void {
    clearTimeout(this.#turn?.idle);
    this.#turn = undefined;
    if (this.#webSocket.isPaused) this.#webSocket.resume();
    if (this.#isClosing) this.closeWhenFree();
  }

  #over(): void {
    clearInterval(this.#pings);
    const turn = this.#turn;
    this.#turn = undefined;
    if (turn !== undefined) {
      clearTimeout(turn.idle);
      const { provider } = this.#options;
      const cause = this.#error;
      if (isTooLong(cause)) turn.call.fail(tooLarge(provider, MAX_FRAME_BYTES));
      else if (turn.idle === undefined) turn.call.fail(disconnected(provider));
      else turn.call.onResponseError(null, Object.assign(new Error('closed', { cause }), { code: 'UND_ERR_SOCKET' }));
    }
    this.#options.over(!this.#isClosing);
  }

  #expire(turn: Turn): void {
    // The reader of the answer waits, not the provider.
    if (this.#webSocket.isPaused) {
      turn.idle?.refresh();
      return;
    }
    turn.call.onResponseError(null, Object.assign(new Error('idle'), { code: 'UND_ERR_BODY_TIMEOUT' }));
  }

  #ping(): void {
    // While it is paused no answer is read.
    if (this.#webSocket.isPaused || this.#webSocket.readyState !== this.#webSocket.OPEN) return;
    if (!this.#isAlive) {
      this.#webSocket.terminate();
      return;
    }
    this.#isAlive = false;
    this.#webSocket.ping();
  }
}

function typeIn(message: Buffer): string | undefined {
  const type = filled(parsedObject(message.toString())?.['type']);
  return type !== undefined && /^[\w.]+$/.test(type) ? type : undefined;
}

/** A server-sent event of the message. Line ends are between its members only. */
function eventOf(type: string | undefined, message: Buffer): Buffer {
  const text = message.includes('\n') || message.includes('\r') ? oneLine(message) : message;
  const start = type === undefined ? 'data: ' : `event: ${type}\ndata: `;
  return Buffer.concat([Buffer.from(start), text, FRAME_END]);
}

function oneLine(message: Buffer): Buffer {
  return Buffer.from(message.toString('latin1').replace(/[\r\n]+/g, ' '), 'latin1');
}

function headersIn(given: unknown): Record<string, string> {
  if (!isObject(given)) return {};
  const texts = Object.entries(given).filter(([, value]) => typeof value === 'string' || typeof value === 'number');
  return Object.fromEntries(texts.map(([name, value]) => [name.toLowerCase(), String(value)]));
}

/** Of `ws`. */
function isTooLong(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH';
}
