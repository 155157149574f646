/**
 * The servers behind the gateway: the gateway's own sessions, with which it reads what a server offers and calls tools for
 * models; the sessions of clients; and the state of each server. A server that cannot be reached is tried again every minute.
 */
import type { Caller } from '../commands/model-request/model-request.ts';
import { refusals } from '../commands/refusal.ts';
import type { EventContext, UserPath } from '../events/event.ts';
import { LogUnavailable } from '../events/log.ts';
import { parseExactly } from '../json/exact-json.ts';
import { isObject } from '../json/is-object.ts';
import { codes, McpError, UpstreamFailure } from './json-rpc.ts';
import { isToolAllowed, type McpServer, type McpServers } from './mcp-server.ts';
import { entryName, type Listed, type ListKind, ServerLists } from './server-lists.ts';
import { ServerSecrets } from './server-secrets.ts';
import type { ServerTransports } from './server-transports.ts';
import { serverFailure, type ToolCalls } from './tool-calls.ts';
import type { ToolDefinitions } from './tool-definitions.ts';
import { type ClientFacts, type UpstreamListener, UpstreamSession } from './upstream-session.ts';
import type {
  CallToolResult,
  ChangedTool,
  McpCatalog,
  McpListed,
  McpServerStatus,
  McpTool,
  McpUpstreams,
  ToolCall,
} from './upstreams.ts';

/** Of the newest version that has sessions. */
export const PROTOCOL_VERSION = '2025-11-25';
export const PROTOCOL_VERSIONS: readonly string[] = [PROTOCOL_VERSION, '2025-06-18', '2025-03-26', '2024-11-05'];

export interface UpstreamsParts {
  readonly servers: McpServers;
  readonly transports: ServerTransports;
  readonly definitions: Pick<ToolDefinitions, 'observe' | 'isOffered' | 'isWithheld' | 'changed' | 'accept'>;
  readonly toolCalls: Pick<ToolCalls, 'call' | 'isGuarded'>;
  /** Of the gateway. */
  readonly version: string;
  /** Default 60 s. */
  readonly retryMs?: number;
  /** How long a list of several servers waits for each. Default 5 s. */
  readonly listMs?: number;
  /** How long a session of the gateway, and a process, lasts after its last use. Default 5 minutes. */
  readonly idleMs?: number;
}

/** What `ClientSession` uses. */
export interface ServerChanges {
  /** The server offers something else, or can be reached again. */
  changed(slug: string, kinds: readonly ListKind[], isFromServer: boolean): void;
}

interface ServerState {
  /** The definition with which the state was made. */
  readonly definition: string;
  outcome: 'none' | 'connected' | 'failed';
  lastError: string | undefined;
  connectedAt: number | undefined;
  failedAt: number;
  readonly counts: Record<ListKind, number>;
  /** Why lists that were read last are not used. */
  readonly listErrors: Map<ListKind, string>;
  retry: NodeJS.Timeout | undefined;
}

interface OwnSession {
  readonly session: UpstreamSession;
  readonly definition: string;
  idle: NodeJS.Timeout | undefined;
}

const RETRY_MS = 60_000;
const IDLE_MS = 300_000;
const LIST_OF_SEVERAL_MS = 5_000;

/** Which lists a notification is about. */
const changesOf: Readonly<Record<string, readonly ListKind[]>> = {
  'notifications/tools/list_changed': ['tools'],
  'notifications/prompts/list_changed': ['prompts'],
  'notifications/resources/list_changed': ['resources', 'templates'],
};

export class Upstreams implements McpUpstreams {
  readonly #parts: UpstreamsParts;
  readonly #lists = new ServerLists();
  readonly #states = new Map<string, ServerState>();
  readonly #own = new Map<string, OwnSession>();
  readonly #listeners = new Set<ServerChanges>();
  #isClosed = false;

  constructor(parts: UpstreamsParts) {
    this.#parts = parts;
  }

  // For clients.

  follow(listener: ServerChanges): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  isGuarded(caller: Caller): boolean {
    return this.#parts.toolCalls.isGuarded(caller);
  }

  /** A session for one client. Connects with its first request. */
  session(
    server: McpServer,
    client: ClientFacts,
    userPath: UserPath | undefined,
    listener: UpstreamListener,
  ): UpstreamSession {
    const state = this.#stateOf(server);
    const { transports, servers } = this.#parts;
    const secrets = new ServerSecrets(server, () => servers.secretsOf(server, userPath));
    return new UpstreamSession({
      secrets,
      client,
      endsOnError: server.transport === 'sse',
      // There is a limit of processes.
      idleMs: server.transport === 'stdio' ? (this.#parts.idleMs ?? IDLE_MS) : undefined,
      create: () => transports.create(server, (refused) => servers.authorization(server, userPath, refused), secrets),
      listener: {
        question: (method, params, id) => listener.question(method, params, id),
        notification: (method, params) => {
          if (changesOf[method] !== undefined) this.#changed(server.slug, changesOf[method], true);
          listener.notification(method, params);
        },
      },
      connected: (facts) => {
        this.#connected(state, server.slug);
        listener.connected?.(facts);
      },
      failed: (error) => this.#failed(state, server, error),
    });
  }

  /** Whether the server could not be reached within the last minute. */
  isOffline(server: McpServer): boolean {
    const { outcome, failedAt } = this.#stateOf(server);
    return outcome === 'failed' && performance.now() - failedAt < this.#retryMs;
  }

  /**
   * What the server offers in a session. Changed definitions of tools are on disk when this resolves.
   * @param view names what the lists of the server may depend on
   * @throws Refusal 502, 504; McpError
   */
  async list(server: McpServer, kind: ListKind, session: UpstreamSession, view: string): Promise<readonly Listed[]> {
    const state = this.#stateOf(server);
    const { slug } = server;
    const checked = async (list: readonly Listed[]) => {
      state.counts[kind] = list.length;
      if (kind === 'tools') await this.#parts.definitions.observe(server, toolsIn(list));
      if (state.outcome === 'failed') this.#answersAgain(state, slug, kind);
    };
    const ofDefinition = `${state.definition}\n${view}`;
    const list = await this.#lists.get({ slug, kind, view: ofDefinition }, session, checked).catch((error: unknown) => {
      if (error instanceof LogUnavailable) throw error;
      // Every error of one server's list is a failure of that server only.
      const failure =
        error instanceof McpError || error instanceof UpstreamFailure
          ? error
          : new UpstreamFailure('closed', `its list of ${kind} cannot be processed`, error);
      state.listErrors.set(kind, failure.message);
      throw failure instanceof UpstreamFailure ? serverFailure(failure, server) : failure;
    });
    state.listErrors.delete(kind);
    return kind === 'tools' ? list.filter((tool) => this.#isOffered(server, tool)) : list;
  }

  /** As `list`, for a list of several servers: one that does not answer soon is `degraded` until it does. */
  async listSoon(
    server: McpServer,
    kind: ListKind,
    session: UpstreamSession,
    view: string,
  ): Promise<readonly Listed[]> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const { listMs = LIST_OF_SEVERAL_MS } = this.#parts;
    const timer = setTimeout(() => {
      const failure = new UpstreamFailure('timeout', `it did not list its ${kind} within ${listMs / 1000} s`);
      this.#failed(this.#stateOf(server), server, failure);
      reject(serverFailure(failure, server));
    }, listMs);
    return Promise.race([this.list(server, kind, session, view), late]).finally(() => clearTimeout(timer));
  }

  // For administration and the model loop.

  status(slug: string): McpServerStatus {
    const server = this.#parts.servers.get(slug);
    if (server === undefined || !server.enabled) {
      return { status: 'disabled', toolCount: 0, promptCount: 0, resourceCount: 0 };
    }
    const { outcome, connectedAt, counts, listErrors, ...state } = this.#stateOf(server);
    const lastError = state.lastError ?? [...listErrors.values()][0];
    return {
      status: lastError !== undefined ? 'degraded' : outcome === 'none' ? 'connecting' : 'connected',
      toolCount: counts.tools,
      promptCount: counts.prompts,
      resourceCount: counts.resources,
      ...(lastError !== undefined && { lastError }),
      ...(connectedAt !== undefined && { connectedAt }),
    };
  }

  async catalog(slug: string): Promise<McpCatalog> {
    const server = this.#server(slug);
    const session = this.#ownSession(server, undefined);
    const { instructions } = await session.facts().catch((error: unknown) => {
      throw error instanceof UpstreamFailure ? serverFailure(error, server) : error;
    });
    const read = (kind: ListKind) => this.#read(server, kind, session, undefined);
    const [tools, prompts, resources, templates] = await Promise.all([
      this.#everyTool(server, session),
      read('prompts'),
      read('resources'),
      read('templates'),
    ]);
    return {
      ...(instructions !== undefined && { instructions }),
      tools,
      prompts: prompts.map(named),
      resources: resources.map(named),
      templates: templates.map(named),
    };
  }

  async reconnect(slug: string): Promise<void> {
    const server = this.#parts.servers.get(slug);
    if (server === undefined) throw refusals.mcpServerNotFound(slug);
    this.#lists.drop(slug);
    await this.#endOwn(slug);
    if (!server.enabled) return;
    await this.#ownSession(server, undefined)
      .facts()
      .then(
        () => this.#changed(slug, ['tools', 'prompts', 'resources']),
        () => {},
      );
  }

  async tools(slug: string, userPath: UserPath | undefined): Promise<readonly McpTool[]> {
    const server = this.#server(slug);
    return toolsIn(await this.#read(server, 'tools', this.#ownSession(server, userPath), userPath));
  }

  async callTool(call: ToolCall): Promise<CallToolResult> {
    const { server, request } = call;
    const { userPath } = request.caller;
    if (call.session !== undefined) return this.#parts.toolCalls.call(call, call.session);
    const own = this.#ownSession(server, userPath);
    return this.#parts.toolCalls.call({ ...call, listed: () => this.#read(server, 'tools', own, userPath) }, own);
  }

  changedTools(slug: string): readonly ChangedTool[] {
    return this.#parts.definitions.changed(slug);
  }

  /** @throws Refusal as `ToolDefinitions.accept` */
  async acceptTool(slug: string, tool: string, digest: string | undefined, context: EventContext): Promise<void> {
    await this.#parts.definitions.accept(slug, tool, digest, context);
    this.#changed(slug, ['tools']);
  }

  /** Ends all sessions of the gateway. Those of clients have ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { retry } of this.#states.values()) clearTimeout(retry);
    await Promise.all([...this.#own.keys()].map((key) => this.#endSession(key)));
    await this.#parts.transports.close();
  }

  get #retryMs(): number {
    return this.#parts.retryMs ?? RETRY_MS;
  }

  /** @throws Refusal 404 */
  #server(slug: string): McpServer {
    const server = this.#parts.servers.get(slug);
    if (server === undefined || !server.enabled) throw refusals.mcpServerNotFound(slug);
    return server;
  }

  #isOffered(server: McpServer, tool: Listed): boolean {
    return isToolAllowed(server, entryName(tool)) && this.#parts.definitions.isOffered(server, tool);
  }

  #read(server: McpServer, kind: ListKind, session: UpstreamSession, userPath: UserPath | undefined) {
    return this.list(server, kind, session, listViewOf(server, ownFacts(this.#parts.version), userPath));
  }

  /** Those that are withheld, too. */
  async #everyTool(server: McpServer, session: UpstreamSession): Promise<McpCatalog['tools']> {
    const offered = toolsIn(await this.#read(server, 'tools', session, undefined));
    const { definitions } = this.#parts;
    const withheld = definitions
      .changed(server.slug)
      .filter(({ name }) => isToolAllowed(server, name) && definitions.isWithheld(server, name))
      .flatMap(({ changed }) => toolsIn([parseExactly(changed)]))
      .map((tool) => ({ ...tool, withheld: true as const }));
    return [...offered, ...withheld];
  }

  /** One for each user path where these have authorizations of their own, otherwise one for all. */
  #ownSession(server: McpServer, userPath: UserPath | undefined): UpstreamSession {
    const key = JSON.stringify([server.slug, server.oauth?.perUserPath === true ? (userPath ?? '/') : '']);
    const definition = definitionOf(server);
    const known = this.#own.get(key);
    if (known !== undefined && known.definition === definition) {
      known.idle?.refresh();
      return known.session;
    }
    if (known !== undefined) void this.#endSession(key);
    const session = this.session(server, ownFacts(this.#parts.version), userPath, noQuestions);
    const idle = setTimeout(() => void this.#endSession(key), this.#parts.idleMs ?? IDLE_MS).unref();
    this.#own.set(key, { session, definition, idle });
    return session;
  }

  async #endOwn(slug: string): Promise<void> {
    const keys = [...this.#own.keys()].filter((key) => key.startsWith(`[${JSON.stringify(slug)},`));
    await Promise.all(keys.map((key) => this.#endSession(key)));
  }

  async #endSession(key: string): Promise<void> {
    const own = this.#own.get(key);
    if (own === undefined) return;
    this.#own.delete(key);
    clearTimeout(own.idle);
    await own.session.close();
  }

  #stateOf(server: McpServer): ServerState {
    const definition = definitionOf(server);
    const known = this.#states.get(server.slug);
    if (known?.definition === definition) return known;
    clearTimeout(known?.retry);
    const counts = { tools: 0, prompts: 0, resources: 0, templates: 0 };
    const none = { lastError: undefined, connectedAt: undefined, failedAt: 0, retry: undefined };
    const state: ServerState = { definition, outcome: 'none', counts, listErrors: new Map(), ...none };
    this.#states.set(server.slug, state);
    return state;
  }

  #connected(state: ServerState, slug: string): void {
    const wasOffline = state.outcome === 'failed';
    Object.assign(state, { outcome: 'connected', lastError: undefined, connectedAt: Date.now() });
    clearTimeout(state.retry);
    state.retry = undefined;
    if (wasOffline) this.#changed(slug, ['tools', 'prompts', 'resources']);
  }

  /** A list has come after all: it is kept. */
  #answersAgain(state: ServerState, slug: string, kind: ListKind): void {
    Object.assign(state, { outcome: 'connected', lastError: undefined });
    clearTimeout(state.retry);
    state.retry = undefined;
    for (const listener of this.#listeners) listener.changed(slug, [kind], false);
  }

  #failed(state: ServerState, server: McpServer, { message }: Error): void {
    Object.assign(state, { outcome: 'failed', lastError: message, failedAt: performance.now() });
    if (this.#isClosed) return;
    state.retry ??= setTimeout(() => {
      state.retry = undefined;
      const now = this.#parts.servers.get(server.slug);
      if (now?.enabled !== true || this.#stateOf(now) !== state || this.#isClosed) return;
      void this.#ownSession(now, undefined)
        .facts()
        .catch(() => {});
    }, this.#retryMs).unref();
  }

  #changed(slug: string, kinds: readonly ListKind[], isFromServer = false): void {
    this.#lists.drop(slug);
    for (const listener of this.#listeners) listener.changed(slug, kinds, isFromServer);
  }
}

/** The gateway's own sessions answer no question of a server. */
const noQuestions: UpstreamListener = {
  question: (method) =>
    method === 'ping'
      ? Promise.resolve({})
      : Promise.reject(new McpError(codes.methodNotFound, `${method} is not supported here`)),
  notification: () => {},
};

function ownFacts(version: string): ClientFacts {
  return { protocolVersion: PROTOCOL_VERSION, capabilities: {}, clientInfo: { name: 'chancery', version } };
}

/** What the lists of a server may depend on. */
export function listViewOf(server: McpServer, { capabilities }: ClientFacts, userPath: UserPath | undefined): string {
  return JSON.stringify([capabilities, server.oauth?.perUserPath === true ? (userPath ?? '/') : '']);
}

function definitionOf(server: McpServer): string {
  return JSON.stringify(server);
}

/** Entries without a name, or without a schema, are no tools. */
function toolsIn(list: readonly unknown[]): McpTool[] {
  return list.flatMap((entry) => (isTool(entry) ? [entry] : []));
}

function isTool(entry: unknown): entry is McpTool {
  return isObject(entry) && typeof entry['name'] === 'string' && isObject(entry['inputSchema']);
}

function named(entry: Listed): McpListed {
  return { ...entry, name: entryName(entry) };
}
