/** Wiring of MCP: the servers behind the gateway, and the routes of clients. */
import { dirname, join } from 'node:path';
import type { Config } from '../config/config.ts';
import { gatewayVersion } from '../config/gateway-version.ts';
import { mintEventId } from '../events/event-id.ts';
import type { EventLog } from '../events/log.ts';
import type { Routes } from '../http/api/route-schema.ts';
import { type McpRoutesOptions, registerMcp } from '../http/mcp/mcp-routes.ts';
import type { Metrics } from '../http/metrics.ts';
import type { McpServers } from '../mcp/mcp-server.ts';
import { Upstreams } from '../mcp/server-sessions.ts';
import { ServerTransports } from '../mcp/server-transports.ts';
import { ToolCalls, type ToolCallsParts } from '../mcp/tool-calls.ts';
import { ToolDefinitions } from '../mcp/tool-definitions.ts';
import type { ProxyOf } from '../providers/proxies.ts';
import type { ModelRequests } from './exchange.ts';
import type { GatewayViews } from './log/views.ts';
import type { WorkerPlace } from './workers/messages.ts';

interface McpOptions extends Pick<ToolCallsParts, 'gateway' | 'admission' | 'policyOf' | 'open' | 'failed'> {
  readonly config: Config;
  readonly log: EventLog;
  readonly servers: McpServers;
  readonly views: Pick<GatewayViews, 'mcpTools'>;
  readonly requests: Pick<ModelRequests, 'refused' | 'exchanges'>;
  readonly metrics: Pick<Metrics, 'observeExchange'>;
  readonly proxyOf: ProxyOf;
}

/** Nothing is connected, and no package loaded, before the first request to a server. */
export function createMcp(options: McpOptions) {
  const { config, log, servers, views, requests, metrics, proxyOf, ...parts } = options;
  const definitions = new ToolDefinitions({ log, view: views.mcpTools });
  const toolCalls = new ToolCalls({
    ...{ log, servers, definitions, refused: requests.refused, newId: mintEventId, ...parts },
    ended: (figures) => metrics.observeExchange(figures),
  });
  const transports = new ServerTransports({ proxyOf, allowsLocalServers: config.registry.allowLocalProviders });
  const version = gatewayVersion;
  const upstreams = new Upstreams({ servers, transports, definitions, toolCalls, version });
  return {
    upstreams,
    /** The routes of clients. */
    register(
      app: Routes,
      given: Pick<McpRoutesOptions, 'recorder' | 'authenticator' | 'clients' | 'admitRequest'>,
      worker: Pick<WorkerPlace, 'number' | 'socketPath'> | undefined,
    ): void {
      registerMcp(app, {
        ...{ ...given, servers, upstreams, version, exchanges: requests.exchanges, isEnabled: config.mcp.enabled },
        get allowedOrigins() {
          return [...config.mcp.allowedOrigins, ...(config.server.corsOrigins ?? [])];
        },
        get stallTimeoutMs() {
          return config.http.stallTimeoutMs;
        },
        workers: worker && {
          number: worker.number,
          socketOf: (number) => join(dirname(worker.socketPath), `mcp-${number}.sock`),
        },
      });
    },
    /** Ends the sessions at the servers, after those of clients. */
    close: () => upstreams.close(),
  };
}
