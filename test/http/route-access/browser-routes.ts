/** Routes of browsers, which need no key: the page and the assets of the dashboard, and the way back from an authorization server. */
import type { Row } from './row.ts';

// no key, unbound plain, bound plain, other tenant, scoped admin, global admin, master
export const browserRoutes: readonly Row[] = [
  { route: 'GET /admin/dashboard', answers: [200, 200, 200, 200, 200, 200, 200] },
  {
    route: 'GET /admin/dashboard/*',
    path: () => '/admin/dashboard/audit',
    answers: [200, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'GET /admin/static/*',
    path: () => '/admin/static/app-1.js',
    answers: [200, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'GET /admin/static/*',
    about: 'no such file',
    path: () => '/admin/static/none.js',
    answers: [404, 404, 404, 404, 404, 404, 404],
  },
  {
    route: 'GET /admin/mcp-servers/oauth/callback',
    path: () => '/admin/mcp-servers/oauth/callback?state=unknown',
    answers: [400, 400, 400, 400, 400, 400, 400],
  },
];
