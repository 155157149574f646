/** The MCP servers in force: those of administrators with their secrets opened, and over them those of the configuration. */
import type { UserPath } from '../../events/event.ts';
import type { McpServer, McpServers } from '../../mcp/mcp-server.ts';
import type { Saved, SavedObjects } from '../../projections/administered.ts';
import { ObjectsInForce } from '../administered.ts';
import { isFor } from '../virtual-models/virtual-model.ts';
import { mcpHeader, mcpSlug, oauthProblem, type StoredMcpServer } from './mcp-server-input.ts';

interface McpServerDirectoryOptions {
  readonly saved: { readonly state: SavedObjects<StoredMcpServer> };
  /** Changes with `redeclare`. */
  readonly declared: Map<string, McpServer>;
  /** @throws Error with the reason why a secret cannot be opened */
  open(stored: StoredMcpServer): McpServer;
  readonly authorization: McpServers['authorization'];
  readonly secretsOf: McpServers['secretsOf'];
}

interface Opened {
  readonly servers: ReadonlyMap<string, McpServer>;
  /** By slug, why a saved server cannot be used. */
  readonly problems: ReadonlyMap<string, string>;
}

export class McpServerDirectory implements McpServers {
  readonly authorization: McpServers['authorization'];
  readonly secretsOf: McpServers['secretsOf'];
  readonly #inForce: ObjectsInForce<StoredMcpServer | McpServer>;
  readonly #opened: () => Opened;

  constructor({ saved, declared, open, authorization, secretsOf }: McpServerDirectoryOptions) {
    this.authorization = authorization;
    this.secretsOf = secretsOf;
    this.#inForce = new ObjectsInForce<StoredMcpServer | McpServer>(saved, declared);
    this.#opened = this.#inForce.derive((all) => {
      const servers = new Map<string, McpServer>();
      const problems = new Map<string, string>();
      for (const [slug, server] of [...all].sort(([a], [b]) => (a < b ? -1 : 1))) {
        try {
          servers.set(slug, isStored(server) ? open(server) : server);
        } catch (error) {
          problems.set(slug, error instanceof Error ? error.message : String(error));
        }
      }
      return { servers, problems };
    });
  }

  get version(): number {
    return this.#inForce.version;
  }

  get(slug: string): McpServer | undefined {
    return this.#opened().servers.get(slug);
  }

  all(): ReadonlyMap<string, McpServer> {
    return this.#opened().servers;
  }

  visibleTo(userPath: UserPath | undefined): McpServer[] {
    return [...this.all().values()].filter(({ enabled, userPaths = [] }) => enabled && isFor(userPaths, userPath));
  }

  /** Of all, also those that cannot be used. Sorted. */
  get slugs(): string[] {
    return this.#inForce.keys;
  }

  problem(slug: string): string | undefined {
    return this.#opened().problems.get(slug);
  }

  isDeclared(slug: string): boolean {
    return this.#inForce.isDeclared(slug);
  }

  /** Undefined for a declared one. */
  savedAs(slug: string): Saved<StoredMcpServer> | undefined {
    const saved = this.#inForce.savedAs(slug);
    return saved !== undefined && isStored(saved.value) ? { ...saved, value: saved.value } : undefined;
  }

  /** Replaces the servers that the configuration declares. */
  redeclare(declared: ReadonlyMap<string, McpServer>): void {
    this.#inForce.redeclare(declared);
  }
}

function isStored(server: StoredMcpServer | McpServer): server is StoredMcpServer {
  return 'sealedHeaders' in server;
}

/** A server as the configuration declares it. */
export interface DeclaredMcpServer extends Omit<McpServer, 'slug' | 'managed'> {
  readonly slug?: string | undefined;
}

/**
 * @param parsePath the normal form of a user path
 * @throws Error that names the server and its problem
 */
export function declaredMcpServers(
  given: readonly DeclaredMcpServer[],
  parsePath: (path: string, member: string) => UserPath,
): Map<string, McpServer> {
  const declared = new Map<string, McpServer>();
  for (const one of given) {
    const server = declaredServer(one, parsePath);
    if (declared.has(server.slug)) throw new Error(`mcp.servers: the slug '${server.slug}' is declared twice`);
    declared.set(server.slug, server);
  }
  return declared;
}

function declaredServer(given: DeclaredMcpServer, parsePath: (path: string, member: string) => UserPath): McpServer {
  try {
    const headers = Object.entries(given.headers).map(([name, value]) => {
      const header = mcpHeader(name, value);
      if ('problem' in header) throw new Error(`the header '${name}': ${header.problem}`);
      return [header.name, value] as const;
    });
    const server = {
      ...given,
      slug: mcpSlug(given.slug, given.name),
      headers: Object.fromEntries(headers),
      userPaths: given.userPaths?.map((path) => parsePath(path, 'user_paths')),
      managed: true,
    };
    const refused = oauthProblem(server);
    if (refused !== undefined) throw new Error(`'${refused.member}': ${refused.problem}`);
    if (server.oauth !== undefined && server.url === undefined) throw new Error("'oauth' is of servers with a url");
    return server;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`mcp.servers: '${given.name}' cannot be as it is declared: ${why}`);
  }
}
