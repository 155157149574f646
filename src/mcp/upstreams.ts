/**
 * The MCP servers behind the gateway, as routes, the model loop and administration use them. Every call of a tool goes
 * through `callTool`, which checks, records and charges it: no route can forget that.
 */
import type { ModelRequest } from '../commands/model-request/model-request.ts';
import type { UserPath } from '../events/event.ts';
import type { McpServer } from './mcp-server.ts';

/** A tool as its server describes it. Members that the gateway does not know are kept. */
export interface McpTool {
  readonly name: string;
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  readonly annotations?:
    | { readonly readOnlyHint?: boolean; readonly idempotentHint?: boolean; readonly destructiveHint?: boolean }
    | undefined;
  readonly [member: string]: unknown;
}

/** What a server offers, as the gateway's own session sees it. Tools that are not allowed are left out. */
export interface McpCatalog {
  readonly instructions?: string | undefined;
  readonly tools: readonly (McpTool & { readonly withheld?: true })[];
  readonly prompts: readonly McpListed[];
  readonly resources: readonly McpListed[];
  readonly templates: readonly McpListed[];
}

/** A prompt, a resource (with `uri`) or a template (with `uriTemplate`). */
export interface McpListed {
  readonly name: string;
  readonly description?: string | undefined;
  readonly [member: string]: unknown;
}

export interface McpServerStatus {
  readonly status: 'disabled' | 'connecting' | 'connected' | 'degraded';
  /** Why it could not be reached; holds no secret. */
  readonly lastError?: string | undefined;
  readonly toolCount: number;
  readonly promptCount: number;
  readonly resourceCount: number;
  /** Milliseconds since the epoch. */
  readonly connectedAt?: number | undefined;
}

/** The result of a tool as the client gets it: guardrails have read it. Members that the gateway does not know are kept. */
export interface CallToolResult {
  /** A list of parts, unless the server has sent something else. */
  readonly content: unknown;
  readonly structuredContent?: unknown;
  /** The tool itself failed; the text says why. */
  readonly isError?: boolean | undefined;
  readonly [member: string]: unknown;
}

/** The parts of a result. What is no list is one part. */
export function resultParts({ content }: CallToolResult): readonly unknown[] {
  if (Array.isArray(content)) return content;
  return [typeof content === 'string' ? { type: 'text', text: content } : content];
}

export interface ToolCall {
  readonly server: McpServer;
  /** As the server names it. */
  readonly tool: string;
  readonly arguments: unknown;
  /**
   * The request that causes the call: its caller, its id, its labels and its session. `causationId` names the exchange in
   * which a model called the tool. Its body is not used.
   */
  readonly request: Omit<ModelRequest, 'body' | 'bodyPieces'>;
  /** Of the `mcp_call` in the response of that model. */
  readonly itemId?: string | undefined;
  /** Aborted, with an `EndReason`, when the caller does not wait any more, or the gateway stops. */
  readonly signal: AbortSignal;
  /** Further members of the parameters of `tools/call`, such as `_meta`. */
  readonly members?: Readonly<Record<string, unknown>> | undefined;
  /** The connection of a client to the server, which gets progress and questions. Default: the gateway's own. */
  readonly session?: UpstreamRequests | undefined;
  /** The tools that this session is offered; given with it. */
  readonly listed?: (() => Promise<readonly Readonly<Record<string, unknown>>[]>) | undefined;
  /** Called with the id of the exchange that is the record of the call, before the server is called. */
  readonly begun?: ((exchangeId: string) => void) | undefined;
}

/** A connection to a server on which requests can be sent. */
export interface UpstreamRequests {
  /**
   * @returns the result. Resolves also when the server has lost its session before: then a new one has been begun.
   * @throws McpError for an error that the server returned; UpstreamFailure when there is no answer
   */
  request(method: string, params: Readonly<Record<string, unknown>>, options: RequestOptions): Promise<unknown>;
}

export interface RequestOptions {
  /** Aborted: the server gets `notifications/cancelled`. */
  readonly signal: AbortSignal;
  /** Milliseconds without an answer or a sign of life, such as progress. */
  readonly timeoutMs: number;
  /** Called before the request is sent with true, and with false when the server has not read it. */
  readonly sent?: ((isSent: boolean) => void) | undefined;
}

/** A tool whose description or schema differs from the accepted one. */
export interface ChangedTool {
  readonly name: string;
  /** The definitions as JSON. */
  readonly accepted: string;
  readonly changed: string;
  /** Identifies the changed definition. */
  readonly digest: string;
  /** Milliseconds since the epoch. */
  readonly changedAt: number;
}

export interface McpUpstreams {
  /** Of an unknown server: `disabled`. Connects nothing. */
  status(slug: string): McpServerStatus;
  /** Connects when there is no connection. @throws Refusal 404, 502 */
  catalog(slug: string): Promise<McpCatalog>;
  /** Ends the gateway's own connections to the server and begins a new one. Resolves also when that fails. */
  reconnect(slug: string): Promise<void>;
  /** The tools that a caller of the path can call: allowed, and not withheld. @throws Refusal 404, 502 */
  tools(slug: string, userPath: UserPath | undefined): Promise<readonly McpTool[]>;
  /**
   * Calls a tool once. `tool.called` is on disk before the server gets the call, `tool.answered` before this resolves.
   * @throws Refusal (404 for an unknown tool, 403, 429, 502, 504, …); McpError for an error that the server returned
   */
  callTool(call: ToolCall): Promise<CallToolResult>;
  /** Tools that are withheld, or would be if the server were pinned. */
  changedTools(slug: string): readonly ChangedTool[];
}
