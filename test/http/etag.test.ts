/**
 * Every object that changes under `If-Match` is returned by a GET with an `ETag`: for every route of the running
 * gateway, from the table of all routes.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import Fastify, { type FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { servedApiDocument } from '../../scripts/api-document.ts';
import { ifMatch, requireETags } from '../../src/http/admin/conditional.ts';
import type { Answered } from '../support/answered.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { errorOf, json } from '../support/with-gateway.ts';
import { adminRoutes } from './route-access/admin-routes.ts';
import type { Row } from './route-access/row.ts';

interface Registered {
  readonly route: string;
  /** The GET route that it names. */
  readonly shownBy: string | undefined;
}

const registered: Registered[] = [];
const watch = (message: unknown) => {
  (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', ({ method, url, config }) => {
    if (!url.startsWith('/admin/') || url.startsWith('/admin/api/v1/')) return;
    for (const one of [method].flat()) registered.push({ route: `${one} ${url}`, shownBy: config?.ifMatch });
  });
};

let gateway: TestGateway;
beforeAll(async () => {
  subscribe('fastify.initialization', watch);
  gateway = await startTestGateway({ env: { PLUGINS_ENABLED: 'true' } });
  unsubscribe('fastify.initialization', watch);
});
afterAll(() => gateway.close());

/** For each GET route: the path of the object of a request, by the id in its path or by its query or body. */
const shownAt: Record<string, (id: string, about: Answered) => string | Promise<string>> = {
  '/auth-keys/:id': (id) => `/admin/auth-keys/${id}`,
  '/users/:user_path': (_id, { user_path }) => `/admin/users/${encodeURIComponent(user_path)}`,
  '/budgets/:user_path/:period': (_id, { user_path, period, budget_key }) =>
    `/admin/budgets/${encodeURIComponent(user_path)}/${period ?? budget_key.period}`,
  '/budgets/settings': () => '/admin/budgets/settings',
  '/rate-limits/:scope/:subject/:period': (_id, { user_path, period, limit_key }) =>
    `/admin/rate-limits/user_path/${encodeURIComponent(user_path)}/${period ?? limit_key.period}`,
  '/guardrails/:name': (_id, { name }) => `/admin/guardrails/${name}`,
  '/virtual-models/:source': (_id, { source }) => `/admin/virtual-models/${encodeURIComponent(source)}`,
  '/model-pricing-overrides/:selector': (_id, { selector }) =>
    `/admin/model-pricing-overrides/${encodeURIComponent(selector)}`,
  '/provider-credentials/:name': (_id, { name }) => `/admin/provider-credentials/${name}`,
  '/mcp-servers/:slug': (_id, { slug, name }) => `/admin/mcp-servers/${slug ?? name}`,
  '/tagging/settings': () => '/admin/tagging/settings',
  '/workflows/:id': async (_id, { name }) => {
    const rows = (await json(await gateway.fetch('/admin/workflows'))) as unknown as readonly Answered[];
    return `/admin/workflows/${rows.find((row) => row['name'] === name)?.['id']}`;
  },
};

const rowOf = (route: string) => adminRoutes.find((row) => row.route === route && row.about === undefined);

/** The members of the path, the query and the body, by their names. */
function aboutOf({ route }: Row, url: string, body: object | undefined): Answered {
  const names = route.split('/');
  const [path = '', query] = url.split('?');
  const parts = path.split('/').map(decodeURIComponent);
  const ofPath = names.flatMap((name, place) => (name.startsWith(':') ? [[name.slice(1), parts[place]]] : []));
  return { ...Object.fromEntries(ofPath), ...Object.fromEntries(new URLSearchParams(query)), ...body };
}

async function conditional(route: string, shownBy: string): Promise<void> {
  const row = rowOf(route);
  if (row === undefined) throw new Error(`${route} is not in the table`);
  const [method = '', url = ''] = route.split(' ');
  const id = (await row.make?.({ gateway, keyAt: new Map() })) ?? '';
  const at = row.path?.(id) ?? url;
  const body = row.body?.(id);
  const change = (headers: Record<string, string> = {}) =>
    gateway.fetch(at, { method, headers, ...(body === undefined ? {} : { json: body }) });
  // The object of a PUT exists after it.
  if (row.make === undefined) expect((await change()).status, route).toBeLessThan(300);
  const shown = shownAt[shownBy];
  if (shown === undefined) throw new Error(`nothing is known of GET ${shownBy}`);
  const answer = await gateway.fetch(await shown(id, aboutOf(row, at, body)));
  expect(answer.status, await answer.clone().text()).toBe(200);
  const etag = answer.headers.get('etag') ?? '';
  expect(etag, route).toMatch(/^"(\d+|none)"$/);
  const { revision } = await json(answer);
  if (revision !== undefined) expect(etag).toBe(`"${revision}"`);
  expect((await errorOf(await change({ 'if-match': '"77777"' }), 409)).code).toBe('revision_mismatch');
  const done = await change({ 'if-match': etag });
  expect(done.status, await done.text()).toBeLessThan(300);
}

describe('If-Match', () => {
  it('is supported by the documented routes, and by no others', async () => {
    const honoured = registered.filter(({ shownBy }) => shownBy !== undefined).map(({ route }) => route);
    const { paths } = await servedApiDocument();
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, operation]) => JSON.stringify(operation['parameters'] ?? []).includes('"If-Match"'))
        .map(([method]) => `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`),
    );
    expect(honoured.length).toBeGreaterThan(20);
    expect(honoured.sort()).toEqual(described.sort());
  });

  it('compares with the ETag of a GET, which is the revision of the row', async () => {
    for (const { route, shownBy } of registered) {
      if (shownBy !== undefined) await conditional(route, shownBy);
    }
  });

  it('accepts the ETag of a setting that never changed', async () => {
    const path = '/admin/users/%2Fnew';
    await gateway.fetch('/admin/auth-keys', { json: { name: 'at the path', user_path: '/new' } });
    const untouched = await gateway.fetch(path);
    expect(untouched.headers.get('etag')).toBe('"none"');
    const set = (etag: string) =>
      gateway.fetch('/admin/users', {
        method: 'PUT',
        headers: { 'if-match': etag },
        json: { user_path: '/new', allowed_models: ['/'] },
      });
    expect((await set('"none"')).status).toBe(200);
    expect((await errorOf(await set('"none"'), 409)).code).toBe('revision_mismatch');
    expect((await gateway.fetch(path)).headers.get('etag')).toBe('"0"');
    await gateway.fetch('/admin/users?user_path=/new', { method: 'DELETE' });
    expect((await gateway.fetch(path)).headers.get('etag')).toBe('"1"');
  });
});

describe('a gateway', () => {
  it('does not start with a route that supports If-Match but has no GET with its ETag', async () => {
    const app = Fastify();
    app.register(
      async (admin) => {
        requireETags(admin);
        admin.get('/things/:id', async () => 'a thing');
        admin.put('/things/:id', { config: { ifMatch: '/things/:id' } }, async () => 'changed');
      },
      { prefix: '/admin' },
    );
    await expect(app.ready()).rejects.toThrow('PUT /admin/things/:id honours If-Match, and GET /admin/things/:id');
  });

  it('does not read the header for routes that do not declare their object', async () => {
    const app = Fastify();
    app.put('/things', async (request) => ifMatch(request));
    const answer = await app.inject({ method: 'PUT', url: '/things', headers: { 'if-match': '"1"' } });
    expect(answer.statusCode).toBe(500);
    expect(answer.body).toContain('does not declare');
  });
});
