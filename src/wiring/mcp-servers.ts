/** Wiring of the MCP servers: those in force, the authorizations at them, and their administration. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { localAddressCheck } from '../commands/credentials/credential-fields.ts';
import type { SealerSource } from '../commands/credentials/sealed-credentials.ts';
import { declaredMcpServers, McpServerDirectory } from '../commands/mcp-servers/mcp-server-directory.ts';
import { openMcpServer, type StoredMcpServer } from '../commands/mcp-servers/mcp-server-input.ts';
import type { ModelRequest } from '../commands/model-request/model-request.ts';
import type { Config } from '../config/config.ts';
import type { EventLog } from '../events/log.ts';
import type { AsOf } from '../http/admin/as-of.ts';
import {
  mcpIsOff,
  registerMcpAuthorizations,
  registerMcpCallback,
} from '../http/admin/mcp-servers/mcp-authorizations.ts';
import { registerMcpServers } from '../http/admin/mcp-servers/mcp-servers.ts';
import { type McpToolRoutesOptions, registerMcpTools } from '../http/admin/mcp-servers/mcp-tools.ts';
import type { Routes, ZodTypes } from '../http/api/route-schema.ts';
import { parseUserPath } from '../http/request-head.ts';
import { AccessTokens } from '../mcp/access-tokens.ts';
import { AuthorizationRecords } from '../mcp/authorization-records.ts';
import { Authorizations } from '../mcp/authorizations.ts';
import { OAuthRequests } from '../mcp/oauth-client.ts';
import type { McpUpstreams } from '../mcp/upstreams.ts';
import type { SavedObjects } from '../projections/administered.ts';
import type { ProxyOf } from '../providers/proxies.ts';
import type { GatewayViews } from './log/views.ts';

interface McpServersOptions {
  readonly config: Config;
  readonly log: EventLog;
  readonly views: Pick<GatewayViews, 'mcpServers' | 'mcpAuthorizations'>;
  readonly sealers: SealerSource;
  readonly proxyOf: ProxyOf;
}

interface McpAdministration {
  readonly asOf: AsOf;
  readonly upstreams: McpUpstreams;
  readonly acceptTool: McpToolRoutesOptions['acceptTool'];
  modelRequestOf(request: FastifyRequest): ModelRequest;
  failed(error: unknown): void;
}

export type GatewayMcpServers = ReturnType<typeof createMcpServers>;

/** The servers, and what their admin routes need beside them. */
export interface McpRoutes extends Omit<McpAdministration, 'asOf'> {
  readonly servers: Pick<GatewayMcpServers, 'register' | 'registerCallback'>;
}

/** @throws Error when the configuration declares an invalid server */
export function createMcpServers({ config, log, views, sealers, proxyOf }: McpServersOptions) {
  const allowsLocal = config.registry.allowLocalProviders;
  const requests = new OAuthRequests({ proxyOf, allowsLocal, now: Date.now });
  const records = new AuthorizationRecords({ log, view: views.mcpAuthorizations, sealers });
  const authorizations = new Authorizations({ records, requests, now: Date.now });
  const tokens = new AccessTokens({ records, requests, now: Date.now });
  const declared = declaredMcpServers(config.mcp.servers, parseUserPath);
  const over = (saved: { readonly state: SavedObjects<StoredMcpServer> }) =>
    new McpServerDirectory({
      saved,
      declared,
      open: (stored) => openMcpServer(stored, sealers),
      authorization: (server, userPath, refused) => tokens.headersFor(server, userPath, refused),
      secretsOf: (server, userPath) => tokens.secretsOf(server, userPath),
    });
  const directory = over(views.mcpServers);
  return {
    /** The servers in force. */
    servers: directory,
    /** @returns a function that replaces the declared servers by those of `next`. @throws Error that names an invalid one */
    prepareReload(next: Config): () => void {
      const replacing = declaredMcpServers(next.mcp.servers, parseUserPath);
      return () => directory.redeclare(replacing);
    },
    /** Registers the admin routes, which answer 503 while MCP is off. */
    register(admin: Routes, { asOf, upstreams, acceptTool, modelRequestOf }: McpAdministration): void {
      admin.register(async (plugin: FastifyInstance) => {
        if (!config.mcp.enabled) {
          plugin.addHook('onRequest', async () => {
            throw mcpIsOff();
          });
        }
        const routes = plugin.withTypeProvider<ZodTypes>();
        registerMcpServers(routes, {
          ...{ log, asOf, directory, sealers, authorizations, upstreams },
          view: views.mcpServers,
          directoryOver: (state) => over({ state }),
          refusesAddress: allowsLocal ? async () => false : localAddressCheck(),
        });
        const { basePath } = config.server;
        registerMcpAuthorizations(routes, { servers: directory, authorizations, basePath });
        registerMcpTools(routes, { servers: directory, upstreams, acceptTool, modelRequestOf });
      });
    },
    /** Registers the route to which authorization servers send browsers back. */
    registerCallback(app: Routes, { upstreams, failed }: Pick<McpAdministration, 'upstreams' | 'failed'>): void {
      const isEnabled = config.mcp.enabled;
      registerMcpCallback(app, { servers: directory, authorizations, isEnabled, upstreams, failed });
    },
    /** Ends the requests to authorization servers. */
    close: () => requests.close(),
  };
}
