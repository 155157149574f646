/**
 * One session of the gateway at an MCP server. It connects with the first request, and again after its connection or the
 * session has ended. Messages of the server reach the session's listener.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { isObject } from '../json/is-object.ts';
import {
  codes,
  isTooDeep,
  type JsonRpcMessage,
  MAX_LEVELS,
  McpError,
  type MessageId,
  type Params,
  UpstreamFailure,
} from './json-rpc.ts';
import type { ServerSecrets } from './server-secrets.ts';
import type { McpTransport } from './server-transports.ts';
import type { RequestOptions, UpstreamRequests } from './upstreams.ts';

/** What a client says of itself when it begins a session. */
export interface ClientFacts {
  readonly protocolVersion: string;
  readonly capabilities: Params;
  readonly clientInfo: Params;
}

/** What a server says of itself. */
export interface ServerFacts {
  readonly protocolVersion: string;
  readonly capabilities: Params;
  readonly serverInfo: Params;
  readonly instructions?: string | undefined;
  readonly [member: string]: unknown;
}

export interface UpstreamListener {
  /** A request of the server. @throws McpError */
  question(method: string, params: Params, id: MessageId): Promise<Params>;
  notification(method: string, params: Params): void;
  /** A new connection was opened; state of earlier ones does not apply to it. */
  connected?(facts: ServerFacts): void;
}

interface UpstreamSessionParts {
  readonly client: ClientFacts;
  /** Whether an error of the connection ends it. */
  readonly endsOnError: boolean;
  /** How long a connection lasts after its last request; undefined: as long as the session. */
  readonly idleMs?: number | undefined;
  readonly listener: UpstreamListener;
  /** Removed from everything that the server sends. */
  readonly secrets: ServerSecrets;
  create(): Promise<McpTransport>;
  /** Called when a connection was made or failed. */
  connected?(facts: ServerFacts): void;
  failed?(error: Error): void;
}

/** From the first byte to the end of the handshake. */
const CONNECT_MS = 15_000;
/** Of the request that ends a session at its server. */
const GOODBYE_MS = 1_000;

interface Waiting {
  readonly progressToken: unknown;
  resolve(result: unknown): void;
  reject(error: Error): void;
  /** The server shows that it works on the request. */
  touch(): void;
}

interface Connection {
  readonly transport: McpTransport;
  readonly waiting: Map<MessageId, Waiting>;
  isOver: boolean;
  idle: NodeJS.Timeout | undefined;
}

export class UpstreamSession implements UpstreamRequests {
  readonly #parts: UpstreamSessionParts;
  #connecting: Promise<{ readonly connection: Connection; readonly facts: ServerFacts }> | undefined;
  #connection: Connection | undefined;
  #lastId = 0;
  /** Requests of the server that its client has not answered. */
  #questions = 0;
  #isClosed = false;

  constructor(parts: UpstreamSessionParts) {
    this.#parts = parts;
  }

  /** Whether there is a connection. */
  get isOpen(): boolean {
    return this.#connection !== undefined && !this.#connection.isOver;
  }

  /** Connects when there is no connection. @throws UpstreamFailure, McpError */
  async facts(): Promise<ServerFacts> {
    return (await this.#connected()).facts;
  }

  async request(method: string, params: Readonly<Params>, options: RequestOptions): Promise<unknown> {
    const { connection } = await this.#connected();
    try {
      return await this.#send(connection, method, params, options);
    } catch (error) {
      if (!(error instanceof UpstreamFailure) || error.kind !== 'session lost') throw error;
      this.#end(connection, error);
      options.sent?.(false);
      const renewed = await this.#connected();
      return this.#send(renewed.connection, method, params, options);
    }
  }

  /** Does nothing where there is no connection. */
  notify(method: string, params: Params | undefined): void {
    const connection = this.#connection;
    if (connection !== undefined && !connection.isOver) this.#notify(connection, method, params);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const connection = this.#connection;
    if (connection === undefined) return;
    const { transport } = connection;
    this.#fail(connection, new UpstreamFailure('closed', 'the session was ended'));
    if ('terminateSession' in transport && typeof transport.terminateSession === 'function') {
      const goodbye = Promise.resolve(transport.terminateSession()).catch(() => {});
      await Promise.race([goodbye, sleep(GOODBYE_MS, undefined, { ref: false })]);
    }
    await transport.close().catch(() => {});
  }

  #connected() {
    if (this.#isClosed) throw new UpstreamFailure('closed', 'the session was ended');
    if (this.#connection?.isOver) {
      this.#connecting = undefined;
      this.#connection = undefined;
    }
    this.#connecting ??= this.#connect().catch((error: unknown) => {
      this.#connecting = undefined;
      const failure = this.#failureOf(error);
      this.#parts.failed?.(failure);
      throw failure;
    });
    return this.#connecting;
  }

  async #connect() {
    const { create, client, connected, endsOnError } = this.#parts;
    const transport = await create();
    const connection: Connection = { transport, waiting: new Map(), isOver: false, idle: undefined };
    transport.onmessage = (message) => this.#receive(connection, message as JsonRpcMessage);
    transport.onclose = () => this.#end(connection, new UpstreamFailure('closed', 'the server ended the connection'));
    // Failures of requests reach the requests.
    transport.onerror = () => {};
    const late = AbortSignal.timeout(CONNECT_MS);
    try {
      await Promise.race([transport.start(), rejectionOf(late)]);
      const options = { signal: late, timeoutMs: CONNECT_MS };
      const facts = serverFacts(await this.#send(connection, 'initialize', { ...client }, options));
      transport.setProtocolVersion?.(facts.protocolVersion);
      await transport.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
      if (this.#isClosed) throw new UpstreamFailure('closed', 'the session was ended');
      if (endsOnError) transport.onerror = (error) => this.#end(connection, this.#endedBy(error));
      this.#connection = connection;
      connected?.(facts);
      return { connection, facts };
    } catch (error) {
      connection.isOver = true;
      await transport.close().catch(() => {});
      throw error;
    }
  }

  #send(
    connection: Connection,
    method: string,
    params: Readonly<Params>,
    { signal, timeoutMs, sent }: RequestOptions,
  ): Promise<unknown> {
    const { transport, waiting, isOver } = connection;
    if (isOver) return Promise.reject(new UpstreamFailure('closed', 'the connection has ended'));
    const id = ++this.#lastId;
    const meta = params['_meta'];
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const giveUp = (failure: UpstreamFailure) => {
      if (method !== 'initialize') {
        this.#notify(connection, 'notifications/cancelled', { requestId: id, reason: failure.message });
      }
      reject(failure);
    };
    let timer: NodeJS.Timeout | undefined;
    const restart = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        // The time of a person who answers a question of the server does not count.
        if (this.#questions > 0) restart();
        else giveUp(new UpstreamFailure('timeout', `the server did not answer within ${timeoutMs / 1000} s`));
      }, timeoutMs);
    };
    const onAbort = () => {
      const isLate = method === 'initialize';
      const why = isLate ? `the server did not answer within ${timeoutMs / 1000} s` : 'the request was cancelled';
      giveUp(new UpstreamFailure(isLate ? 'timeout' : 'cancelled', why, signal.reason));
    };
    clearTimeout(connection.idle);
    restart();
    waiting.set(id, {
      progressToken: isObject(meta) ? meta['progressToken'] : undefined,
      resolve,
      reject,
      touch: restart,
    });
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    else {
      const onRequestStreamEnd = () =>
        reject(new UpstreamFailure('closed', 'the server ended the stream of its answer without the answer'));
      sent?.(true);
      transport
        .send({ jsonrpc: '2.0', id, method, params: { ...params } }, { onRequestStreamEnd })
        .catch((error: unknown) => {
          const failure = this.#failureOf(error);
          if (failure instanceof UpstreamFailure && failure.kind === 'unreachable') sent?.(false);
          reject(failure);
        });
    }
    return promise.finally(() => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      waiting.delete(id);
      if (waiting.size === 0) this.#endWhenIdle(connection);
    });
  }

  /** The next request connects again. */
  #endWhenIdle(connection: Connection): void {
    const { idleMs } = this.#parts;
    if (idleMs === undefined || connection.isOver) return;
    const end = () => this.#end(connection, new UpstreamFailure('closed', 'the session was idle'));
    connection.idle = setTimeout(end, idleMs).unref();
  }

  #receive(connection: Connection, message: JsonRpcMessage): void {
    if (isTooDeep(message)) {
      const why = `the server sent a message of more than ${MAX_LEVELS} levels of objects and lists`;
      const failure = new UpstreamFailure('too large', why);
      if ('method' in message) this.#end(connection, failure);
      else if (message.id !== undefined) connection.waiting.get(message.id)?.reject(failure);
      return;
    }
    const { secrets } = this.#parts;
    if ('method' in message) {
      const { method } = message;
      const given = secrets.inResult(message.params);
      const params = isObject(given) ? given : {};
      if ('id' in message) {
        void this.#answer(connection, message.id, method, params);
        return;
      }
      if (method === 'notifications/progress') {
        const { progressToken } = params;
        for (const one of connection.waiting.values()) {
          if (progressToken !== undefined && one.progressToken === progressToken) one.touch();
        }
      }
      this.#parts.listener.notification(method, params);
      return;
    }
    const waiting = message.id === undefined ? undefined : connection.waiting.get(message.id);
    if (waiting === undefined) return;
    if ('result' in message) waiting.resolve(secrets.inResult(message.result));
    else {
      const { code, message: text, data } = message.error;
      waiting.reject(new McpError(code, secrets.redact(text), secrets.inError(data)));
    }
  }

  async #answer(connection: Connection, id: MessageId, method: string, params: Params): Promise<void> {
    this.#questions += 1;
    const answer = await this.#parts.listener.question(method, params, id).then(
      (result) => ({ jsonrpc: '2.0', id, result }) as const,
      (error: unknown) => {
        const known = error instanceof McpError ? error : new McpError(codes.internalError, 'the request failed');
        return { jsonrpc: '2.0', id, error: known.error } as const;
      },
    );
    this.#questions -= 1;
    for (const one of connection.waiting.values()) one.touch();
    if (!connection.isOver) await connection.transport.send(answer).catch(() => {});
  }

  #notify({ transport }: Connection, method: string, params: Params | undefined): void {
    transport.send({ jsonrpc: '2.0', method, ...(params !== undefined && { params }) }).catch(() => {});
  }

  #failureOf(error: unknown): Error {
    if (error instanceof McpError || error instanceof UpstreamFailure) return error;
    const why = this.#parts.secrets.reasonOf(error);
    return new UpstreamFailure('unreachable', 'the request failed', undefined, why);
  }

  #endedBy(error: Error): UpstreamFailure {
    if (error instanceof UpstreamFailure) return error;
    return new UpstreamFailure('closed', 'the connection ended', undefined, this.#parts.secrets.reasonOf(error));
  }

  #end(connection: Connection, failure: UpstreamFailure): void {
    if (connection.isOver) return;
    this.#fail(connection, failure);
    connection.transport.close().catch(() => {});
  }

  #fail(connection: Connection, failure: UpstreamFailure): void {
    connection.isOver = true;
    clearTimeout(connection.idle);
    for (const { reject } of connection.waiting.values()) reject(failure);
  }
}

function rejectionOf(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const fail = () => reject(new UpstreamFailure('timeout', `no connection within ${CONNECT_MS / 1000} s`));
    signal.addEventListener('abort', fail, { once: true });
  });
}

/** @throws UpstreamFailure */
function serverFacts(result: unknown): ServerFacts {
  if (isObject(result)) {
    const { protocolVersion, capabilities = {}, serverInfo = {}, instructions } = result;
    if (typeof protocolVersion === 'string' && isObject(capabilities) && isObject(serverInfo)) {
      const text = typeof instructions === 'string' ? { instructions } : {};
      return { ...result, protocolVersion, capabilities, serverInfo, ...text };
    }
  }
  throw new UpstreamFailure('unreachable', 'the server began no session: its answer to `initialize` is not valid');
}
