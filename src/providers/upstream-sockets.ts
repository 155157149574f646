/**
 * WebSockets to a provider's `/v1/responses` (OpenAI: "WebSocket mode"; xAI and Azure have the same protocol). Each client
 * on a WebSocket has one of its own, over its turns.
 */
import type { WebSocket } from 'ws';
import type { CloseWhen, ProviderCall, ProviderReply, ProviderTimeouts } from './provider.ts';
import { MAX_FRAME_BYTES } from './stream-frames.ts';
import { membersIn, rewriteMembers } from './translate/json.ts';
import { HEADERS_LIMIT, IDLE_LIMIT, type Transport } from './transport.ts';
import { cancelled, disconnected } from './transport-failure.ts';
import { type Handshake, UpstreamSocket } from './upstream-socket.ts';

interface UpstreamSocketsOptions {
  readonly provider: string;
  readonly transport: Transport;
  /** Of `/responses`, with the scheme `http` or `https`. */
  readonly url: string;
  readonly timeouts: ProviderTimeouts | undefined;
  readonly mayBegin: (() => boolean) | undefined;
  /** Between two pings. */
  readonly pingMs: number;
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

/** Members of a body that messages do not have. */
const ofHttp = { stream: undefined, background: undefined, type: '"response.create"' };

export class UpstreamSockets {
  readonly #options: UpstreamSocketsOptions;
  readonly #places = new Map<AbortSignal, Place>();
  #refusedUntil = 0;
  readonly #closed = new AbortController();
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

  /** Whether the client's connection generates the response, and no input waits for its end. */
  canSteer(client: AbortSignal, responseId: string): boolean {
    return this.#places.get(client)?.socket?.canSteer(responseId) === true;
  }

  /**
   * @returns undefined: the call has to be sent over HTTP, and nothing of it was sent
   * @throws ProviderFailure
   */
  async send(call: ProviderCall, client: AbortSignal, handshake: Handshake): Promise<ProviderReply | undefined> {
    const { provider } = this.#options;
    const { continues, signal, steers } = call;
    if (steers !== undefined) {
      const steered = this.#places.get(client)?.socket;
      if (steered?.canSteer(steers.responseId) !== true) throw disconnected(provider);
      return steered.steer(steeringOf(call.body, steers.responseId), signal, steers.pending);
    }
    let socket = this.#free(client);
    if (socket !== undefined && !isSame(socket.handshake, handshake)) socket = undefined;
    if (continues !== undefined) {
      if (socket?.remembered !== continues) throw disconnected(provider);
    } else {
      socket ??= await this.#opened(client, handshake, signal);
      if (signal.aborted) throw cancelled(provider, false);
    }
    if (socket?.isFree !== true) return undefined;
    return socket.call(rewriteMembers(bytesOf(call.body), ofHttp), signal);
  }

  /** Resolves when the connections are closed. */
  async close(when: CloseWhen): Promise<void> {
    this.#closed.abort();
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

  /** The client's connection, when it has no call. One that is too old or does not answer is closed. */
  #free(client: AbortSignal): UpstreamSocket | undefined {
    const place = this.#places.get(client);
    const socket = place?.socket;
    if (place === undefined || socket === undefined || !socket.isFree) return undefined;
    const { isSilent } = socket;
    if (!isSilent && !socket.isTooOld) return socket;
    place.socket = undefined;
    if (isSilent) socket.destroy();
    else socket.closeWhenFree();
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
    if (client.aborted || this.#closed.signal.aborted || performance.now() < this.#refusedUntil) return undefined;
    const place = this.#placeOf(client);
    if (place.isOpening || place.socket?.isEnding === false) return undefined;
    if (place.isSkipped) {
      place.isSkipped = false;
      return undefined;
    }
    place.isOpening = true;
    const ends = [signal, client, this.#closed.signal];
    const webSocket = await this.#connected(handshake, ends);
    place.isOpening = false;
    if (webSocket === undefined) {
      if (!ends.some(({ aborted }) => aborted)) this.#refusedUntil = performance.now() + AFTER_REFUSAL_MS;
      return undefined;
    }
    const { provider, timeouts, mayBegin, pingMs, transport } = this.#options;
    const socket = new UpstreamSocket(webSocket, handshake, {
      ...{ provider, mayBegin, pingMs, isProxied: transport.proxyUrl !== 'none' },
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
    if (client.aborted || this.#closed.signal.aborted) {
      socket.destroy();
      return undefined;
    }
    place.socket = socket;
    return socket;
  }

  /**
   * Undefined when there is no connection in the time that a connection may take: the call over HTTP shows why.
   * @param ends each of them ends the attempt, with its connection
   */
  async #connected({ headers }: Handshake, ends: readonly AbortSignal[]): Promise<WebSocket | undefined> {
    const { transport, url, timeouts } = this.#options;
    const limit = new AbortController();
    const over = AbortSignal.any([...ends, limit.signal]);
    const late = setTimeout(() => limit.abort(), timeouts?.connectMs ?? 10_000);
    const open = async () => {
      const [{ WebSocket }, socket] = await Promise.all([import('ws'), transport.open()]);
      const end = () => socket.destroy();
      if (over.aborted) {
        end();
        return undefined;
      }
      // Not `handshakeTimeout` of ws, which has no effect on a connection that is open already.
      over.addEventListener('abort', end);
      try {
        const webSocket = new WebSocket(url.replace(/^http/, 'ws'), {
          createConnection: () => socket,
          headers,
          perMessageDeflate: false,
          maxPayload: MAX_FRAME_BYTES,
        });
        await new Promise<void>((resolve, reject) => {
          webSocket.once('open', resolve);
          webSocket.on('error', reject);
        });
        // After a Close frame ws waits for the end of the connection, and the turn would wait with it.
        socket.on('data', () => {
          if (webSocket.readyState !== webSocket.OPEN) webSocket.terminate();
        });
        return webSocket;
      } catch (error) {
        end();
        throw error;
      } finally {
        over.removeEventListener('abort', end);
      }
    };
    try {
      return await Promise.race([open(), whenAborted(over)]);
    } catch {
      return undefined;
    } finally {
      clearTimeout(late);
    }
  }
}

function bytesOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** The message with the input of a request. */
function steeringOf(body: Uint8Array, responseId: string): Buffer {
  const input = membersIn(bytesOf(body)).findLast(({ name }) => name === 'input')?.value ?? 'null';
  return Buffer.from(`{"type":"response.steer","previous_response_id":${JSON.stringify(responseId)},"input":${input}}`);
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
