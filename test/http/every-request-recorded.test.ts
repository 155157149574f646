/** Every request with a valid key is recorded, on every route: in an exchange, in an event of its own, or counted. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RecordedEvent } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';
import type { AccessClass } from '../../src/http/auth.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { json, modelsListed } from '../support/with-gateway.ts';

interface Registered {
  readonly method: string;
  readonly url: string;
  readonly access: AccessClass | undefined;
}

const dataDir = mkdtempSync(join(tmpdir(), 'chancery-every-request-'));
const servers: Registered[][] = [];
const events: RecordedEvent[] = [];
const sent: { route: string; id: string; status: number; exchange: string | null }[] = [];
let key = '';
let scrape = '';

const watch = (message: unknown) => {
  const routes: Registered[] = [];
  servers.push(routes);
  (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', ({ method, url, config }) => {
    for (const one of [method].flat()) routes.push({ method: one, url, access: config?.access });
  });
};

async function send(gateway: TestGateway, route: string, path: string, method: string, init: RequestInit = {}) {
  const id = `request-${sent.length}`;
  const stop = new AbortController();
  const headers = new Headers({ authorization: `Bearer ${key}`, 'x-request-id': id, ...Object(init.headers) });
  const answer = await fetch(`${gateway.url}${path}`, { ...init, method, headers, signal: stop.signal });
  if (answer.headers.get('content-type')?.startsWith('text/event-stream')) stop.abort();
  else await answer.arrayBuffer();
  sent.push({ route, id, status: answer.status, exchange: answer.headers.get('x-exchange-id') });
}

/** Each kind of refusal under `/p`, and before an exchange begins. */
const refusedRequests: [string, string, string, RequestInit?][] = [
  ['an unknown provider', 'GET', '/p/nowhere/models'],
  ['a path with dots', 'GET', '/p/llamacpp/%2e%2e/models'],
  ['a path that is not stateless', 'GET', '/p/llamacpp/slots'],
  ['a type that is not enabled for passthrough', 'GET', '/p/closed/models'],
  ['a provider whose models are denied', 'POST', '/p/denied/tokenize', { body: '{}' }],
  ['a body over the limit', 'POST', '/v1/chat/completions', { body: 'x'.repeat(5000) }],
  ['an unknown route', 'GET', '/v1/nothing'],
  ['a wrong method', 'PUT', '/v1/models'],
  ['an address that cannot be read', 'GET', '/v1/models/%zz'],
  ['a body that is not JSON', 'POST', '/v1/conversations', { body: '{"secret-of-mine"' }],
];

beforeAll(async () => {
  subscribe('fastify.initialization', watch);
  const gateway = await startTestGateway({
    dataDir,
    env: { LOGGING_REFUSALS_PER_MINUTE: '40', BODY_SIZE_LIMIT: '4K' },
    register: (url) => ({
      LLAMACPP_BASE_URL: url,
      LLAMACPP_DENIED_BASE_URL: url,
      LLAMACPP_DENIED_NAME: 'denied',
      OLLAMA_CLOSED_BASE_URL: url,
      PASSTHROUGH_PROVIDERS: 'llamacpp',
    }),
  });
  unsubscribe('fastify.initialization', watch);
  await modelsListed(gateway, 2);
  const made = await gateway.fetch('/admin/auth-keys', { json: { name: 'a', allowed_models: ['llamacpp/'] } });
  key = (await json(made)).value;
  for (const [about, method, path, init] of refusedRequests) await send(gateway, about, path, method, init);
  const routes = servers.find((one) => one.some(({ url }) => url === '/openapi.json')) ?? [];
  for (const { method, url, access } of routes) {
    if (access === 'public') continue;
    const path = url.replace(/:\w+|\*/g, 'x');
    await send(gateway, `${method} ${url}`, path, method, method === 'POST' ? { body: '{}' } : {});
  }
  const left = await json(await gateway.fetch('/admin/auth-keys', { json: { name: 'b', dashboard_access: true } }));
  await gateway.fetch(`/admin/auth-keys/${left.id}/rotate`, { json: { grace_seconds: 60 } });
  await gateway.fetch('/admin/auth-keys', { headers: { authorization: `Bearer ${left.value}` } });
  scrape = await (await gateway.fetch('/metrics')).text();
  await gateway.close();
  const log = await openLog(`file:${join(dataDir, 'log')}`, { readOnly: true });
  for await (const event of log.readAll()) events.push(event);
  await log.close();
}, 60_000);
afterAll(() => rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 }));

const isClientApi = (route: string) => /^\w+ \/(v1|p)\//.test(route);
const isCounted = ({ type }: RecordedEvent) => type === 'requests.refused' || type === 'requests.answered';
const countsOf = (type: string) =>
  events.filter((event) => event.type === type).map(({ data }) => data as { count: number; endpoint?: string });

describe('a request with a valid key', () => {
  it.each(refusedRequests.map(([about]) => about))('is recorded when it is refused: %s', (about) => {
    const request = sent.find(({ route }) => route === about);
    expect(request?.status).toBeGreaterThanOrEqual(400);
    expect(request?.exchange).toEqual(expect.any(String));
    const types = events.filter(({ stream }) => stream === `exchange-${request?.exchange}`);
    // Under /p/ the provider is on record, too.
    const withoutProvider = types.filter(({ type }) => type !== 'model.resolved');
    expect(withoutProvider.map(({ type }) => type)).toEqual(['request.received', 'request.refused']);
    expect(types.every(({ context }) => context.requestId === request?.id && context.actor.startsWith('key:'))).toBe(
      true,
    );
    expect(withoutProvider[1]?.data).toMatchObject({ status: request?.status });
    expect(types[0]?.body?.length ?? 0).toBeLessThan(5000);
  });

  it('is recorded on every route', () => {
    const alone = new Set(events.filter((event) => !isCounted(event)).map(({ context }) => context.requestId));
    const answered = new Set(countsOf('requests.answered').map(({ endpoint }) => endpoint));
    const routes = sent.slice(refusedRequests.length);
    expect(routes.length).toBeGreaterThan(150);
    const missing = routes.filter(({ route, id, status }) => {
      const isRefused = isClientApi(route) && status >= 400;
      return !alone.has(id) && !isRefused && !answered.has(route.slice(route.indexOf(' ') + 1));
    });
    expect(missing).toEqual([]);
    // Each refused request is recorded once: alone, or in a count.
    const refusedAlone = events.filter(({ type }) => type === 'request.refused').length;
    const counted = countsOf('requests.refused').reduce((sum, { count }) => sum + count, 0);
    const refused = [
      ...sent.slice(0, refusedRequests.length),
      ...routes.filter(({ route }) => isClientApi(route)),
    ].filter(({ status }) => status >= 400);
    expect(counted).toBe(refused.filter(({ id, exchange }) => exchange === null || !alone.has(id)).length);
    expect(refusedAlone + counted).toBe(refused.length);
  });

  it('is counted with its status and code when the admin API refuses it, and not among model requests', () => {
    const denied = events
      .filter(({ type, context }) => type === 'requests.answered' && context.actor.startsWith('key:'))
      .map(({ data }) => data as { endpoint: string; status: number; code?: string });
    expect(denied).toContainEqual(
      expect.objectContaining({
        endpoint: '/admin/users',
        method: 'GET',
        status: 403,
        code: 'dashboard_access_denied',
      }),
    );
    expect(denied).toContainEqual(
      expect.objectContaining({ endpoint: '/admin/auth-keys', status: 403, code: 'previous_secret_denied' }),
    );
    const paths = events
      .filter(({ type }) => type === 'request.received')
      .map(({ data }) => (data as { path: string }).path);
    expect(paths.filter((path) => path.startsWith('/admin'))).toEqual([]);
    expect(scrape).not.toMatch(/gateway_requests_total\{[^}]*endpoint="\/admin/);
  });

  it('leaves nothing of a refused body on record', () => {
    expect(events.some((event) => JSON.stringify(event.data).includes('secret-of-mine'))).toBe(false);
  });
});
