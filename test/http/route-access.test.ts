/**
 * Access to the routes of /v1, /p and /admin: every route of the running gateway is in the table, with the answer for
 * each caller, and every answer is tried over HTTP.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { servedApiDocument } from '../../scripts/api-document.ts';
import type { AccessClass } from '../../src/http/auth.ts';
import { writeDashboard } from '../support/built-dashboard.ts';
import { MASTER_KEY, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { pairsOf, someOf } from '../support/seed.ts';
import { errorOf, json, modelsListed } from '../support/with-gateway.ts';
import { adminRoutes } from './route-access/admin-routes.ts';
import { browserRoutes } from './route-access/browser-routes.ts';
import { mcpRoutes } from './route-access/mcp-routes.ts';
import { passthroughRoutes } from './route-access/passthrough-routes.ts';
import { type CallerName, callers, type Row } from './route-access/row.ts';
import { v1Routes } from './route-access/v1-routes.ts';

const document = await servedApiDocument();
const table: readonly Row[] = [...v1Routes, ...mcpRoutes, ...passthroughRoutes, ...adminRoutes, ...browserRoutes];

interface Registered {
  readonly method: string;
  readonly url: string;
  readonly access: AccessClass | undefined;
}

const servers: Registered[][] = [];
const watch = (message: unknown) => {
  const routes: Registered[] = [];
  servers.push(routes);
  (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', ({ method, url, config }) => {
    for (const one of [method].flat()) routes.push({ method: one, url, access: config?.access });
  });
};

/** It must not end before it is cancelled, however slow the machine is. */
const native = createSimulatedProvider({ apiKey: 'sk-native', backgroundMs: 3_600_000 });
let echo: ScriptedProvider;
let gateway: TestGateway;
let dashboardFolder: string;
const keyAt = new Map<string, string>();
const keys = new Map<CallerName, string>([['master', MASTER_KEY]]);

async function newKey(body: object): Promise<string> {
  const answer = await gateway.fetch('/admin/auth-keys', { json: { name: 'a key', ...body } });
  expect(answer.status).toBe(201);
  return (await json(answer)).value;
}

beforeAll(async () => {
  echo = await startScriptedProvider();
  const answer = JSON.stringify({ choices: [{ index: 0, text: 'hi', finish_reason: 'stop' }] });
  echo.script((_request, response) => response.writeHead(200, { 'content-type': 'application/json' }).end(answer));
  const nativeUrl = await native.listen();
  dashboardFolder = writeDashboard(mkdtempSync(join(tmpdir(), 'chancery-dashboard-')));
  subscribe('fastify.initialization', watch);
  gateway = await startTestGateway({
    dashboardFolder,
    register: (url) => ({
      LLAMACPP_BASE_URL: url,
      OPENAI_BASE_URL: nativeUrl,
      OPENAI_API_KEY: 'sk-native',
      OPENAI_ECHO_BASE_URL: echo.url,
      OPENAI_ECHO_API_KEY: 'sk-echo',
    }),
    env: { PLUGINS_ENABLED: 'true', RESPONSE_CACHE_ENABLED: 'true' },
  });
  unsubscribe('fastify.initialization', watch);
  await modelsListed(gateway, 3);
  keys.set('unbound plain key', await newKey({}));
  keys.set('bound plain key', await newKey({ user_path: '/team/a' }));
  keys.set("other tenant's key", await newKey({ user_path: '/rival' }));
  keys.set('scoped admin', await newKey({ user_path: '/team', dashboard_access: true }));
  keys.set('global admin', await newKey({ dashboard_access: true }));
  for (const path of ['/team/a', '/third']) keyAt.set(path, await newKey({ user_path: path }));
});
afterAll(async () => {
  await gateway.close();
  await echo.close();
  await native.close();
  rmSync(dashboardFolder, { recursive: true });
});

/** Of the gateway alone: the simulated provider of a test may be a server of the same kind. */
const registered = (): readonly Registered[] =>
  servers.find((one) => one.some(({ url }) => url === '/openapi.json')) ?? [];
const isOlder = ({ url }: Registered) => url.startsWith('/admin/api/v1/');
const isInTable = (one: Registered) => /^\/(v1|p|admin|mcp)(\/|$)/.test(one.url) && !isOlder(one);
/** Fastify adds a HEAD route for a GET route: it has the same class, as `access-class.test.ts` shows. */
const isAdded = ({ method, url }: Registered) =>
  method === 'HEAD' && registered().some((one) => one.url === url && one.method === 'GET') && !url.startsWith('/p/');
const nameOf = ({ method, url }: Pick<Registered, 'method' | 'url'>) => `${method} ${url}`;

describe('the table', () => {
  it('has every route that the running gateway has, and no other', () => {
    const there = registered().filter((one) => isInTable(one) && !isAdded(one));
    expect(there.length).toBeGreaterThan(90);
    const rows = [...new Set<string>(table.map(({ route }) => route))];
    expect(there.map(nameOf).sort()).toEqual(rows.sort());
  });

  it('has no duplicate row', () => {
    const names = table.map(({ route, about }) => `${route} ${about ?? ''}`);
    expect(new Set(names).size).toBe(names.length);
  });

  it('expects the answers that the access class of each route defines', () => {
    const classes = new Map(registered().map((one) => [nameOf(one), one.access]));
    for (const { route, answers } of table) {
      const [noKey, unbound, bound, other, scoped, global, master] = answers;
      const access = classes.get(route);
      if (access === 'public') {
        expect(new Set(answers).size, route).toBe(1);
        continue;
      }
      expect(noKey, route).toBe(401);
      if (access === 'scoped-admin' || access === 'global-admin') {
        expect([unbound, bound, other], route).toEqual([403, 403, 403]);
      }
      if (access === 'global-admin') expect(scoped, route).toBe(403);
      expect(global, route).toBe(master);
    }
  });
});

describe('the older path of the admin API', () => {
  it('has every route of the newer one, with the same class', async () => {
    // Its routes are registered with the first request.
    subscribe('fastify.initialization', watch);
    expect((await gateway.fetch('/admin/api/v1/access')).status).toBe(200);
    unsubscribe('fastify.initialization', watch);
    const newer = registered().filter(
      (one) => one.url.startsWith('/admin/') && one.access !== 'public' && !isOlder(one),
    );
    const older = servers.flat().filter(isOlder);
    const describeOf = ({ method, url, access }: Registered) =>
      `${method} ${url.replace('/admin/api/v1/', '/admin/')} ${access}`;
    const moved = 'GET /admin/dashboard/config scoped-admin';
    const names = older.map(describeOf).filter((name) => name !== moved);
    expect(names.sort()).toEqual(newer.map(describeOf).sort());
  });
});

function target({ route, path }: Row, id: string): string {
  const [, url = ''] = route.split(' ');
  return path === undefined ? url.replace(':id', id) : path(id);
}

async function call(row: Row, id: string, caller: CallerName, url = target(row, id)): Promise<Response> {
  const stop = new AbortController();
  const headers = new Headers();
  const key = keys.get(caller);
  if (key !== undefined) headers.set('authorization', `Bearer ${key}`);
  const body = row.body?.(id);
  const isForm = body instanceof FormData;
  if (body !== undefined && !isForm) headers.set('content-type', 'application/json');
  const answer = await fetch(`${gateway.url}${url}`, {
    method: row.route.split(' ')[0] ?? 'GET',
    signal: stop.signal,
    headers,
    ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
  });
  // A stream without an end has begun; there is no body to check.
  if (answer.headers.get('content-type')?.startsWith('text/event-stream')) stop.abort();
  return answer;
}

/** The error of a refusal, in OpenAI's envelope. */
async function expectRefusal(answer: Response, status: number): Promise<void> {
  const { type, code } = await errorOf(answer, status);
  if (status === 401) expect([type, code]).toEqual(['authentication_error', 'missing_credentials']);
  if (status === 404) expect(type).toBe('not_found_error');
  if (status === 403) expect(type).toBe('permission_error');
  const reasons = /^(dashboard_access_denied|admin_scope_denied|user_path_out_of_scope|passthrough_scope_denied)$/;
  if (status === 403) expect(code).toMatch(reasons);
}

/** The answer has a status that the route declares. Its body is compared with the schema by the test gateway. */
function expectAsDeclared(route: string, answer: Response): void {
  const [method = '', url = ''] = route.split(' ');
  if (!url.startsWith('/admin/')) return;
  const operation = document.paths[url.replaceAll(/:(\w+)/g, '{$1}').replace('*', '{path}')]?.[method.toLowerCase()];
  expect(Object.keys(operation?.['responses'] ?? {}), route).toContain(String(answer.status));
}

const titleOf = ({ route, about }: Row) => `${route}${about === undefined ? '' : ` (${about})`}`;

/** Of each row, callers that are answered and callers that are refused. */
const cases = pairsOf(
  table,
  callers.map((caller, place) => ({ caller, place })),
).map(([row, { caller, place }]) => ({ name: titleOf(row), row, caller, place, status: row.answers[place] ?? 0 }));
const someCases = someOf(cases, ({ row, caller, status }) => [`${table.indexOf(row)} ${status}`, caller]);

it.each(someCases)('$name answers $caller with $status', async ({ row, caller, place, status }) => {
  const id = (await row.make?.({ gateway, keyAt })) ?? '';
  const answer = await call(row, id, caller);
  // An endless answer has been aborted.
  const text = row.route === 'GET /admin/live/logs' && answer.ok ? '' : await answer.clone().text();
  expect({ status: answer.status, text: answer.status === status ? '' : text }).toEqual({ status, text: '' });
  if (row.shows !== undefined) expect(text.includes(id), text).toBe(row.shows[place]);
  if (row.route.startsWith('HEAD ') || row.route.includes(' /v1/messages')) return;
  if ([401, 403, 404].includes(status)) await expectRefusal(answer, status);
  else expectAsDeclared(row.route, answer);
});

const alsoUnderOlderPath = table.filter((row) => row.route.includes(' /admin/') && !browserRoutes.includes(row));
it.each(alsoUnderOlderPath.map((row) => [titleOf(row), row] as const))(
  '%s is guarded under its older path too, and marked as deprecated',
  async (_name, row) => {
    const path = target(row, 'none');
    const answer = await call(row, '', 'bound plain key', path.replace('/admin/', '/admin/api/v1/'));
    expect(answer.status).toBe(403);
    expect(answer.headers.get('deprecation')).toBe('true');
    expect(answer.headers.get('sunset')).toBe('Sun, 09 Aug 2026 00:00:00 GMT');
    expect(answer.headers.get('link')).toBe(`<${path.split('?')[0]}>; rel="successor-version"`);
  },
);
