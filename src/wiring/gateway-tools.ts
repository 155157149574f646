/** The tools of the MCP servers behind the gateway, as responses use them. */
import { refusals } from '../commands/refusal.ts';
import type { GatewayTools } from '../commands/responses/gateway-tools.ts';
import type { Config } from '../config/config.ts';
import type { McpServers } from '../mcp/mcp-server.ts';
import { maySee } from '../mcp/tool-calls.ts';
import { type McpUpstreams, resultParts } from '../mcp/upstreams.ts';

/** What exists once the gateway has started. */
interface StartedServers {
  readonly servers: McpServers;
  readonly upstreams: McpUpstreams;
}

export function gatewayTools({ mcp }: Pick<Config, 'mcp'>, started: () => StartedServers): GatewayTools {
  return {
    refusal(slug, caller, param) {
      const { servers } = started();
      if (!mcp.enabled) return refusals.featureUnavailable('MCP is switched off: MCP_ENABLED=false.');
      const server = servers.get(slug);
      return server !== undefined && maySee(servers, caller, server)
        ? undefined
        : refusals.gatewayServerNotFound(slug, param);
    },
    list: (slug, { userPath }) => started().upstreams.tools(slug, userPath),
    async call({ slug, ...call }) {
      const { servers, upstreams } = started();
      const server = servers.get(slug);
      // It was removed meanwhile.
      if (server === undefined) throw refusals.gatewayServerNotFound(slug, 'tools');
      const result = await upstreams.callTool({ ...call, server });
      return { ...result, content: resultParts(result) };
    },
  };
}
