/**
 * A simulated provider that accepts WebSockets at `/v1/responses`, as OpenAI documents them: a connection answers one
 * message at a time, and has its last response in memory. Each message is a request to the provider's own HTTP route.
 */
import type { Duplex } from 'node:stream';
import { createParser } from 'eventsource-parser';
import { type WebSocket, WebSocketServer } from 'ws';
import {
  createSimulatedProvider,
  type SimulatedProvider,
  type SimulatedProviderOptions,
} from '../../infra/simulated-provider/server.ts';
import type { Answered } from './answered.ts';

/** One WebSocket of the gateway. */
export interface ProviderConnection {
  readonly socket: WebSocket;
  /** Below it. */
  readonly stream: Duplex;
  /** Of the upgrade. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Parsed, in order. */
  readonly messages: readonly Answered[];
  readonly closed: Promise<void>;
}

export interface SocketProvider {
  readonly simulated: SimulatedProvider;
  /** In order. */
  readonly connections: readonly ProviderConnection[];
  /** Refuses upgrades with this status, or accepts them again; `silent`: they get no answer. */
  refuse(status: number | 'silent' | undefined): void;
  /** Of the upgrades that got no answer, in order. */
  readonly silent: readonly Duplex[];
  /** Answers messages instead of the simulated provider; undefined: it answers again. */
  script(answer: ((message: Answered, socket: WebSocket) => void) | undefined): void;
  listen(): Promise<string>;
  close(): Promise<void>;
}

/** The header of requests that a message caused. */
export const OVER_SOCKET = 'x-over-websocket';

export function createSocketProvider(options: SimulatedProviderOptions = {}): SocketProvider {
  const sockets = new WebSocketServer({ noServer: true });
  const connections: ProviderConnection[] = [];
  const silent: Duplex[] = [];
  let refusal: number | 'silent' | undefined;
  let script: Parameters<SocketProvider['script']>[0];
  let url = '';
  const simulated = createSimulatedProvider({
    ...options,
    upgrade(request, socket, head) {
      socket.on('error', () => {});
      if (refusal === 'silent') {
        silent.push(socket.resume().once('end', () => socket.destroy()));
        return;
      }
      if (refusal !== undefined) {
        socket.end(`HTTP/1.1 ${refusal} Refused\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
        return;
      }
      sockets.handleUpgrade(request, socket, head, (webSocket) => {
        const { promise: closed, resolve } = Promise.withResolvers<void>();
        webSocket.once('close', resolve);
        webSocket.on('error', () => {});
        const messages: Answered[] = [];
        connections.push({ socket: webSocket, stream: socket, headers: request.headers, messages, closed });
        const memory = new Memory();
        webSocket.on('message', (data) => {
          const message = JSON.parse(String(data));
          messages.push(message);
          if (script !== undefined) script(message, webSocket);
          else void answer(message, webSocket, memory, request.headers.authorization ?? '');
        });
      });
    },
  });

  async function answer(message: Answered, socket: WebSocket, memory: Memory, authorization: string): Promise<void> {
    const { type: _type, ...given } = message;
    const body: Answered = { ...given, ...memory.continued(given) };
    const left = new AbortController();
    const abort = () => left.abort();
    socket.once('close', abort);
    try {
      const reply = await fetch(`${url}/responses`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json', [OVER_SOCKET]: 'true' },
        body: JSON.stringify({ ...body, stream: true }),
        signal: left.signal,
      });
      if (reply.status !== 200 || reply.body === null) {
        const retryAfter = reply.headers.get('retry-after');
        const headers = retryAfter === null ? {} : { headers: { 'Retry-After': retryAfter } };
        memory.forget();
        socket.send(
          JSON.stringify({ type: 'error', status: reply.status, ...JSON.parse(await reply.text()), ...headers }),
        );
        return;
      }
      const parser = createParser({
        onEvent({ data }) {
          if (data === '[DONE]') return;
          const event = JSON.parse(data);
          if (event.type === 'response.completed') memory.keep(event.response, body);
          if (event.response !== undefined) event.response.previous_response_id = given.previous_response_id ?? null;
          socket.send(JSON.stringify(event));
        },
      });
      const decoder = new TextDecoder();
      for await (const piece of reply.body) parser.feed(decoder.decode(piece, { stream: true }));
    } catch {
      socket.terminate();
    } finally {
      socket.off('close', abort);
    }
  }

  return {
    simulated,
    connections,
    silent,
    refuse(status) {
      refusal = status;
    },
    script(answers) {
      script = answers;
    },
    async listen() {
      url = await simulated.listen();
      return url;
    },
    async close() {
      for (const { socket } of connections) socket.terminate();
      for (const socket of silent) socket.destroy();
      await simulated.close();
    },
  };
}

/** The last response of a connection, also one that is not stored. */
class Memory {
  #id: string | undefined;
  #items: readonly unknown[] = [];
  /** The stored response before these items, which the connection did not have. */
  #stored: string | undefined;

  /** What a message that continues it is short for. */
  continued({ previous_response_id: previous, input }: Answered): object {
    if (previous === undefined || previous !== this.#id) return {};
    return { previous_response_id: this.#stored, input: [...this.#items, ...itemsOf(input)] };
  }

  keep({ id, output }: Answered, { input, previous_response_id: stored }: Answered): void {
    this.#id = id;
    this.#stored = stored ?? undefined;
    this.#items = [...itemsOf(input), ...output];
  }

  forget(): void {
    this.#id = undefined;
  }
}

function itemsOf(input: unknown): readonly unknown[] {
  return Array.isArray(input) ? input : [{ role: 'user', content: input }];
}
