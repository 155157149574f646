/** A stream of messages to a client of MCP: server-sent events, each a JSON-RPC message. */
import type { ServerResponse } from 'node:http';
import type { ClientStream } from '../../mcp/client-session.ts';
import type { JsonRpcMessage } from '../../mcp/json-rpc.ts';
import { drained } from '../open-exchanges.ts';

/** A client that has not read so much gets no more: its connection is closed. */
const MAX_UNSENT_BYTES = 8 * 1024 * 1024;
const HEARTBEAT_MS = 25_000;

const HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
};

export class MessageStream implements ClientStream {
  readonly #response: ServerResponse;
  readonly #stallTimeoutMs: number;
  readonly #heartbeat: NodeJS.Timeout;
  #isDraining = false;

  /** Sends the head of the response. */
  constructor(response: ServerResponse, headers: Record<string, string>, stallTimeoutMs: number) {
    this.#response = response;
    this.#stallTimeoutMs = stallTimeoutMs;
    // 'close' follows.
    response.on('error', () => {});
    response.once('close', () => clearInterval(this.#heartbeat));
    response.writeHead(200, { ...headers, ...HEADERS });
    response.flushHeaders();
    this.#heartbeat = setInterval(() => this.#write(':\n\n'), HEARTBEAT_MS).unref();
  }

  get isOpen(): boolean {
    return !this.#response.destroyed && !this.#response.writableEnded;
  }

  send(message: JsonRpcMessage): boolean {
    return this.#write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
  }

  end(): void {
    clearInterval(this.#heartbeat);
    this.#response.end();
  }

  #write(text: string): boolean {
    if (!this.isOpen) return false;
    if (this.#response.writableLength > MAX_UNSENT_BYTES) {
      this.#response.destroy();
      return false;
    }
    if (!this.#response.write(text) && !this.#isDraining) {
      this.#isDraining = true;
      void drained(this.#response, this.#stallTimeoutMs, () => {
        this.#isDraining = false;
      });
    }
    return true;
  }
}
