/**
 * The session of a client, at one server or at all that its key may see. Each server gets a session of its own for this client,
 * opened with the first request that needs it, so that progress, questions and notifications reach the right client.
 */
import type { Caller, ModelRequest } from '../commands/model-request/model-request.ts';
import { Refusal, refusals } from '../commands/refusal.ts';
import { LogUnavailable } from '../events/log.ts';
import { isObject } from '../json/is-object.ts';
import {
  codes,
  type ErrorMessage,
  isRequest,
  type JsonRpcMessage,
  McpError,
  type MessageId,
  type NotificationMessage,
  type Params,
  type RequestMessage,
  type ResponseMessage,
  UpstreamFailure,
} from './json-rpc.ts';
import type { McpServer, McpServers } from './mcp-server.ts';
import { entryName, type Listed, type ListKind, lists } from './server-lists.ts';
import {
  listViewOf,
  PROTOCOL_VERSION,
  PROTOCOL_VERSIONS,
  type ServerChanges,
  type Upstreams,
} from './server-sessions.ts';
import { maySee, serverFailure } from './tool-calls.ts';
import type { ClientFacts, ServerFacts, UpstreamListener, UpstreamSession } from './upstream-session.ts';

/** A stream of messages to the client. */
export interface ClientStream {
  /** @returns false when the client does not get it */
  send(message: JsonRpcMessage): boolean;
  end(): void;
}

/** One HTTP request of the client. */
export interface ClientRequest {
  readonly facts: Omit<ModelRequest, 'body' | 'bodyPieces'>;
  readonly stream: ClientStream;
  /** Aborted with an `EndReason`. */
  readonly signal: AbortSignal;
  /** Counts a request in the rate limits. @throws Refusal 429 */
  admit(): void;
}

export interface ClientSessionParts {
  readonly servers: McpServers;
  readonly upstreams: Upstreams;
  /** The only server of the session; undefined: all that the caller sees. */
  readonly slug: string | undefined;
  /** Of several, only these; undefined: no restriction. */
  readonly narrowedTo: ReadonlySet<string> | undefined;
  readonly caller: Caller;
  /** Of the gateway. */
  readonly version: string;
}

interface Running {
  readonly request: ClientRequest;
  readonly controller: AbortController;
  readonly progressToken: unknown;
  /** Its server, once it is known. */
  slug: string | undefined;
}

interface Question {
  readonly slug: string;
  resolve(result: Params): void;
  reject(error: McpError): void;
}

interface OpenServer {
  readonly definition: McpServer;
  readonly session: UpstreamSession;
}

/** Requests of one client at the same time, and questions of servers that it has not answered. */
const MAX_RUNNING = 64;
const MAX_QUESTIONS = 64;
/** Messages that wait for a stream of the client. */
const MAX_WAITING = 64;
/** Of what needs no tool: prompts, resources, completions. */
const REQUEST_MS = 60_000;

/** The capability of the client that a question of a server needs. */
const questions: Readonly<Record<string, string>> = {
  'sampling/createMessage': 'sampling',
  'elicitation/create': 'elicitation',
  'roots/list': 'roots',
};

const listsByMethod = new Map<string, ListKind>(
  (['tools', 'prompts', 'resources', 'templates'] as const).map((kind) => [lists[kind].method, kind]),
);

const listChanges: ReadonlySet<string> = new Set(
  ['tools', 'prompts', 'resources'].map((family) => `notifications/${family}/list_changed`),
);

export class ClientSession implements ServerChanges {
  readonly #parts: ClientSessionParts;
  readonly #client: ClientFacts;
  readonly #servers = new Map<string, OpenServer>();
  readonly #running = new Map<MessageId, Running>();
  readonly #questions = new Map<string, Question>();
  #lastQuestion = 0;
  /** For messages that belong to no request. */
  #stream: ClientStream | undefined;
  #waiting: JsonRpcMessage[] = [];
  /** The parameters of the last `logging/setLevel`, also for connections that are made later. */
  #logLevel: Params | undefined;
  readonly #unfollow: () => void;
  /** Value of `performance.now()`. */
  usedAt = performance.now();

  constructor(parts: ClientSessionParts, client: ClientFacts) {
    this.#parts = parts;
    this.#client = client;
    this.#unfollow = parts.upstreams.follow(this);
  }

  /** Whether a request runs, or the client waits for messages. */
  get isUsed(): boolean {
    return this.#running.size > 0 || this.#stream !== undefined;
  }

  /** The answer to `initialize`. @throws Refusal 404, 502, 504; McpError */
  async begin(): Promise<Params> {
    const { slug, version } = this.#parts;
    const { protocolVersion } = this.#client;
    if (slug === undefined) {
      const instructions = this.#visible().flatMap(({ slug: one, description }) =>
        description === undefined ? [] : [`${one}_: ${description}`],
      );
      return {
        protocolVersion: PROTOCOL_VERSIONS.includes(protocolVersion) ? protocolVersion : PROTOCOL_VERSION,
        capabilities: {
          tools: { listChanged: true },
          prompts: { listChanged: true },
          resources: { listChanged: true, subscribe: true },
          completions: {},
          logging: {},
        },
        serverInfo: { name: 'chancery', version },
        ...(instructions.length > 0 && { instructions: instructions.join('\n') }),
      };
    }
    const server = this.#server(slug);
    const { session } = this.#open(server);
    const facts = await session.facts().catch((error: unknown) => {
      throw error instanceof UpstreamFailure ? serverFailure(error, server) : error;
    });
    return { ...facts, capabilities: offered(facts) };
  }

  /** Answers a request of the client. Never rejects. */
  async answer(message: RequestMessage, request: ClientRequest): Promise<ResponseMessage | undefined> {
    const { id, method, params = {} } = message;
    this.usedAt = performance.now();
    if (this.#running.has(id)) {
      return errorMessageOf(id, new McpError(codes.invalidRequest, 'a request with this id is running'));
    }
    if (this.#running.size >= MAX_RUNNING) {
      return errorMessageOf(id, new McpError(codes.refused, `${MAX_RUNNING} requests are running, which is the limit`));
    }
    const controller = new AbortController();
    const meta = params['_meta'];
    const progressToken = isObject(meta) ? meta['progressToken'] : undefined;
    const running: Running = { request, controller, progressToken, slug: undefined };
    this.#running.set(id, running);
    const onEnd = () => controller.abort(request.signal.reason);
    request.signal.addEventListener('abort', onEnd, { once: true });
    if (request.signal.aborted) onEnd();
    try {
      const result = await this.#result(method, params, running);
      // The answer to a request that its client has cancelled is not sent.
      return controller.signal.reason === 'cancelled' ? undefined : { jsonrpc: '2.0', id, result };
    } catch (error) {
      return controller.signal.reason === 'cancelled' ? undefined : errorMessageOf(id, error);
    } finally {
      request.signal.removeEventListener('abort', onEnd);
      this.#running.delete(id);
      this.usedAt = performance.now();
    }
  }

  /** A notification of the client, or its answer to a question. */
  receive(message: Exclude<JsonRpcMessage, RequestMessage>): void {
    this.usedAt = performance.now();
    if (!('method' in message)) {
      this.#answered(message);
      return;
    }
    const { method, params = {} } = message;
    if (method === 'notifications/cancelled') {
      const { requestId } = params;
      if (typeof requestId === 'string' || typeof requestId === 'number') {
        this.#running.get(requestId)?.controller.abort('cancelled');
      }
    } else if (method === 'notifications/roots/list_changed') {
      for (const { session } of this.#servers.values()) session.notify(method, params);
    } else if (method === 'notifications/progress') {
      const asking = new Set([...this.#questions.values()].map(({ slug }) => slug));
      for (const slug of asking) this.#servers.get(slug)?.session.notify(method, params);
    }
  }

  /** The stream for messages that belong to no request. An earlier one ends. @returns to be called at its end */
  listen(stream: ClientStream): () => void {
    this.#stream?.end();
    this.#stream = stream;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const message of waiting) this.#sendAnywhere(message);
    return () => {
      if (this.#stream === stream) this.#stream = undefined;
      this.usedAt = performance.now();
    };
  }

  changed(slug: string, kinds: readonly ListKind[], isFromServer: boolean): void {
    // The server itself sends it to clients that have a session there.
    if (isFromServer && this.#servers.get(slug)?.session.isOpen === true) return;
    const isOwn =
      this.#parts.slug === undefined ? this.#visible().some((one) => one.slug === slug) : this.#parts.slug === slug;
    if (!isOwn) return;
    const families = new Set(kinds.map((kind) => (kind === 'templates' ? 'resources' : kind)));
    for (const family of families) {
      this.#sendAnywhere({ jsonrpc: '2.0', method: `notifications/${family}/list_changed` });
    }
  }

  async close(reason: 'cancelled' | 'gateway_stopping' = 'cancelled'): Promise<void> {
    this.#unfollow();
    for (const { controller } of this.#running.values()) controller.abort(reason);
    for (const question of this.#questions.values()) question.reject(noClient());
    this.#stream?.end();
    const open = [...this.#servers.values()];
    this.#servers.clear();
    await Promise.all(open.map(({ session }) => session.close()));
  }

  async #result(method: string, params: Params, running: Running): Promise<Params> {
    if (method === 'ping') return {};
    const kind = listsByMethod.get(method);
    if (kind !== undefined) return this.#list(kind, params);
    if (method === 'tools/call') return this.#callTool(params, running);
    running.request.admit();
    switch (method) {
      case 'prompts/get': {
        const { server, name } = this.#named(params['name'], 'prompt');
        return this.#pass(method, { ...params, name }, server, running);
      }
      case 'completion/complete':
        return this.#complete(params, running);
      case 'resources/read':
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        return this.#pass(method, params, await this.#holderOf(params['uri']), running);
      case 'logging/setLevel':
        return this.#setLogLevel(params, running);
      default:
        throw new McpError(codes.methodNotFound, `The method ${method} is not supported.`);
    }
  }

  async #callTool(params: Params, running: Running): Promise<Params> {
    const { server, name: tool } = this.#named(params['name'], 'tool');
    const { arguments: args, name: _given, task: _unsupported, ...members } = params;
    if (args !== undefined && !isObject(args)) {
      throw new McpError(codes.invalidParams, '`arguments` has to be an object.');
    }
    running.slug = server.slug;
    const result = await this.#parts.upstreams.callTool({
      ...{ server, tool, arguments: args, members },
      request: running.request.facts,
      signal: running.controller.signal,
      session: this.#open(server).session,
      listed: () => this.#listOf(server, 'tools'),
    });
    return { ...result };
  }

  async #pass(method: string, params: Params, server: McpServer, running: Running): Promise<Params> {
    running.slug = server.slug;
    const { session } = this.#open(server);
    const options = { signal: running.controller.signal, timeoutMs: REQUEST_MS };
    try {
      const result = await session.request(method, params, options);
      return isObject(result) ? result : {};
    } catch (error) {
      throw error instanceof UpstreamFailure ? serverFailure(error, server) : error;
    }
  }

  async #complete(params: Params, running: Running): Promise<Params> {
    const { ref } = params;
    if (!isObject(ref)) throw new McpError(codes.invalidParams, '`ref` has to be an object.');
    if (ref['type'] !== 'ref/prompt') {
      return this.#pass('completion/complete', params, await this.#holderOf(ref['uri']), running);
    }
    const { server, name } = this.#named(ref['name'], 'prompt');
    return this.#pass('completion/complete', { ...params, ref: { ...ref, name } }, server, running);
  }

  async #setLogLevel(params: Params, running: Running): Promise<Params> {
    this.#logLevel = params;
    const { slug } = this.#parts;
    if (slug !== undefined) return this.#pass('logging/setLevel', params, this.#server(slug), running);
    for (const { definition, session } of this.#servers.values()) {
      if (!session.isOpen) continue;
      const { capabilities } = await session.facts();
      if (capabilities['logging'] !== undefined) await this.#pass('logging/setLevel', params, definition, running);
    }
    return {};
  }

  /** All pages together. Of several servers, those that cannot be reached are left out. */
  async #list(kind: ListKind, params: Params): Promise<Params> {
    const { member } = lists[kind];
    if (params['cursor'] !== undefined)
      throw new McpError(codes.invalidParams, 'The list has one page: no cursor is valid.');
    const { slug } = this.#parts;
    if (slug !== undefined) return { [member]: await this.#listOf(this.#server(slug), kind) };
    const reachable = this.#visible().filter((server) => !this.#parts.upstreams.isOffline(server));
    const all = await Promise.all(
      reachable.map(async (server) => {
        const list = await this.#listSoon(server, kind).catch((error: unknown) => {
          if (error instanceof McpError || (error instanceof Refusal && error.type === 'provider_error')) return [];
          throw error;
        });
        return kind === 'tools' || kind === 'prompts' ? list.map((entry) => prefixed(entry, server)) : list;
      }),
    );
    return { [member]: all.flat() };
  }

  #listOf(server: McpServer, kind: ListKind): Promise<readonly Listed[]> {
    const { upstreams, caller } = this.#parts;
    const view = listViewOf(server, this.#client, caller.userPath);
    return upstreams.list(server, kind, this.#open(server).session, view);
  }

  /** Of several servers. */
  #listSoon(server: McpServer, kind: ListKind): Promise<readonly Listed[]> {
    const { upstreams, caller } = this.#parts;
    const view = listViewOf(server, this.#client, caller.userPath);
    return upstreams.listSoon(server, kind, this.#open(server).session, view);
  }

  /**
   * The server of a resource: of those that list the URI the first by slug, and only without one the first with a template for
   * it. @throws Refusal, McpError
   */
  async #holderOf(uri: unknown): Promise<McpServer> {
    if (typeof uri !== 'string') throw new McpError(codes.invalidParams, '`uri` has to be a string.');
    const { slug } = this.#parts;
    if (slug !== undefined) return this.#server(slug);
    const servers = this.#visible()
      .filter((server) => !this.#parts.upstreams.isOffline(server))
      .sort((one, other) => (one.slug < other.slug ? -1 : 1));
    for (const kind of ['resources', 'templates'] as const) {
      const all = await Promise.all(servers.map((server) => this.#listSoon(server, kind).catch(() => [])));
      const isIt = (entry: Listed) =>
        kind === 'resources' ? entry['uri'] === uri : matches(entry['uriTemplate'], uri);
      const holder = servers[all.findIndex((list) => list.some(isIt))];
      if (holder !== undefined) return holder;
    }
    throw new McpError(codes.resourceNotFound, 'Resource not found', { uri });
  }

  /** @throws McpError for an unknown name */
  #named(given: unknown, what: 'tool' | 'prompt'): { readonly server: McpServer; readonly name: string } {
    if (typeof given !== 'string') throw new McpError(codes.invalidParams, '`name` has to be a string.');
    const { slug } = this.#parts;
    if (slug !== undefined) return { server: this.#server(slug), name: given };
    // A slug has no underscore.
    const end = given.indexOf('_');
    const server = this.#visible().find((one) => one.slug === given.slice(0, end));
    if (server === undefined) throw what === 'tool' ? refusals.toolNotFound(given) : refusals.notFound(what, given);
    return { server, name: given.slice(end + 1) };
  }

  #visible(): McpServer[] {
    const { servers, caller, narrowedTo } = this.#parts;
    const all = [...servers.all().values()].filter((server) => maySee(servers, caller, server));
    return narrowedTo === undefined ? all : all.filter(({ slug }) => narrowedTo.has(slug));
  }

  /** @throws Refusal 404 */
  #server(slug: string): McpServer {
    const { servers, caller } = this.#parts;
    const server = servers.get(slug);
    if (server === undefined || !maySee(servers, caller, server)) throw refusals.mcpServerNotFound(slug);
    return server;
  }

  #open(server: McpServer): OpenServer {
    const { slug } = server;
    const known = this.#servers.get(slug);
    if (known !== undefined && JSON.stringify(known.definition) === JSON.stringify(server)) return known;
    if (known !== undefined) void known.session.close();
    const { upstreams, caller } = this.#parts;
    const listener: UpstreamListener = {
      question: (method, params) => this.#ask(slug, method, params),
      notification: (method, params) => this.#forward(slug, method, params),
      connected: (facts) => this.#repeatLogLevel(session, facts),
    };
    const session = upstreams.session(server, this.#client, caller.userPath, listener);
    const opened = { definition: server, session };
    this.#servers.set(slug, opened);
    return opened;
  }

  #repeatLogLevel(session: UpstreamSession, { capabilities }: ServerFacts): void {
    if (this.#logLevel === undefined || capabilities['logging'] === undefined) return;
    const options = { signal: new AbortController().signal, timeoutMs: REQUEST_MS };
    session.request('logging/setLevel', this.#logLevel, options).catch(() => {});
  }

  /** A question of a server to the client. @throws McpError */
  async #ask(slug: string, method: string, params: Params): Promise<Params> {
    if (method === 'ping') return {};
    const capability = questions[method];
    if (capability === undefined || this.#client.capabilities[capability] === undefined) {
      throw new McpError(codes.methodNotFound, `The client does not support ${method}.`);
    }
    if (this.#questions.size >= MAX_QUESTIONS)
      throw new McpError(codes.refused, 'The client has too many open questions.');
    const id = `s-${++this.#lastQuestion}`;
    const { promise, resolve, reject } = Promise.withResolvers<Params>();
    this.#questions.set(id, { slug, resolve, reject });
    if (!this.#sendNear(slug, { jsonrpc: '2.0', id, method, params })) reject(noClient());
    return promise.finally(() => this.#questions.delete(id));
  }

  #answered(message: ResponseMessage): void {
    const question = message.id === undefined ? undefined : this.#questions.get(String(message.id));
    if (question === undefined) return;
    if ('result' in message) question.resolve(message.result);
    else question.reject(new McpError(message.error.code, message.error.message, message.error.data));
  }

  #forward(slug: string, method: string, params: Params): void {
    const passed = this.#parts.upstreams.isGuarded(this.#parts.caller) ? withoutTexts(method, params) : params;
    if (passed === undefined) return;
    const message: NotificationMessage = { jsonrpc: '2.0', method, params: passed };
    if (method === 'notifications/progress' && params['progressToken'] !== undefined) {
      const running = [...this.#running.values()].find(
        ({ progressToken }) => progressToken === params['progressToken'],
      );
      if (running?.request.stream.send(message) === true) return;
    }
    // The id of the question is that of the server.
    if (method === 'notifications/cancelled') return;
    this.#sendNear(slug, message);
  }

  /** On the stream of the newest request at the server, else on that for messages that belong to no request. */
  #sendNear(slug: string, message: JsonRpcMessage): boolean {
    const running = [...this.#running.values()].filter((one) => one.slug === slug);
    for (const { request } of running.reverse()) if (request.stream.send(message)) return true;
    return this.#sendAnywhere(message);
  }

  #sendAnywhere(message: JsonRpcMessage): boolean {
    if (this.#stream?.send(message) === true) return true;
    // A question waits for no stream: its server waits for the answer.
    if (isRequest(message)) return false;
    this.#waiting = [...this.#waiting, message].slice(-MAX_WAITING);
    return true;
  }
}

/** Notifications are not read by guardrails: what may have texts of a tool is withheld. Undefined: all of it. */
function withoutTexts(method: string, params: Params): Params | undefined {
  const { progressToken, progress, total, uri } = params;
  if (method === 'notifications/progress') {
    const numbers = Object.entries({ progress, total }).filter(([, value]) => typeof value === 'number');
    return { progressToken, ...Object.fromEntries(numbers) };
  }
  if (method === 'notifications/resources/updated') return { uri };
  return listChanges.has(method) || method === 'notifications/cancelled' ? {} : undefined;
}

function noClient(): McpError {
  return new McpError(codes.refused, 'The client has no stream on which it can be asked.');
}

/** Capabilities of a server that the gateway passes on. Tasks would return results that nothing has checked. */
function offered({ capabilities }: ServerFacts): Params {
  const { tasks: _tasks, ...others } = capabilities;
  return others;
}

function prefixed(entry: Listed, { slug }: McpServer): Listed {
  return { ...entry, name: `${slug}_${entryName(entry)}` };
}

/** Whether a URI has the form of a template (RFC 6570): each expression stands for any text. */
function matches(template: unknown, uri: string): boolean {
  if (typeof template !== 'string') return false;
  const [first = '', ...others] = template.split(/\{[^{}]*\}/);
  if (others.length === 0) return first === uri;
  const last = others.pop() ?? '';
  if (!uri.startsWith(first) || !uri.endsWith(last) || uri.length < first.length + last.length) return false;
  let at = first.length;
  for (const part of others) {
    const found = uri.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return at <= uri.length - last.length;
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return error instanceof LogUnavailable ? refusals.logUnavailable(error) : refusals.internal(error);
}

/** An error for the client. A refusal of the gateway has the members of its envelope. */
export function errorMessageOf(id: MessageId | undefined, error: unknown): ErrorMessage {
  const given = id === undefined ? {} : { id };
  if (error instanceof McpError) return { jsonrpc: '2.0', ...given, error: error.error };
  const refusal = refusalOf(error);
  const { status, message, retryAfterSeconds } = refusal;
  const isUnknown = status === 404 || status === 400;
  const data = { ...refusal.envelope().error, status, ...(retryAfterSeconds !== undefined && { retryAfterSeconds }) };
  const code = isUnknown ? codes.invalidParams : codes.refused;
  return { jsonrpc: '2.0', ...given, error: { code, message, data } };
}
