/** The MCP servers that administrators set up, and the authorizations of the gateway at them. */
import * as events from '../events/catalogue/mcp-server.ts';
import { administeredView } from './administered.ts';

/** Secrets in it are encrypted, as in the log. */
export const mcpServersKind = {
  name: 'mcp-servers',
  version: 1,
  saved: events.mcpServerSaved,
  removed: events.mcpServerRemoved,
  key: 'slug',
} as const;

export const mcpServersView = administeredView(mcpServersKind);

/** Also of servers that the configuration declares. */
export const mcpAuthorizationsView = administeredView({
  name: 'mcp-authorizations',
  version: 1,
  saved: events.mcpAuthorizationSaved,
  removed: events.mcpAuthorizationRemoved,
  key: 'id',
});
