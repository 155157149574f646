/**
 * Where several processes serve one address, a connection reaches any of them, and the session of a client is in one: the others
 * pass its requests on, over a Unix socket beside that of the log. The process that has the session authenticates the request
 * once more, with the address of the client.
 */
import { chmodSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse, request as send } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { refusals } from '../../commands/refusal.ts';
import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import { arrivalOf } from '../client-address.ts';
import { bodyOf } from '../server.ts';

export interface SessionRelayOptions {
  /** Of this process. */
  readonly worker: number;
  /** The socket of a process: in a folder that only the user of the service can read. */
  readonly socketOf: (worker: number) => string;
  /** Serves a request as if it had come from the client. */
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void;
}

/** What is known of the client's connection, as JSON. */
const ARRIVAL = 'x-chancery-arrival';
/** Headers of one connection (RFC 9110 §7.6.1). */
const HOP_BY_HOP: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'te']);

export class SessionRelay {
  readonly #options: SessionRelayOptions;
  #server: Server | undefined;
  #listening: Promise<void> | undefined;

  constructor(options: SessionRelayOptions) {
    this.#options = options;
  }

  /** Whether another process has the sessions of this number. */
  isElsewhere(worker: number): boolean {
    return worker !== this.#options.worker;
  }

  /** Resolves when other processes can pass requests on to this one. */
  listen(): Promise<void> {
    this.#listening ??= this.#listen();
    return this.#listening;
  }

  /** Answers with what the other process answers; 404 when there is none. Resolves when the client has the answer, or left. */
  forward(request: FastifyRequest, reply: FastifyReply, worker: number): Promise<void> {
    const { raw, originalUrl, method } = request;
    const body = bodyOf(request);
    const headers: Record<string, string | string[]> = {};
    for (const [name, value] of Object.entries(raw.headers)) {
      if (value !== undefined && !name.startsWith(':') && !HOP_BY_HOP.has(name)) headers[name] = value;
    }
    // The body was decoded here.
    delete headers['content-encoding'];
    headers['content-length'] = String(body.length);
    headers['x-request-id'] = request.id;
    headers[ARRIVAL] = JSON.stringify(arrivalOf(raw.socket));
    reply.hijack();
    const passed = send({ socketPath: this.#options.socketOf(worker), path: originalUrl, method, headers });
    const { promise, resolve } = Promise.withResolvers<void>();
    reply.raw.once('close', () => {
      passed.destroy();
      resolve();
    });
    passed.once('response', (answer) => {
      const given = Object.entries(answer.headers).filter(([name]) => !HOP_BY_HOP.has(name));
      reply.raw.writeHead(answer.statusCode ?? 502, Object.fromEntries(given));
      reply.raw.flushHeaders();
      answer.pipe(reply.raw);
      answer.once('error', () => reply.raw.destroy());
    });
    passed.once('error', () => {
      if (reply.raw.headersSent) return void reply.raw.destroy();
      const refusal = refusals.mcpSessionNotFound();
      reply.raw.writeHead(refusal.status, { 'content-type': 'application/json; charset=utf-8' });
      reply.raw.end(JSON.stringify(refusal.envelope()));
    });
    passed.end(body);
    return promise;
  }

  close(): void {
    this.#server?.closeAllConnections();
    this.#server?.close();
  }

  #listen(): Promise<void> {
    const { handle, socketOf, worker } = this.#options;
    const path = socketOf(worker);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const server = createServer((request, response) => {
      const given = request.headers[ARRIVAL];
      delete request.headers[ARRIVAL];
      const arrival = typeof given === 'string' ? parseExactly(given) : undefined;
      if (!isObject(arrival)) return void response.writeHead(400).end();
      request.socket.arrival = {
        isLocal: arrival['isLocal'] === true,
        isAdmin: arrival['isAdmin'] === true,
        ...(typeof arrival['address'] === 'string' && { address: arrival['address'] }),
        ...(typeof arrival['subject'] === 'string' && { subject: arrival['subject'] }),
      };
      handle(request, response);
    });
    this.#server = server;
    // Of a process that was killed.
    rmSync(path, { force: true });
    server.once('error', reject);
    server.listen(path, () => {
      chmodSync(path, 0o600);
      server.unref();
      resolve();
    });
    return promise;
  }
}
