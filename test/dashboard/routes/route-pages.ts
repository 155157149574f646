/** Every route of the admin API with the page of the dashboard that uses it, or the reason why no page does. */

/** The name of a page in `dashboard/src/pages`, or `shell` for what every page has. */
export type RouteUse = { readonly page: string } | { readonly noPage: string };

const of = (page: string, ...routes: readonly string[]) => routes.map((route) => [route, { page }] as const);
const without = (noPage: string, ...routes: readonly string[]) => routes.map((route) => [route, { noPage }] as const);

const rows: readonly (readonly [string, RouteUse])[] = [
  ...of('shell', 'GET /admin/access', 'GET /admin/runtime/config'),
  ...of('overview', 'GET /admin/overview', 'GET /admin/providers/status', 'GET /admin/usage/daily'),
  ...of('live', 'GET /admin/live/logs'),
  ...of(
    'audit',
    ...['GET /admin/audit/log', 'GET /admin/audit/facets', 'GET /admin/audit/histogram', 'GET /admin/audit/export'],
    'GET /admin/audit/sql',
  ),
  ...of('sessions', 'GET /admin/audit/sessions', 'GET /admin/audit/chain'),
  ...of(
    'usage',
    ...['GET /admin/usage/keys', 'GET /admin/usage/labels', 'GET /admin/usage/models', 'GET /admin/usage/sessions'],
    'GET /admin/usage/user-paths',
  ),
  ...of('exchange', ...['GET /admin/audit/detail', 'GET /admin/audit/events', 'GET /admin/audit/provider-request']),
  ...of(
    'keys',
    ...['GET /admin/auth-keys', 'POST /admin/auth-keys', 'GET /admin/auth-keys/{id}'],
    ...['PUT /admin/auth-keys/labels/rename', 'PUT /admin/auth-keys/{id}/allowed-models'],
    'PUT /admin/auth-keys/{id}/allowed-cidrs',
    ...['PUT /admin/auth-keys/{id}/dashboard-access', 'POST /admin/auth-keys/{id}/deactivate'],
    ...['PUT /admin/auth-keys/{id}/expiry', 'PUT /admin/auth-keys/{id}/labels', 'PUT /admin/auth-keys/{id}/name'],
    ...['POST /admin/auth-keys/{id}/reactivate', 'POST /admin/auth-keys/{id}/rotate'],
    ...['PUT /admin/auth-keys/{id}/user-path-header', 'GET /admin/explain'],
    ...['GET /admin/users', 'PUT /admin/users', 'DELETE /admin/users'],
  ),
  ...of(
    'budgets',
    ...['GET /admin/budgets', 'PUT /admin/budgets', 'POST /admin/budgets/reset', 'POST /admin/budgets/reset-one'],
    ...['GET /admin/budgets/settings', 'PUT /admin/budgets/settings'],
    ...['GET /admin/budgets/{user_path}/{period}', 'DELETE /admin/budgets/{user_path}/{period}'],
    ...['GET /admin/rate-limits', 'PUT /admin/rate-limits', 'DELETE /admin/rate-limits'],
    ...['POST /admin/rate-limits/reset', 'POST /admin/rate-limits/reset-one'],
    'GET /admin/rate-limits/{scope}/{subject}/{period}',
  ),
  ...of(
    'models',
    ...['GET /admin/models', 'GET /admin/models/categories', 'POST /admin/runtime/refresh'],
    ...['GET /admin/virtual-models', 'PUT /admin/virtual-models', 'DELETE /admin/virtual-models'],
    ...['GET /admin/virtual-models/{source}', 'GET /admin/model-pricing-overrides'],
    ...['PUT /admin/model-pricing-overrides', 'DELETE /admin/model-pricing-overrides'],
    ...['GET /admin/model-pricing-overrides/{selector}', 'GET /admin/provider-credentials'],
    ...['PUT /admin/provider-credentials', 'GET /admin/provider-credentials/types'],
    ...['GET /admin/provider-credentials/{name}', 'DELETE /admin/provider-credentials/{name}'],
    ...['GET /admin/audit/stats', 'POST /admin/usage/recalculate-pricing'],
  ),
  ...of(
    'workflows',
    ...[
      'GET /admin/workflows',
      'POST /admin/workflows',
      'GET /admin/workflows/guardrails',
      'GET /admin/workflows/{id}',
    ],
    ...['POST /admin/workflows/{id}/deactivate', 'GET /admin/workflows/{id}/versions'],
    ...['GET /admin/guardrails', 'PUT /admin/guardrails', 'DELETE /admin/guardrails', 'GET /admin/guardrails/types'],
    ...['POST /admin/guardrails/test', 'GET /admin/guardrails/replay', 'POST /admin/guardrails/replay'],
    ...['GET /admin/guardrails/replay/{id}', 'DELETE /admin/guardrails/replay/{id}'],
  ),
  ...of('plugins', 'GET /admin/plugins'),
  ...of(
    'mcp',
    ...['GET /admin/mcp-servers', 'PUT /admin/mcp-servers', 'GET /admin/mcp-servers/{slug}'],
    ...['DELETE /admin/mcp-servers/{slug}', 'POST /admin/mcp-servers/{slug}/reconnect'],
    ...['GET /admin/mcp-servers/{slug}/catalog', 'POST /admin/mcp-servers/{slug}/oauth/authorize'],
    ...['DELETE /admin/mcp-servers/{slug}/oauth', 'POST /admin/mcp-servers/{slug}/tools/{name}/call'],
    'POST /admin/mcp-servers/{slug}/tools/{name}/accept',
  ),
  ...without(
    'for the browser of an administrator, which the authorization server sends there',
    'GET /admin/mcp-servers/oauth/callback',
  ),
  ...of('cache', 'GET /admin/cache/overview', 'POST /admin/cache/purge', 'GET /admin/usage/summary'),
  ...of('history', 'GET /admin/history'),
  ...of('sql', 'POST /admin/sql'),
  ...of(
    'log',
    ...['GET /admin/gateways', 'GET /admin/log', 'GET /admin/log/stream', 'GET /admin/views'],
    ...['POST /admin/views/{name}/rebuild', 'POST /admin/views/{name}/skip'],
  ),
  ...of(
    'settings',
    ...[
      'GET /admin/runtime/settings',
      'GET /admin/runtime/versions',
      'GET /admin/tagging/settings',
      'PUT /admin/tagging/settings',
    ],
  ),
  ...without(
    'the dashboard itself',
    ...['GET /admin/dashboard', 'GET /admin/dashboard/{path}', 'GET /admin/static/{path}'],
  ),
  ...without(
    'the bodies of a conversation in one answer, for programs: Exchange reads each request',
    'GET /admin/audit/conversation',
  ),
  ...without(
    'the same as a route of the page: PUT /admin/budgets and DELETE of the path with the period',
    ...['DELETE /admin/budgets', 'PUT /admin/budgets/{user_path}/{period}'],
  ),
  ...without(
    'one row of a list that the page reads',
    ...['GET /admin/guardrails/{name}', 'GET /admin/users/{user_path}'],
  ),
  ...without(
    'for operators who have changed a file of the configuration: its answer is for them',
    'POST /admin/runtime/reload',
  ),
  ...without(
    'for clients of other gateways: no setting can be changed at run time',
    'PUT /admin/runtime/settings/{key}',
  ),
  ...without('Audit lists the same requests with their costs and more filters', 'GET /admin/usage/log'),
  ...without(
    'for displays of throughput: Overview and Usage have the same tokens by time',
    'GET /admin/usage/throughput',
  ),
];

export const routePages: ReadonlyMap<string, RouteUse> = new Map(rows);

/** Routes that have several rows. */
export const doubled: readonly string[] = rows
  .map(([route]) => route)
  .filter((route, at, all) => all.indexOf(route) !== at);
