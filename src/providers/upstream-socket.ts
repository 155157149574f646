/**
 * One WebSocket to a provider's `/v1/responses`. A turn is a call like one over HTTP: its first message decides its status,
 * and its messages are read as the events of a stream.
 */
import type { Dispatcher } from 'undici';
import type { WebSocket } from 'ws';
import { isObject } from '../json/is-object.ts';
import type { ProviderReply } from './provider.ts';
import { MAX_FRAME_BYTES } from './stream-frames.ts';
import { filled, parsedObject } from './translate/json.ts';
import { disconnected, tooLarge } from './transport-failure.ts';
import { UpstreamCall } from './upstream-call.ts';

/** What a connection is opened with. A call that needs other headers is sent over HTTP. */
export interface Handshake {
  readonly credential: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** OpenAI and xAI end connections after an hour. */
const MAX_AGE_MS = 55 * 60_000;
/** A turn begins with a ping after so long without a sign of life, and not on a connection whose ping has had no answer for so long. */
const SILENCE_MS = 1_000;
const NORMAL_CLOSURE = 1000;
/** How long a provider may take to close its side. */
const CLOSE_WITHIN_MS = 1_000;

interface UpstreamSocketOptions
  extends Pick<
    ConstructorParameters<typeof UpstreamCall>[0],
    'provider' | 'mayBegin' | 'isProxied' | 'headers' | 'idle'
  > {
  /** Between two pings. A connection whose last ping was not answered is ended. */
  readonly pingMs: number;
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
  /** Of a call that steers: called with the message that its input waits for results of tools. */
  readonly pending: ((message: string) => void) | undefined;
  isAborted: boolean;
}

const EVENT_STREAM = { 'content-type': 'text/event-stream' };
const FRAME_END = Buffer.from('\n\n');
const ENDS: ReadonlySet<string> = new Set(['response.completed', 'response.incomplete', 'response.failed', 'error']);
const TYPE = /^\s*{\s*"type"\s*:\s*"([\w.]+)"/;
const RESPONSE_ID = /"response"\s*:\s*{\s*"id"\s*:\s*"([^"\\]+)"/;
/** In which the type and the id are looked for. */
const HEAD_BYTES = 256;

export class UpstreamSocket {
  readonly handshake: Handshake;
  /** The response that the provider can continue from its memory, which has the last one only. */
  remembered: string | undefined;
  readonly #webSocket: WebSocket;
  readonly #options: UpstreamSocketOptions;
  readonly #openedAt = performance.now();
  readonly #pings: NodeJS.Timeout;
  #turn: Turn | undefined;
  /** A call that steers: the provider begins its response after that of the turn. */
  #next: Turn | undefined;
  /** Whether the last ping was answered. */
  #isAlive = true;
  #aliveAt = this.#openedAt;
  #pingedAt = this.#openedAt;
  #isClosing = false;
  #error: unknown;

  constructor(webSocket: WebSocket, handshake: Handshake, options: UpstreamSocketOptions) {
    this.#webSocket = webSocket;
    this.handshake = handshake;
    this.#options = options;
    this.#pings = setInterval(() => this.#ping(), options.pingMs).unref();
    webSocket.on('message', (message: Buffer, isBinary) => this.#receive(message, isBinary));
    webSocket.on('pong', () => this.#lives());
    webSocket.on('error', (error) => {
      this.#error = error;
      webSocket.terminate();
    });
    webSocket.once('close', () => this.#over());
  }

  get isFree(): boolean {
    return this.#turn === undefined && !this.#isClosing && this.#webSocket.readyState === this.#webSocket.OPEN;
  }

  /** It was ended here, and no call waits for it. */
  get isEnding(): boolean {
    return this.#isClosing;
  }

  /** Its last ping has had no answer for longer than one takes. */
  get isSilent(): boolean {
    return !this.#isAlive && performance.now() - this.#pingedAt >= SILENCE_MS;
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
    return this.#send(message, signal, undefined, (turn) => {
      this.remembered = undefined;
      this.#turn = turn;
      if (performance.now() - this.#aliveAt < SILENCE_MS) return;
      // The answer may take long, and the connection be lost: the pong shows it.
      if (this.#isAlive) this.#ping();
      this.#pings.refresh();
    });
  }

  canSteer(responseId: string): boolean {
    return this.#turn?.responseId === responseId && this.#next === undefined;
  }

  /** The answer is the response that the provider begins by itself, with the input, after the one that it generates. */
  steer(message: Buffer, signal: AbortSignal, pending: (message: string) => void): Promise<ProviderReply> {
    return this.#send(message, signal, pending, (turn) => {
      this.#next = turn;
    });
  }

  #send(
    message: Buffer,
    signal: AbortSignal,
    pending: Turn['pending'],
    begin: (turn: Turn) => void,
  ): Promise<ProviderReply> {
    return new Promise((resolve, reject) => {
      const call = new UpstreamCall({ ...this.#options, signal, bodiless: false }, resolve, reject);
      let isSent = false;
      const controller: Dispatcher.DispatchController = {
        get aborted() {
          return turn.isAborted;
        },
        get paused() {
          return false;
        },
        reason: null,
        abort: (reason) => {
          turn.isAborted = true;
          if (!isSent) call.onResponseError(null, reason);
          // The provider has no message that ends a response.
          else if (this.#turn?.call === call) this.destroy();
        },
        pause: () => this.#webSocket.pause(),
        resume: () => {
          // The pong may be among what was not read.
          this.#lives();
          this.#webSocket.resume();
        },
      };
      const turn: Turn = { call, controller, pending, idle: undefined, responseId: undefined, isAborted: false };
      call.onRequestStart(controller);
      if (turn.isAborted || signal.aborted) return;
      isSent = true;
      begin(turn);
      this.#webSocket.send(message, { binary: false });
    });
  }

  #receive(message: Buffer, isBinary: boolean): void {
    this.#lives();
    const turn = this.#turn;
    // Between turns a provider announces the end of the connection.
    if (turn === undefined) return;
    if (isBinary) {
      this.#webSocket.terminate();
      return;
    }
    const head = message.toString('latin1', 0, HEAD_BYTES);
    const type = TYPE.exec(head)?.[1] ?? typeIn(message);
    if (type?.startsWith('response.steer.') && this.#steered(type, message)) return;
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

  /** @returns whether the message is about the call that steers, and no event of the response */
  #steered(type: string, message: Buffer): boolean {
    const isWaiting = this.#next !== undefined;
    const steering = this.#next ?? this.#turn;
    if (steering?.pending === undefined || steering.idle !== undefined) return false;
    // It is an event of the response that is steered, while that one is generated.
    if (type === 'response.steer.accepted') return !isWaiting;
    if (type === 'response.steer.pending') steering.pending(message.toString());
    if (isWaiting) this.#next = undefined;
    else this.#ended();
    const given = parsedObject(message.toString())?.['error'];
    const { code, message: why } = isObject(given) ? given : {};
    const error = { code: code ?? 'steering_pending', message: why ?? 'The input waits for results of tools.' };
    answer(steering, 400, {}, Buffer.from(JSON.stringify({ error })));
    return true;
  }

  /** The first message is an error: the answer is that of HTTP with its status. */
  #refused(message: Buffer, turn: Turn): void {
    const given = parsedObject(message.toString()) ?? {};
    const error = isObject(given['error']) ? given['error'] : given;
    this.#ended();
    if (error['code'] === 'websocket_connection_limit_reached') {
      turn.call.fail(disconnected(this.#options.provider));
      this.closeWhenFree();
      return;
    }
    const { status } = given;
    const isStatus = typeof status === 'number' && Number.isInteger(status) && status >= 400 && status <= 599;
    const { type: _type, ...members } = error;
    const body = error === given ? Buffer.from(JSON.stringify({ error: members })) : message;
    answer(turn, isStatus ? status : 500, headersIn(given['headers']), body);
  }

  #ended(): void {
    clearTimeout(this.#turn?.idle);
    this.#turn = this.#next;
    this.#next = undefined;
    if (this.#turn !== undefined) {
      this.remembered = undefined;
      // The provider generates it whether or not it is wanted.
      if (this.#turn.isAborted) this.destroy();
    }
    if (this.#webSocket.isPaused) this.#webSocket.resume();
    if (this.#isClosing) this.closeWhenFree();
  }

  #over(): void {
    clearInterval(this.#pings);
    const { provider } = this.#options;
    const turns = [this.#turn, this.#next];
    this.#turn = undefined;
    this.#next = undefined;
    for (const turn of turns) {
      if (turn === undefined) continue;
      clearTimeout(turn.idle);
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

  #lives(): void {
    this.#isAlive = true;
    this.#aliveAt = performance.now();
  }

  #ping(): void {
    // While it is paused no answer is read.
    if (this.#webSocket.isPaused || this.#webSocket.readyState !== this.#webSocket.OPEN) return;
    if (!this.#isAlive) {
      this.#webSocket.terminate();
      return;
    }
    this.#isAlive = false;
    this.#pingedAt = performance.now();
    this.#webSocket.ping();
  }
}

function answer({ call, controller }: Turn, status: number, headers: Record<string, string>, body: Buffer): void {
  call.onResponseStart(controller, status, { ...headers, 'content-type': 'application/json' });
  call.onResponseData(controller, body);
  call.onResponseEnd();
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
