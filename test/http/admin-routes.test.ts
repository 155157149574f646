/** Who may call which route of the admin API: every route is in the table, with the answer that each caller gets. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { RegisteredRoute } from '../../src/http/openapi.ts';
import { operations } from '../../src/http/openapi-operations.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { errorOf, json, modelsListed } from '../support/with-gateway.ts';

/** No key, a key without dashboard access, an admin of /team, an admin of everything, the master key. */
const callers = ['no key', 'plain key', 'scoped admin', 'global admin', 'master'] as const;
type Answers = readonly [number, number, number, number, number];

interface Row {
  /** As it is registered. */
  readonly route: `${'GET' | 'POST' | 'PUT' | 'DELETE'} /${string}`;
  readonly answers: Answers;
  /** What stands for the parameters and the query, when it is not the registered path itself. */
  readonly path?: string | (() => string);
  readonly body?: unknown;
  /** As the master, before each caller's request: what it needs to be there. */
  readonly given?: { readonly method?: string; readonly path: string; readonly body?: unknown };
}

/** Nobody without a key, nobody without dashboard access; then an admin of a subtree, an admin of all, the master. */
const scoped = (status: number): Answers => [401, 403, status, status, status];
const global = (status: number): Answers => [401, 403, 403, status, status];

let teamKey = '';

const table: readonly Row[] = [
  { route: 'GET /admin/live/logs', answers: global(200) },

  // History.
  {
    route: 'GET /admin/explain',
    path: () => `/admin/explain?model=llamacpp/simulated-small&key=${teamKey}`,
    answers: scoped(200),
  },
  { route: 'GET /admin/history', path: () => `/admin/history?subject=key:${teamKey}`, answers: scoped(200) },

  // The audit log, without an analytics to ask.
  { route: 'GET /admin/audit/log', answers: scoped(200) },
  { route: 'GET /admin/audit/sessions', answers: scoped(200) },
  { route: 'GET /admin/audit/stats', answers: scoped(200) },
  { route: 'GET /admin/audit/detail', path: '/admin/audit/detail?log_id=none', answers: scoped(404) },
  {
    route: 'GET /admin/audit/conversation',
    path: '/admin/audit/conversation?log_id=none',
    answers: [401, 403, 404, 200, 200],
  },
  { route: 'GET /admin/audit/export', answers: scoped(503) },
  { route: 'POST /admin/sql', body: { query: 'SELECT 1' }, answers: global(503) },

  // Providers, models, switches, tags.
  { route: 'GET /admin/providers/status', answers: global(200) },
  { route: 'GET /admin/provider-credentials', answers: global(200) },
  { route: 'GET /admin/provider-credentials/types', answers: global(200) },
  {
    route: 'PUT /admin/provider-credentials',
    body: { name: 'another', type: 'vllm', base_url: 'http://192.0.2.1/v1', enabled: false },
    answers: global(200),
  },
  {
    route: 'DELETE /admin/provider-credentials/:name',
    given: {
      method: 'PUT',
      path: '/admin/provider-credentials',
      body: { name: 'removed', type: 'vllm', base_url: 'http://192.0.2.1/v1', enabled: false },
    },
    path: '/admin/provider-credentials/removed',
    answers: global(204),
  },
  { route: 'GET /admin/models', answers: scoped(200) },
  { route: 'GET /admin/models/categories', answers: scoped(200) },
  { route: 'GET /admin/runtime/config', answers: scoped(200) },
  { route: 'GET /admin/runtime/settings', answers: global(200) },
  { route: 'PUT /admin/runtime/settings/:key', body: { value: 'on' }, answers: global(404) },
  { route: 'POST /admin/runtime/refresh', answers: global(200) },
  { route: 'GET /admin/tagging/settings', answers: global(200) },
  { route: 'PUT /admin/tagging/settings', body: { headers: [] }, answers: global(200) },

  // Usage.
  { route: 'GET /admin/usage/summary', answers: scoped(200) },
  { route: 'GET /admin/usage/daily', answers: scoped(200) },
  { route: 'GET /admin/usage/models', answers: scoped(200) },
  { route: 'GET /admin/usage/user-paths', answers: scoped(200) },
  { route: 'GET /admin/usage/labels', answers: scoped(200) },
  { route: 'GET /admin/usage/sessions', answers: scoped(200) },
  { route: 'GET /admin/usage/log', answers: scoped(200) },
  { route: 'GET /admin/usage/throughput', path: '/admin/usage/throughput?granularity=hour', answers: global(200) },
  { route: 'GET /admin/cache/overview', answers: global(503) },

  // Access, keys, users.
  { route: 'GET /admin/access', answers: scoped(200) },
  { route: 'GET /admin/auth-keys', answers: scoped(200) },
  { route: 'POST /admin/auth-keys', body: { name: 'another' }, answers: scoped(201) },
  {
    route: 'PUT /admin/auth-keys/labels/rename',
    body: { from: 'no such label', to: 'another' },
    answers: scoped(200),
  },
  {
    route: 'PUT /admin/auth-keys/:id/labels',
    path: () => `/admin/auth-keys/${teamKey}/labels`,
    body: { labels: ['a'] },
    answers: scoped(200),
  },
  {
    route: 'PUT /admin/auth-keys/:id/allowed-models',
    path: () => `/admin/auth-keys/${teamKey}/allowed-models`,
    body: { allowed_models: [] },
    answers: scoped(200),
  },
  {
    route: 'PUT /admin/auth-keys/:id/dashboard-access',
    path: () => `/admin/auth-keys/${teamKey}/dashboard-access`,
    body: { dashboard_access: false },
    answers: scoped(200),
  },
  {
    route: 'PUT /admin/auth-keys/:id/user-path-header',
    path: () => `/admin/auth-keys/${teamKey}/user-path-header`,
    body: { user_path_header: false },
    answers: scoped(200),
  },
  {
    route: 'POST /admin/auth-keys/:id/deactivate',
    path: () => `/admin/auth-keys/${teamKey}/deactivate`,
    answers: scoped(204),
  },
  { route: 'GET /admin/users', answers: scoped(200) },
  { route: 'PUT /admin/users', body: { user_path: '/team/a', allowed_models: [] }, answers: scoped(200) },
  {
    route: 'DELETE /admin/users',
    given: { method: 'PUT', path: '/admin/users', body: { user_path: '/team/b', allowed_models: [] } },
    path: '/admin/users?user_path=/team/b',
    answers: scoped(200),
  },

  // Prices.
  { route: 'GET /admin/model-pricing-overrides', answers: global(200) },
  {
    route: 'PUT /admin/model-pricing-overrides',
    body: { selector: 'llamacpp/tiny', pricing: { input_per_mtok: 1 } },
    answers: global(200),
  },
  {
    route: 'DELETE /admin/model-pricing-overrides',
    given: {
      method: 'PUT',
      path: '/admin/model-pricing-overrides',
      body: { selector: 'of-a-moment', pricing: { per_request: 1 } },
    },
    body: { selector: 'of-a-moment' },
    answers: global(204),
  },
  {
    route: 'POST /admin/usage/recalculate-pricing',
    body: { confirmation: 'recalculate', days: 1 },
    answers: global(200),
  },

  // Budgets and rate limits.
  { route: 'GET /admin/budgets', answers: scoped(200) },
  {
    route: 'PUT /admin/budgets',
    body: { user_path: '/team/a', budget_key: { period: 'daily' }, amount: 10 },
    answers: scoped(200),
  },
  {
    route: 'DELETE /admin/budgets',
    given: { method: 'PUT', path: '/admin/budgets/%2Fteam%2Fb/daily', body: { amount: 10 } },
    body: { user_path: '/team/b', budget_key: { period: 'daily' } },
    answers: scoped(200),
  },
  {
    route: 'PUT /admin/budgets/:user_path/:period',
    path: '/admin/budgets/%2Fteam%2Fa/weekly',
    body: { amount: 10 },
    answers: scoped(200),
  },
  {
    route: 'DELETE /admin/budgets/:user_path/:period',
    given: { method: 'PUT', path: '/admin/budgets/%2Fteam%2Fb/weekly', body: { amount: 10 } },
    path: '/admin/budgets/%2Fteam%2Fb/weekly',
    answers: scoped(200),
  },
  { route: 'GET /admin/budgets/settings', answers: scoped(200) },
  { route: 'PUT /admin/budgets/settings', body: { daily_reset_hour: 0 }, answers: global(200) },
  {
    route: 'POST /admin/budgets/reset-one',
    given: { method: 'PUT', path: '/admin/budgets/%2Fteam%2Fb/monthly', body: { amount: 10 } },
    body: { user_path: '/team/b', period: 'monthly' },
    answers: scoped(200),
  },
  { route: 'POST /admin/budgets/reset', body: { confirmation: 'reset' }, answers: global(200) },
  { route: 'GET /admin/rate-limits', answers: scoped(200) },
  {
    route: 'PUT /admin/rate-limits',
    body: { user_path: '/team/a', limit_key: { period: 'minute' }, max_requests: 1000 },
    answers: scoped(200),
  },
  {
    route: 'DELETE /admin/rate-limits',
    given: {
      method: 'PUT',
      path: '/admin/rate-limits',
      body: { user_path: '/team/b', limit_key: { period: 'hour' }, max_requests: 1000 },
    },
    body: { user_path: '/team/b', limit_key: { period: 'hour' } },
    answers: scoped(200),
  },
  {
    route: 'POST /admin/rate-limits/reset-one',
    given: {
      method: 'PUT',
      path: '/admin/rate-limits',
      body: { user_path: '/team/b', limit_key: { period: 'day' }, max_requests: 1000 },
    },
    body: { user_path: '/team/b', period: 'day' },
    answers: scoped(200),
  },
  { route: 'POST /admin/rate-limits/reset', body: { confirmation: 'reset' }, answers: global(200) },

  // Virtual models.
  { route: 'GET /admin/virtual-models', answers: global(200) },
  { route: 'PUT /admin/virtual-models', body: { source: 'alias', target_model: 'any' }, answers: global(200) },
  {
    route: 'DELETE /admin/virtual-models',
    given: { method: 'PUT', path: '/admin/virtual-models', body: { source: 'gone', target_model: 'any' } },
    body: { source: 'gone' },
    answers: global(204),
  },
];

let gateway: TestGateway;
const keys: Record<(typeof callers)[number], string | undefined> = {
  'no key': undefined,
  'plain key': '',
  'scoped admin': '',
  'global admin': '',
  master: 'test-master-key',
};
const servers: RegisteredRoute[][] = [];

const watch = (message: unknown) => {
  const routes: RegisteredRoute[] = [];
  servers.push(routes);
  (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', ({ method, url }) => {
    routes.push({ method, url });
  });
};

async function newKey(body: object): Promise<{ id: string; value: string }> {
  const answer = await gateway.fetch('/admin/auth-keys', { json: body });
  expect(answer.status).toBe(201);
  return json(answer);
}

beforeAll(async () => {
  subscribe('fastify.initialization', watch);
  gateway = await startTestGateway();
  unsubscribe('fastify.initialization', watch);
  await modelsListed(gateway);
  keys['plain key'] = (await newKey({ name: 'plain' })).value;
  keys['scoped admin'] = (await newKey({ name: 'scoped', user_path: '/team', dashboard_access: true })).value;
  keys['global admin'] = (await newKey({ name: 'global', dashboard_access: true })).value;
  teamKey = (await newKey({ name: 'of the team', user_path: '/team' })).id;
});
afterAll(() => gateway.close());

/** Every `METHOD /path` of the admin API as it was registered, under `/admin` and under its older name. */
function registered(prefix: '/admin/' | '/admin/api/v1/'): string[] {
  const routes = servers.find((one) => one.some(({ url }) => url === '/openapi.json')) ?? [];
  return routes
    .filter(({ url }) => url.startsWith(prefix) && (prefix !== '/admin/' || !url.startsWith('/admin/api/v1/')))
    .flatMap(({ method, url }) => [method].flat().map((one) => `${one} ${url}`))
    .filter((route) => !route.startsWith('HEAD ') && !OPEN_TO_ALL.test(route))
    .sort();
}

/** The dashboard's own pages, which need no key. */
const OPEN_TO_ALL = /^GET \/admin\/(dashboard|static)/;

async function call(
  { route, path, body }: Row,
  caller: (typeof callers)[number],
  prefix = '/admin/',
): Promise<Response> {
  const [method = 'GET', url = ''] = route.split(' ');
  const asked = path === undefined ? url : typeof path === 'string' ? path : path();
  const stop = new AbortController();
  const key = keys[caller];
  const answer = await fetch(`${gateway.url}${asked.replace('/admin/', prefix)}`, {
    method,
    signal: stop.signal,
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  // A stream without an end was begun, and that is all there is to know.
  if (answer.headers.get('content-type')?.startsWith('text/event-stream')) stop.abort();
  return answer;
}

const codes: Record<string, string> = {
  'no key': 'missing_credentials',
  'plain key': 'dashboard_access_denied',
  'scoped admin': 'admin_scope_denied',
};

/** The answer is one that the description of the API tells of, with all its members and no other. */
async function expectAsDescribed(route: string, answer: Response): Promise<void> {
  const [method = '', url = ''] = route.split(' ');
  const path = url.replaceAll(/:(\w+)/g, '{$1}');
  const operation = operations.find((one) => one.path === path && one.methods.includes(method));
  const { success, otherAnswers = {}, errors = [] } = operation ?? {};
  const statuses = [success?.status ?? 200, ...Object.keys(otherAnswers).map(Number), ...errors];
  expect(statuses, route).toContain(answer.status);
  const schema = success?.content?.['application/json'];
  if (!answer.ok || !(schema instanceof z.ZodType)) return;
  const told = await json(answer);
  // What a schema does not know, it leaves out.
  expect(schema.parse(told), route).toEqual(told);
}

describe('the table of admin routes', () => {
  it('has every route that there is, and no other', () => {
    expect(registered('/admin/')).toEqual(table.map(({ route }) => route as string).sort());
  });

  it('has no route twice', () => {
    expect(new Set(table.map(({ route }) => route)).size).toBe(table.length);
  });
});

describe('the older name of the admin API', () => {
  it('has every route of the newer one', () => {
    const older = registered('/admin/api/v1/').map((route) => route.replace('/admin/api/v1/', '/admin/'));
    expect(older.filter((route) => !ONLY_OLDER.test(route))).toEqual(registered('/admin/'));
  });
});

/** What had moved before the older name was given up. */
const ONLY_OLDER = /^GET \/admin\/dashboard\/config$/;

describe.each(table.map((row) => [row.route, row] as const))('%s', (_route, row) => {
  it.each(callers.map((caller, place) => [caller, row.answers[place]] as const))(
    'answers %s with %i',
    async (caller, status) => {
      if (row.given !== undefined) {
        const { path, body, method = 'POST' } = row.given;
        const prepared = await gateway.fetch(path, { method, json: body });
        expect(prepared.status).toBeLessThan(300);
      }
      const answer = await call(row, caller);
      if (status === 401 || status === 403) {
        expect(await errorOf(answer, status)).toMatchObject({ code: codes[caller] });
      } else {
        expect({ status: answer.status, text: answer.status === status ? '' : await answer.text() }).toEqual({
          status,
          text: '',
        });
        await expectAsDescribed(row.route, answer);
      }
    },
  );

  it('is guarded under its older name too, and says that it is old', async () => {
    const answer = await call(row, 'plain key', '/admin/api/v1/');
    expect(answer.status).toBe(403);
    expect(answer.headers.get('deprecation')).toBe('true');
    expect(answer.headers.get('sunset')).toBe('Sun, 09 Aug 2026 00:00:00 GMT');
    expect(answer.headers.get('link')).toBe('</admin/>; rel="successor-version"');
  });
});
