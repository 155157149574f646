/**
 * `/mcp` and `/mcp/{slug}`: the gateway as a server of MCP (Model Context Protocol, "Streamable HTTP", versions 2024-11-05 to
 * 2025-11-25), with all servers that the key may see, or with one.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Caller } from '../../commands/model-request/model-request.ts';
import { refusals } from '../../commands/refusal.ts';
import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import { type ClientRequest, ClientSession, type ClientStream, errorMessageOf } from '../../mcp/client-session.ts';
import { isRequest, type JsonRpcMessage, McpError, messagesIn, type RequestMessage } from '../../mcp/json-rpc.ts';
import type { McpServers } from '../../mcp/mcp-server.ts';
import { PROTOCOL_VERSIONS, type Upstreams } from '../../mcp/server-sessions.ts';
import {
  anyKey,
  emptyAnswer,
  jsonOrEventsAnswer,
  mediaAnswer,
  pathParameters,
  type Routes,
} from '../api/route-schema.ts';
import { type Authenticator, isAllowedOrigin, isOriginOf } from '../auth.ts';
import type { Clients } from '../client-address.ts';
import type { OpenExchanges } from '../open-exchanges.ts';
import type { RequestRecorder } from '../request-recorder.ts';
import { bodyOf, callerOf } from '../server.ts';
import { McpSessions, workerOf } from './mcp-sessions.ts';
import { MessageStream } from './message-stream.ts';
import { SessionRelay } from './session-relay.ts';

export interface McpRoutesOptions {
  readonly isEnabled: boolean;
  readonly servers: McpServers;
  readonly upstreams: Upstreams;
  readonly exchanges: OpenExchanges;
  readonly recorder: RequestRecorder;
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly clients: Pick<Clients, 'hostOf'>;
  admitRequest(caller: Caller): void;
  /** Origins of web pages beside the gateway's own. Read for each request. */
  readonly allowedOrigins: readonly string[];
  readonly stallTimeoutMs: number;
  /** Of the gateway. */
  readonly version: string;
  /** The other processes of the service; undefined where there are none. */
  readonly workers?: { readonly number: number; socketOf(worker: number): string } | undefined;
}

const SESSION = 'mcp-session-id';
const VERSION = 'mcp-protocol-version';

const requestHeaders = {
  'Mcp-Session-Id': z.string().describe('From the answer to `initialize`, in every later request'),
  'MCP-Protocol-Version': z.string().describe('The negotiated version'),
};
const narrowing = {
  'X-MCP-Servers': z.string().describe('With `initialize`: slugs separated by commas; only these servers are used'),
};
const documented = 'See docs/mcp.md.';
const message = z.looseObject({ jsonrpc: z.literal('2.0') });
const messages = z.union([message, z.array(message)]);

const declared = (which: 'all' | 'one', path: string) => {
  const suffix = which === 'one' ? 'Server' : '';
  const of = which === 'one' ? 'an MCP server' : 'all MCP servers';
  const params = which === 'one' ? { params: pathParameters({ slug: 'Slug of the server' }) } : {};
  return {
    path,
    post: anyKey(`sendMcp${suffix}JsonRpcMessage`, `Send messages to ${of}`, {
      description: documented,
      ...params,
      tag: 'mcp',
      requestHeaders: which === 'all' ? { ...requestHeaders, ...narrowing } : requestHeaders,
      body: messages,
      example: { jsonrpc: '2.0', id: 1, method: 'ping' },
      response: {
        200: jsonOrEventsAnswer('The answer, or a stream of messages that ends with it', messages),
        202: emptyAnswer('Notifications and answers were taken'),
      },
      errors: [404, 406, 429, 502, 503, 504],
    }),
    get: anyKey(`listenToMcp${suffix}`, `Listen to messages of ${of}`, {
      description: documented,
      ...params,
      tag: 'mcp',
      requestHeaders,
      exposeHeadRoute: false,
      response: { 200: mediaAnswer('Messages that belong to no request', 'text/event-stream', { type: 'string' }) },
      errors: [404, 406, 503],
    }),
    end: anyKey(`endMcp${suffix}Session`, `End a session with ${of}`, {
      description: documented,
      ...params,
      tag: 'mcp',
      requestHeaders,
      response: { 204: emptyAnswer('The session has ended') },
      errors: [404, 503],
    }),
  };
};

const routes = [declared('all', '/mcp'), declared('one', '/mcp/:slug')];

export function registerMcp(app: Routes, options: McpRoutesOptions): void {
  const { workers } = options;
  const relay =
    workers &&
    new SessionRelay({
      worker: workers.number,
      socketOf: workers.socketOf,
      handle: (request, response) => app.routing(request, response),
    });
  const mcp = new McpEndpoint(options, relay);
  for (const { path, post, get, end } of routes) {
    app.post(path, post, (request, reply) => mcp.post(request, reply));
    app.get(path, get, (request, reply) => mcp.get(request, reply));
    app.delete(path, end, (request, reply) => mcp.end(request, reply));
  }
  app.addHook('preClose', () => mcp.close());
}

/** Methods whose answers need no stream: no server sends anything else for them. */
const AT_ONCE: ReadonlySet<string> = new Set([
  ...['initialize', 'ping', 'tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'],
]);

/** Nothing is sent before the answer. */
const noStream: ClientStream = { send: () => false, end: () => {} };

class McpEndpoint {
  readonly #options: McpRoutesOptions;
  readonly #relay: SessionRelay | undefined;
  readonly #sessions: McpSessions;

  constructor(options: McpRoutesOptions, relay: SessionRelay | undefined) {
    this.#options = options;
    this.#relay = relay;
    const { authenticator, workers } = options;
    this.#sessions = new McpSessions({ authenticator, worker: workers?.number ?? 0 });
  }

  async post(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    this.#check(request);
    checkAccept(request, 'application/json', 'text/event-stream');
    const messages = readMessages(bodyOf(request));
    const [first] = messages;
    if (messages.length === 1 && first !== undefined && isRequest(first) && first.method === 'initialize') {
      return this.#initialize(first, request, reply);
    }
    if (this.#passedOn(request, reply)) return reply;
    const { session, id } = this.#sessionOf(request);
    for (const one of messages) if (!isRequest(one)) session.receive(one);
    const requests = messages.filter(isRequest);
    if (requests.length === 0) return reply.code(202).send();
    const isList = messages.length > 1;
    const headers = { 'x-request-id': request.id, [SESSION]: id };
    if (requests.every(({ method }) => AT_ONCE.has(method))) {
      const { signal } = new AbortController();
      const answers = await this.#answers(requests, session, this.#clientRequest(request, noStream, signal));
      reply.headers(headers);
      return reply.send(isList ? answers : answers[0]);
    }
    const controller = new AbortController();
    // The call of a tool goes on without its client, as the specification says: only a message cancels it.
    const client = { endEarly: (reason: string) => controller.abort(reason) };
    await this.#options.exchanges.runFor(client, async () => {
      this.#options.recorder.answered(request, 200);
      reply.hijack();
      const stream = new MessageStream(reply.raw, headers, this.#options.stallTimeoutMs);
      const given = this.#clientRequest(request, stream, controller.signal);
      await Promise.all(
        requests.map(async (one) => {
          const answer = await session.answer(one, given);
          if (answer !== undefined) stream.send(answer);
        }),
      );
      stream.end();
    });
    return reply;
  }

  get(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    this.#check(request);
    this.#checkRuns();
    checkAccept(request, 'text/event-stream');
    if (this.#passedOn(request, reply)) return reply;
    const { session, id } = this.#sessionOf(request);
    this.#options.recorder.answered(request, 200);
    reply.hijack();
    const headers = { 'x-request-id': request.id, [SESSION]: id };
    const stream = new MessageStream(reply.raw, headers, this.#options.stallTimeoutMs);
    reply.raw.once('close', session.listen(stream));
    return reply;
  }

  async end(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    this.#check(request);
    if (this.#passedOn(request, reply)) return reply;
    await this.#sessions.end(this.#sessionOf(request).id);
    return reply.code(204).send();
  }

  async close(): Promise<void> {
    await this.#sessions.close();
    this.#relay?.close();
  }

  /** Whether it stops: answers to questions of servers are taken until the end. @throws Refusal 503 */
  #checkRuns(): void {
    if (this.#options.exchanges.isStopping) throw refusals.stopping();
  }

  /** @throws Refusal 400, 403, 503 */
  #check({ headers, raw }: FastifyRequest): void {
    const { isEnabled, allowedOrigins, clients } = this.#options;
    if (!isEnabled) throw refusals.mcpDisabled();
    const { origin } = headers;
    // Whether a page may use the gateway does not depend on its key alone: "Streamable HTTP", security warning.
    if (origin !== undefined && !isAllowedOrigin(origin, allowedOrigins)) {
      if (!isOriginOf(clients.hostOf(raw), origin)) throw refusals.originNotAllowed(origin);
    }
    const version = headers[VERSION];
    if (version !== undefined && !PROTOCOL_VERSIONS.includes(String(version))) {
      throw refusals.invalidRequest(
        `The protocol version '${String(version).slice(0, 100)}' is not one of ${PROTOCOL_VERSIONS.join(', ')}.`,
        'MCP-Protocol-Version',
      );
    }
  }

  async #initialize(given: RequestMessage, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const { servers, upstreams, version } = this.#options;
    const { id, params = {} } = given;
    const { protocolVersion, capabilities = {}, clientInfo = {} } = params;
    if (typeof protocolVersion !== 'string' || !isObject(capabilities) || !isObject(clientInfo)) {
      throw refusals.invalidRequest(
        '`protocolVersion` has to be a string, `capabilities` and `clientInfo` objects.',
        'params',
      );
    }
    this.#checkRuns();
    const caller = callerOf(request);
    this.#sessions.checkRoom(caller);
    await this.#relay?.listen();
    const slug = slugOf(request);
    const narrowedTo = slug === undefined ? narrowedBy(request.headers['x-mcp-servers']) : undefined;
    const client = { protocolVersion, capabilities, clientInfo };
    const session = new ClientSession({ servers, upstreams, slug, narrowedTo, caller, version }, client);
    try {
      const result = await session.begin();
      // Others of the key may have begun meanwhile.
      this.#sessions.checkRoom(caller);
      reply.header(SESSION, this.#sessions.add(session, slug, caller, request));
      return reply.send({ jsonrpc: '2.0', id, result });
    } catch (error) {
      await session.close();
      if (error instanceof McpError) return reply.send(errorMessageOf(id, error));
      throw error;
    }
  }

  /** Whether another process has the session and answers. */
  #passedOn(request: FastifyRequest, reply: FastifyReply): boolean {
    const id = request.headers[SESSION];
    const worker = typeof id === 'string' ? workerOf(id) : undefined;
    if (worker === undefined || this.#relay?.isElsewhere(worker) !== true) return false;
    const answered = this.#relay.forward(request, reply, worker);
    // A stop waits for answers here, too; not for streams of messages that belong to no request.
    if (request.method === 'POST') this.#options.exchanges.track(answered);
    return true;
  }

  /** @throws Refusal 400, 404 */
  #sessionOf(request: FastifyRequest) {
    const id = request.headers[SESSION];
    if (typeof id !== 'string') {
      throw refusals.invalidRequest(
        'The request belongs to no session: begin one with `initialize`.',
        'Mcp-Session-Id',
      );
    }
    return this.#sessions.find(id, slugOf(request), callerOf(request));
  }

  async #answers(requests: readonly RequestMessage[], session: ClientSession, given: ClientRequest) {
    const answers = await Promise.all(requests.map((one) => session.answer(one, given)));
    return answers.filter((answer) => answer !== undefined);
  }

  #clientRequest(request: FastifyRequest, stream: ClientStream, signal: AbortSignal): ClientRequest {
    const { body: _body, ...facts } = this.#options.exchanges.modelRequestOf(request);
    return { facts, stream, signal, admit: () => this.#options.admitRequest(facts.caller) };
  }
}

/** @throws Refusal 406 */
function checkAccept({ headers }: FastifyRequest, ...types: readonly string[]): void {
  const { accept = '*/*' } = headers;
  if (accept.includes('*/*') || types.every((type) => accept.includes(type))) return;
  throw refusals.notAcceptable(types.join(' and '));
}

/** @throws Refusal 400 */
function readMessages(body: Buffer): readonly JsonRpcMessage[] {
  const messages = messagesIn(jsonIn(body));
  if (messages === undefined) throw refusals.invalidRequest('The body is no message of JSON-RPC 2.0.', null);
  return messages;
}

function jsonIn(body: Buffer): unknown {
  try {
    return parseExactly(body.toString());
  } catch (error) {
    throw refusals.malformedJson(error instanceof Error ? error.message : 'it cannot be read');
  }
}

function slugOf({ params }: FastifyRequest): string | undefined {
  const slug: unknown = isObject(params) ? params['slug'] : undefined;
  return typeof slug === 'string' ? slug : undefined;
}

function narrowedBy(header: string | readonly string[] | undefined): ReadonlySet<string> | undefined {
  if (header === undefined) return undefined;
  return new Set(
    String(header)
      .split(',')
      .map((slug) => slug.trim()),
  );
}
