/** An MCP server behind the gateway, and the servers in force. */
import type { UserPath } from '../events/event.ts';

/** How the gateway reaches a server. `stdio` starts a process: only the configuration can declare it. */
export const mcpTransports = ['streamable_http', 'sse', 'stdio'] as const;
/** The transports of servers that administrators set up. */
export const remoteTransports = ['streamable_http', 'sse'] as const;
export const mcpGrants = ['authorization_code', 'client_credentials'] as const;

export const MAX_SLUG = 40;
export const TOOL_TIMEOUT_SECONDS = { usual: 30, most: 3600 } as const;

/** On `/mcp`, a slug is the part of a tool's name before the first `_`, so it has none itself. */
export const slugPattern = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;

/** The slug of a server that is given without one; undefined when its name has no ASCII letter or digit. */
export function slugOf(name: string): string | undefined {
  const words = name.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  const slug = words.join('-').slice(0, MAX_SLUG).replace(/-$/, '');
  return slug === '' ? undefined : slug;
}

/** How the gateway obtains tokens for a server. */
export interface McpOAuth {
  /** `authorization_code`: an administrator grants access in a browser. */
  readonly grant: (typeof mcpGrants)[number];
  /** Undefined: the client is registered dynamically (RFC 7591). */
  readonly clientId?: string | undefined;
  readonly clientSecret?: string | undefined;
  readonly scope?: string | undefined;
  /** The authorization server. Undefined: the one that the server names. */
  readonly issuer?: string | undefined;
  /** Whether user paths have authorizations of their own, which callers at and below them use. */
  readonly perUserPath: boolean;
}

/** A server with its secrets, as it is used. */
export interface McpServer {
  readonly slug: string;
  readonly name: string;
  readonly transport: (typeof mcpTransports)[number];
  /** Of a remote server. */
  readonly url?: string | undefined;
  /** Of a `stdio` server, as `args` and `env`. */
  readonly command?: string | undefined;
  readonly args?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Sent with every request to it. */
  readonly headers: Readonly<Record<string, string>>;
  readonly description?: string | undefined;
  readonly enabled: boolean;
  /** Undefined: all that are not disallowed. */
  readonly allowedTools?: readonly string[] | undefined;
  readonly disallowedTools?: readonly string[] | undefined;
  /** Undefined: every caller sees it. */
  readonly userPaths?: readonly string[] | undefined;
  readonly toolTimeoutSeconds: number;
  /** Whether a tool whose description or schema changes is withheld until an administrator accepts it. */
  readonly pin: boolean;
  /** US dollars charged for each call of a tool. */
  readonly pricePerCall?: number | undefined;
  readonly oauth?: McpOAuth | undefined;
  /** Declared in the configuration. */
  readonly managed: boolean;
}

/** The servers in force: those that administrators saved, and over them those that the configuration declares. */
export interface McpServers {
  /** Differs after each change. */
  readonly version: number;
  /** Undefined also for one whose secrets cannot be opened. */
  get(slug: string): McpServer | undefined;
  /** By slug. */
  all(): ReadonlyMap<string, McpServer>;
  /** The enabled servers for callers at this path, by slug. */
  visibleTo(userPath: UserPath | undefined): McpServer[];
  /**
   * The headers with credentials for a request to the server in the name of a caller: its own, and that of its token.
   * @param refused the value of `authorization` that the server has not accepted, so that there is a new one if possible
   * @throws Error with the reason why there is no token
   */
  authorization(
    server: McpServer,
    userPath: UserPath | undefined,
    refused?: string,
  ): Promise<Readonly<Record<string, string>>>;
  /** The tokens and secrets on record with which the server is called in the name of a caller. */
  secretsOf(server: McpServer, userPath: UserPath | undefined): readonly string[];
}

/** Whether the definition lets clients use a tool of this name. */
export function isToolAllowed({ allowedTools, disallowedTools }: McpServer, tool: string): boolean {
  return disallowedTools?.includes(tool) !== true && (allowedTools?.includes(tool) ?? true);
}
