/** Routes of MCP: every key may use them, and sees what its path may see. */
import type { Row } from './row.ts';

const initialize = () => ({
  ...{ jsonrpc: '2.0', id: 1, method: 'initialize' },
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'a test', version: '1' } },
});

// no key, unbound plain, bound plain, other tenant, scoped admin, global admin, master
export const mcpRoutes: readonly Row[] = [
  { route: 'POST /mcp', body: initialize, answers: [401, 200, 200, 200, 200, 200, 200] },
  { route: 'GET /mcp', about: 'without a session', answers: [401, 400, 400, 400, 400, 400, 400] },
  { route: 'DELETE /mcp', about: 'without a session', answers: [401, 400, 400, 400, 400, 400, 400] },
  {
    route: 'POST /mcp/:slug',
    about: 'an unknown server',
    path: () => '/mcp/unknown',
    body: initialize,
    answers: [401, 404, 404, 404, 404, 404, 404],
  },
  {
    route: 'GET /mcp/:slug',
    about: 'without a session',
    path: () => '/mcp/unknown',
    answers: [401, 400, 400, 400, 400, 400, 400],
  },
  {
    route: 'DELETE /mcp/:slug',
    about: 'without a session',
    path: () => '/mcp/unknown',
    answers: [401, 400, 400, 400, 400, 400, 400],
  },
];
