/** The definitions of the tools of MCP servers that the gateway has seen, and which of them were accepted. */
import { mcpToolAccepted, mcpToolsChanged } from '../events/catalogue/mcp.ts';
import type { RecordedEvent } from '../events/event.ts';
import { parseExactly } from '../json/exact-json.ts';
import { isA, type Projection, savedAsItIs } from './projection.ts';

export interface KnownTool {
  /** Of the accepted definition. */
  readonly digest: string;
  /** The accepted definition, as JSON. */
  readonly definition: string;
  /** What the server has in its place, and was not accepted. */
  readonly changed?: { readonly digest: string; readonly definition: string; readonly at: number } | undefined;
}

export interface McpToolsState {
  /** By slug of the server and name of the tool. */
  readonly servers: Map<string, Map<string, KnownTool>>;
}

export const mcpToolsView: Projection<McpToolsState> = {
  name: 'mcp-tools',
  version: 2,
  filter: { types: [mcpToolsChanged.type, mcpToolAccepted.type] },
  initial: () => ({ servers: new Map() }),
  apply(state, event) {
    if (isA(event, mcpToolsChanged)) {
      const { server, tools } = event.data;
      const known = state.servers.get(server) ?? new Map<string, KnownTool>();
      state.servers.set(server, known);
      const definitions = definitionsIn(event.body);
      for (const [place, { name, digest, change }] of tools.entries()) {
        const definition = definitions[place] ?? '';
        const before = known.get(name);
        if (change === 'withheld' && before !== undefined) {
          known.set(name, { ...before, changed: { digest, definition, at: Math.floor(event.at) } });
        } else known.set(name, { digest, definition });
      }
    } else if (isA(event, mcpToolAccepted)) {
      const { server, tool, digest } = event.data;
      const known = state.servers.get(server);
      const before = known?.get(tool);
      if (before?.changed?.digest === digest) {
        known?.set(tool, { digest, definition: before.changed.definition });
      }
    }
    return state;
  },
  ...savedAsItIs<McpToolsState>(),
};

function definitionsIn(body: RecordedEvent['body']): string[] {
  if (body === undefined) return [];
  const list: unknown = parseExactly(new TextDecoder().decode(body));
  return Array.isArray(list) ? list.map((one) => JSON.stringify(one)) : [];
}
