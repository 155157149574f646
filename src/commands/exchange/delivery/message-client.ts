/** The client of an exchange on a connection with several streams: each event of the answer is one message. */
import { parseExactly } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import { createFrameSplitter, type Frame } from '../../../providers/stream-frames.ts';
import { rewriteMembers } from '../../../providers/translate/json.ts';
import type { Client, EndReason } from '../../model-request/model-request.ts';
import { earlyEnd } from '../../model-request/upstream-refusals.ts';
import type { Refusal } from '../../refusal.ts';

/** Nothing follows these events of a response. */
const TERMINAL: ReadonlySet<unknown> = new Set(['response.completed', 'response.incomplete', 'response.failed']);

/** As a name, also one with escaped letters. */
const MAY_HAVE_STREAM = /"stream_id"|\\u00[5-7]/;

export interface MessageConnection {
  /** @returns as `Client.write` */
  send(message: string): Promise<void> | undefined;
  /** Called once, before the last message is sent: the stream is free for the next response. */
  over(): void;
}

export class MessageClient implements Client {
  readonly #connection: MessageConnection;
  readonly streamId: string;
  readonly #refused: ((refusal: Refusal) => object | string) | undefined;
  readonly #controller = new AbortController();
  readonly ended = this.#controller.signal;
  readonly #splitter = createFrameSplitter();
  /** The `error` event before `response.failed`, which says the same; it is sent where no such event follows. */
  #error: string | undefined;
  #isOver = false;
  /** Whether the response ended with its answer, whole or cut at a limit. */
  hasSucceeded = false;
  begun = false;
  /** The connection has a sign of life of its own. */
  readonly isKeptOpen = false;
  /** Of the response, once it was sent. */
  responseId: string | undefined;

  /**
   * @param streamId added to each message; empty: none
   * @param refused the message of a refusal, or its text, instead of an error
   */
  constructor(connection: MessageConnection, streamId: string, refused?: (refusal: Refusal) => object | string) {
    this.#connection = connection;
    this.streamId = streamId;
    this.#refused = refused;
  }

  endEarly(reason: EndReason): void {
    if (!this.ended.aborted) this.#controller.abort(reason);
  }

  answer(status: number, headers: Record<string, string>, body: Uint8Array): void {
    const answer: unknown = parseExactly(Buffer.from(body).toString());
    const members = isObject(answer) ? answer : {};
    const message =
      status >= 400
        ? { type: 'error', status: statusOf(members.error, status), error: members.error, headers }
        : { type: `response.${members.status}`, sequence_number: 0, response: answer };
    this.hasSucceeded = status < 400 && members.status !== 'failed';
    this.#last(JSON.stringify(message));
  }

  refuse(refusal: Refusal, headers: Record<string, string>): void {
    const { status, retryAfterSeconds: seconds } = refusal;
    const sent = seconds === undefined ? headers : { ...headers, 'retry-after': String(Math.ceil(seconds)) };
    const error = { type: 'error', status: statusOf(refusal, status), ...refusal.envelope(), headers: sent };
    const message = this.#refused?.(refusal) ?? error;
    this.#last(typeof message === 'string' ? message : JSON.stringify(message));
  }

  keepOpen(): void {}

  begin(): void {
    this.begun = true;
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    let drained: Promise<void> | undefined;
    for (const frame of this.#splitter.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))) {
      drained = this.#event(frame) ?? drained;
    }
    return drained;
  }

  end(): void {
    const last = this.#splitter.end();
    if (last !== undefined) this.#event(last);
    if (this.#error !== undefined) this.#last(`{"status":500,${this.#error.slice(this.#error.indexOf('{') + 1)}`);
  }

  /** Called when the exchange has ended: an answer without an end gets one. */
  close(): void {
    if (this.#isOver) return;
    this.end();
    this.refuse(earlyEnd(this.ended.reason ?? 'gateway_stopping').refusal, {});
  }

  #event({ data, event }: Frame): Promise<void> | undefined {
    if (data === undefined || data.trim() === '' || data === '[DONE]') return undefined;
    const type = event ?? memberOf(data, 'type');
    if (type === 'error') {
      this.#error = data;
      return undefined;
    }
    if (TERMINAL.has(type)) {
      this.hasSucceeded = type !== 'response.failed';
      this.#last(data);
      return undefined;
    }
    if (this.responseId === undefined) {
      const response = memberOf(data, 'response');
      if (isObject(response) && typeof response.id === 'string') this.responseId = response.id;
    }
    return this.#connection.send(this.#inStream(data));
  }

  #last(message: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#connection.over();
    this.#connection.send(this.#inStream(message));
  }

  #inStream(message: string): string {
    // A provider has streams of its own.
    if (MAY_HAVE_STREAM.test(message) && isObject(parsed(message))) {
      const streamId = this.streamId === '' ? undefined : JSON.stringify(this.streamId);
      return rewriteMembers(Buffer.from(message), { stream_id: streamId }).toString();
    }
    if (this.streamId === '') return message;
    return `{"stream_id":${JSON.stringify(this.streamId)},${message.slice(message.indexOf('{') + 1)}`;
  }
}

/** On a WebSocket OpenAI has another status for a turn that cannot be continued than the gateway has over HTTP. */
function statusOf(error: unknown, status: number): number {
  return isObject(error) && error.code === 'previous_response_not_found' ? 400 : status;
}

function memberOf(data: string, name: string): unknown {
  const event = parsed(data);
  return isObject(event) ? event[name] : undefined;
}

function parsed(data: string): unknown {
  try {
    return parseExactly(data);
  } catch {
    return undefined;
  }
}
