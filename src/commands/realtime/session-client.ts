/** The client of a realtime session: an exchange whose answer is a connection in both directions. */
import { randomUUID } from 'node:crypto';
import type { MessageListener, MessageSocket } from '../../network/message-socket.ts';
import type { Client, EndReason } from '../model-request/model-request.ts';
import type { Target } from '../model-request/routing-types.ts';
import type { Refusal } from '../refusal.ts';

/** What runs between the client and its provider. */
export interface Session extends MessageListener {
  /** Ends the session with an error. */
  interrupt(refusal: Refusal): void;
  /** The session ends without waiting for what is to be passed on. */
  cut(): void;
  readonly isResponding: boolean;
  readonly target: Target;
  /** Models of transcriptions that the client has requested and the session uses. */
  readonly transcriptionModels: readonly string[];
  /** Why the session cannot go on: its provider is silent within a response. @param now value of `performance.now()` */
  silence(now: number): Refusal | undefined;
  /** @returns false when the provider did not answer the last ping */
  ping(): boolean;
}

/** Messages that arrive before the provider is connected, beyond which no more are read. */
const MAX_HELD_BYTES = 1024 * 1024;

// RFC 6455 §7.4.1, and the registry of close codes.
const NORMAL = 1000;
const GOING_AWAY = 1001;
const POLICY_VIOLATION = 1008;
const INTERNAL_ERROR = 1011;
const SERVICE_RESTART = 1012;

const ENDS_OF_TIME: ReadonlySet<string> = new Set(['websocket_connection_limit_reached', 'session_idle']);

export class SessionClient implements Client {
  readonly socket: MessageSocket;
  readonly #controller = new AbortController();
  readonly ended = this.#controller.signal;
  readonly sendsErrors: boolean;
  begun = false;
  readonly isKeptOpen = false;
  /** Value of `performance.now()` at the last message in either direction. */
  usedAt = performance.now();
  #held: (readonly [message: Buffer, isBinary: boolean])[] = [];
  #heldBytes = 0;
  #session: Session | undefined;
  #end: { readonly code: number; readonly reason: string } = { code: NORMAL, reason: '' };

  /** @param sendsErrors whether its protocol has OpenAI's `error` event; elsewhere the reason of the close is the error */
  constructor(socket: MessageSocket, sendsErrors: boolean) {
    this.socket = socket;
    this.sendsErrors = sendsErrors;
    socket.listen({
      message: (message, isBinary) => {
        this.usedAt = performance.now();
        if (this.#session === undefined) this.#hold(message, isBinary);
        else this.#session.message(message, isBinary);
      },
      closed: (code, reason) => {
        if (this.#session === undefined) this.endEarly('client_gone');
        else this.#session.closed(code, reason);
      },
    });
  }

  #hold(message: Buffer, isBinary: boolean): void {
    this.#held.push([message, isBinary]);
    this.#heldBytes += message.length;
    if (this.#heldBytes > MAX_HELD_BYTES) this.socket.pause();
  }

  /** Undefined until the provider is connected. */
  get session(): Session | undefined {
    return this.#session;
  }

  /** The provider is connected: the session gets all messages. */
  connected(session: Session): void {
    this.begun = true;
    this.#session = session;
    const held = this.#held;
    this.#held = [];
    this.socket.resume();
    for (const [message, isBinary] of held) session.message(message, isBinary);
    if (this.ended.aborted) session.cut();
  }

  /** How the socket is closed when the end of the session is on record. */
  endsWith(code: number, reason: string): void {
    this.#end = { code, reason };
  }

  endEarly(reason: EndReason): void {
    if (this.ended.aborted) return;
    this.#controller.abort(reason);
    this.#session?.cut();
  }

  /**
   * @param headers the ids of the request and of the exchange, where the session ends
   * @param eventId of the client's message that is refused
   * @returns as `MessageSocket.send`
   */
  sendError(refusal: Refusal, headers: Record<string, string>, eventId: unknown = null): Promise<void> | undefined {
    if (!this.sendsErrors) return undefined;
    const { error } = refusal.envelope();
    const { status } = refusal;
    const ids = { type: 'error', event_id: `event_${randomUUID()}` };
    const event = { ...ids, status, error: { ...error, event_id: eventId }, headers };
    return this.socket.send(Buffer.from(JSON.stringify(event)), false);
  }

  refuse(refusal: Refusal, headers: Record<string, string>): void {
    const { status, code, message } = refusal;
    this.sendError(refusal, headers);
    this.socket.close(this.#codeFor(refusal), this.sendsErrors ? (code ?? String(status)) : message);
  }

  #codeFor({ status, code }: Refusal): number {
    if (this.ended.reason === 'gateway_stopping' || status === 503) return SERVICE_RESTART;
    if (code !== null && ENDS_OF_TIME.has(code)) return GOING_AWAY;
    return status < 500 ? POLICY_VIOLATION : INTERNAL_ERROR;
  }

  begin(): void {
    this.begun = true;
  }

  end(): void {
    this.socket.close(this.#end.code, this.#end.reason);
  }

  answer(): void {
    throw new Error('the answer of a session is no single message');
  }

  keepOpen(): void {}

  write(): undefined {}
}
