/** Every route of the admin API has a page of the dashboard that uses it, or a reason why none does. */
import { beforeAll, describe, expect, it } from 'vitest';
import { servedApiDocument } from '../../../scripts/api-document.ts';
import { filesOf, pageNames, routesIn, routesOfPage } from './page-sources.ts';
import { doubled, routePages } from './route-pages.ts';

let served: readonly string[] = [];

beforeAll(async () => {
  const { paths } = await servedApiDocument();
  served = Object.entries(paths)
    .filter(([path]) => path.startsWith('/admin/'))
    .flatMap(([path, methods]) =>
      Object.keys(methods)
        .filter((method) => ['get', 'put', 'post', 'delete', 'patch'].includes(method))
        .map((method) => `${method.toUpperCase()} ${path}`),
    );
}, 60_000);

const used = [...routePages].flatMap(([route, use]) => ('page' in use ? [{ route, page: use.page }] : []));
const byPage = Map.groupBy(used, ({ page }) => page);

describe('the table of routes', () => {
  it('has every route once', () => {
    expect(served.length).toBeGreaterThan(100);
    expect(served.filter((route) => !routePages.has(route))).toEqual([]);
    expect(doubled).toEqual([]);
  });

  it('has no row without a route', () => {
    expect([...routePages.keys()].filter((route) => !served.includes(route))).toEqual([]);
  });

  it('gives a reason for each route without a page', () => {
    const reasons = [...routePages.values()].flatMap((use) => ('noPage' in use ? [use.noPage] : []));
    for (const reason of reasons) expect(reason).toMatch(/\w+ \w+/);
  });

  it('names pages of the dashboard', () => {
    const names: ReadonlySet<string> = new Set(['shell', ...pageNames()]);
    expect([...byPage.keys()].filter((name) => !names.has(name))).toEqual([]);
  });
});

describe.each([...byPage])('the page %s', (page, rows) => {
  it('uses its routes', () => {
    const found = routesOfPage(page);
    expect(rows.map(({ route }) => route).filter((route) => !found.has(route))).toEqual([]);
  });
});

describe('the sources of a page', () => {
  it('name no route that does not exist', () => {
    const unknown = pageNames()
      .flatMap((name) => [...routesOfPage(name)])
      .filter((route) => !served.includes(route) && !route.endsWith('/'));
    expect([...new Set(unknown)]).toEqual([]);
  });

  it('include what they import, but not the other pages', () => {
    const files = [...filesOf('usage')].map((file) => file.replace(/^.*\/dashboard\/src\//, ''));
    expect(files).toContain('pages/usage/use-usage.ts');
    expect(files).toContain('api/client.ts');
    expect(files).not.toContain('pages/live/page.tsx');
    expect(files.length).toBeLessThan(80);
  });

  it('tell changes from reads', () => {
    const text = `type A = AnswerOf<Operation<'/admin/models', 'get'>>; type B = paths['/admin/plugins']['get'];
      sendChange({ method: 'PUT', of: '/admin/users', json }); useAnswer('/admin/budgets');
      getAnswer({ of: '/admin/auth-keys/{id}', at: \`/admin/auth-keys/\${id}\` });
      request('/admin/sql', { method: 'POST', json });`;
    expect([...routesIn(text)].sort()).toEqual([
      'GET /admin/auth-keys/{id}',
      'GET /admin/budgets',
      'POST /admin/sql',
      'PUT /admin/users',
    ]);
  });
});
