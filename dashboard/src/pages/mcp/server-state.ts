/** Rows of MCP servers, and what the page says of them. */
import type { Answer } from '../../api/client.ts';
import type { Tone } from '../../ui/status-badge.tsx';

export type McpServerRow = Answer<'/admin/mcp-servers'>[number];
export type McpCatalog = Answer<'/admin/mcp-servers/{slug}/catalog'>;
export type McpTool = McpCatalog['tools'][number];

export const statusTones: Readonly<Record<McpServerRow['status'], Tone>> = {
  connected: 'ok',
  connecting: 'info',
  degraded: 'bad',
  disabled: 'plain',
};

export function serverPath(slug: string): string {
  return `/admin/mcp-servers/${encodeURIComponent(slug)}`;
}
