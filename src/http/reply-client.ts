/** The exchange's client on a hijacked Node response, without further layers between exchange and socket. */
import type { ServerResponse } from 'node:http';
import { isEventStream } from '../commands/model-request/answer-body.ts';
import type { Client, EndReason, StreamKeptOpen } from '../commands/model-request/model-request.ts';
import type { Refusal } from '../commands/refusal.ts';
import type { ClientErrorFormat } from './client-error-format.ts';
import { isStillSending, refusalHeaders } from './errors.ts';
import { withOwnVary } from './vary.ts';

const EVENT_STREAM_HEADERS = { 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' };

const ONE_WRITE_BYTES = 8 * 1024;

export class ReplyClient implements Client {
  readonly #response: ServerResponse;
  readonly #controller = new AbortController();
  readonly #stallTimeoutMs: number;
  readonly #format: ClientErrorFormat;
  #begun = false;
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

  get ended(): AbortSignal {
    return this.#controller.signal;
  }

  get begun(): boolean {
    return this.#begun;
  }

  get isKeptOpen(): boolean {
    return this.#keptOpen !== undefined;
  }

  /** Calls back once, when the operating system has accepted all bytes, or the connection is closed. */
  whenSent(sent: () => void): void {
    const response = this.#response;
    if (response.writableFinished || response.destroyed) sent();
    else response.once('close', sent);
  }

  endEarly(reason: EndReason): void {
    if (!this.#controller.signal.aborted) this.#controller.abort(reason);
  }

  answer(status: number, headers: Record<string, string>, body: Uint8Array): void {
    if (this.#keptOpen !== undefined) throw new Error('a whole answer cannot follow the head of an event stream');
    this.#begun = true;
    this.#response.writeHead(status, { ...this.#headers(headers), 'content-length': body.length });
    // One string is sent with the head in a single write; longer bodies are not worth the copy.
    if (body.length > ONE_WRITE_BYTES) this.#response.end(body);
    else this.#response.end(Buffer.from(body.buffer, body.byteOffset, body.length).toString('latin1'), 'latin1');
  }

  refuse(refusal: Refusal, headers: Record<string, string>): void {
    if (this.#begun || this.#keptOpen !== undefined) {
      const last = this.#begun ? undefined : this.#keptOpen?.failure(refusal);
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
    if (this.#keptOpen === undefined) {
      this.#writeHead(200, stream.headers);
      this.#keptOpen = stream;
    }
    if (!this.#response.destroyed) this.#response.write(comments);
  }

  begin(status: number, headers: Record<string, string>): void {
    this.#begun = true;
    if (this.#keptOpen === undefined) this.#writeHead(status, headers);
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
    return withOwnVary(this.#format.headers(given), this.#response.getHeader('vary'));
  }

  /** All that wait share one timer and one pair of listeners. */
  #drained(): Promise<void> {
    const response = this.#response;
    this.#draining ??= new Promise((resolve) => {
      const stalled = setTimeout(() => response.destroy(), this.#stallTimeoutMs);
      const done = () => {
        this.#draining = undefined;
        clearTimeout(stalled);
        response.off('drain', done);
        response.off('close', done);
        resolve();
      };
      response.on('drain', done);
      response.on('close', done);
    });
    return this.#draining;
  }
}
