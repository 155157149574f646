/** An MCP server behind the gateway, and the servers in force. */
import { z } from 'zod';
import type { UserPath } from '../events/event.ts';

/** How the gateway reaches a server. `stdio` starts a process: only the configuration can declare it. */
export const mcpTransports = ['streamable_http', 'sse', 'stdio'] as const;
/** The transports of servers that administrators set up. */
export const remoteTransports = ['streamable_http', 'sse'] as const;
export const mcpGrants = ['authorization_code', 'client_credentials'] as const;

export const MAX_MCP_SERVERS = 1000;
export const MAX_SLUG = 40;
export const TOOL_TIMEOUT_SECONDS = { usual: 30, most: 3600 } as const;

/** The part of a tool's name on `/mcp` before the first `_`, so it has none itself. */
export const slugPattern = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;

/** The slug of a name that comes without one; undefined when the name has no letter or digit of ASCII. */
export function slugOf(name: string): string | undefined {
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, MAX_SLUG + 1)
    .replace(/^-+/, '')
    .slice(0, MAX_SLUG)
    .replace(/-+$/, '');
  return slug === '' ? undefined : slug;
}

/** How the gateway obtains tokens for a server. */
const mcpOAuth = z.object({
  /** `authorization_code`: an administrator grants access in a browser. */
  grant: z.enum(mcpGrants),
  /** Undefined: the client is registered dynamically (RFC 7591). */
  clientId: z.string().optional(),
  clientSecret: z.string().optional(),
  scope: z.string().optional(),
  /** Whether each user path has an authorization of its own; callers below it use it. */
  perUserPath: z.boolean(),
});

/** A server with its secrets, as it is used. */
const mcpServer = z.object({
  slug: z.string().regex(slugPattern).max(MAX_SLUG),
  name: z.string(),
  transport: z.enum(mcpTransports),
  /** Of a remote server, with its credentials. */
  url: z.string().optional(),
  /** Of a `stdio` server. */
  command: z.string().optional(),
  args: z.array(z.string()).optional(),
  env: z.record(z.string(), z.string()).optional(),
  /** Sent with every request to it. */
  headers: z.record(z.string(), z.string()),
  description: z.string().optional(),
  enabled: z.boolean(),
  /** Undefined: all that are not disallowed. */
  allowedTools: z.array(z.string()).optional(),
  disallowedTools: z.array(z.string()).optional(),
  /** Empty or undefined: everybody sees it. */
  userPaths: z.array(z.string()).optional(),
  toolTimeoutSeconds: z.number(),
  /** Whether a tool whose description or schema changes is withheld until an administrator accepts it. */
  pin: z.boolean(),
  /** US dollars charged for each call of a tool. */
  pricePerCall: z.number().optional(),
  oauth: mcpOAuth.optional(),
  /** Declared in the configuration. */
  managed: z.boolean(),
});

export type McpOAuth = Readonly<z.infer<typeof mcpOAuth>>;
export type McpServer = Readonly<z.infer<typeof mcpServer>>;

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
   * The headers with credentials for a request to the server in the name of a caller: its own, and the token.
   * @throws Error with the reason why there is no token
   */
  authorization(server: McpServer, userPath: UserPath | undefined): Promise<Record<string, string>>;
}

/** Whether the definition lets clients use a tool of this name. */
export function isToolAllowed({ allowedTools, disallowedTools }: McpServer, tool: string): boolean {
  return disallowedTools?.includes(tool) !== true && (allowedTools?.includes(tool) ?? true);
}
