/** The MCP servers in force: those of administrators with their secrets opened, and over them those of the configuration. */
import type { UserPath } from '../../events/event.ts';
import type { McpServer, McpServers } from '../../mcp/mcp-server.ts';
import type { Saved, SavedObjects } from '../../projections/administered.ts';
import { ObjectsInForce } from '../administered.ts';
import { isFor } from '../virtual-models/virtual-model.ts';
import type { StoredMcpServer } from './mcp-server-input.ts';

interface McpServerDirectoryOptions {
  readonly saved: { readonly state: SavedObjects<StoredMcpServer> };
  /** Changes with `redeclare`. */
  readonly declared: Map<string, McpServer>;
  /** @throws Error with the reason why a secret cannot be opened */
  open(stored: StoredMcpServer): McpServer;
  readonly authorization: McpServers['authorization'];
}

interface Opened {
  readonly servers: ReadonlyMap<string, McpServer>;
  /** By slug, why a saved server cannot be used. */
  readonly problems: ReadonlyMap<string, string>;
}

export class McpServerDirectory implements McpServers {
  readonly authorization: McpServers['authorization'];
  readonly #inForce: ObjectsInForce<StoredMcpServer | McpServer>;
  readonly #opened: () => Opened;

  constructor({ saved, declared, open, authorization }: McpServerDirectoryOptions) {
    this.authorization = authorization;
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
