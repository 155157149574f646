/** Rate limits apply to every writing route of the /v1 API, without a declaration of the route. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { refusals } from '../../src/commands/refusal.ts';
import { everything } from '../../src/commands/visibility.ts';

const anyKey = { config: { access: 'any-key' } } as const;

import { createServer } from '../../src/http/server.ts';
import { unbounded } from '../../src/json/body-scan.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { errorOf, json, modelsListed, user } from '../support/with-gateway.ts';

const MODEL = 'llamacpp/simulated-small';
const WRITING = ['POST', 'PUT', 'PATCH', 'DELETE'];
const FORMS = ['/v1/files', '/v1/audio/transcriptions', '/v1/audio/translations', '/v1/realtime/calls'];
const servers: { method: string; url: string }[][] = [];
let gateway: TestGateway;

const watch = (message: unknown) => {
  const routes: { method: string; url: string }[] = [];
  servers.push(routes);
  (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', ({ method, url }) => {
    for (const one of [method].flat()) routes.push({ method: one, url });
  });
};

beforeAll(async () => {
  subscribe('fastify.initialization', watch);
  const register = (url: string) => ({ LLAMACPP_BASE_URL: url, OPENAI_BASE_URL: url, OPENAI_API_KEY: 'sk-any' });
  gateway = await startTestGateway({ register });
  unsubscribe('fastify.initialization', watch);
  await modelsListed(gateway, 2);
});
afterAll(() => gateway.close());

const at = (path: string) => ({ 'x-gateway-user-path': path });

function limit(path: string, rule: object): Promise<Response> {
  return gateway.fetch('/admin/rate-limits', { method: 'PUT', json: { user_path: path, ...rule } });
}

/** A body that every route accepts up to the check of its limits. */
function bodyFor(url: string, file = ''): { body: string | FormData; headers: Record<string, string> } {
  if (FORMS.includes(url)) {
    const form = new FormData();
    form.set('model', MODEL);
    form.set('purpose', 'batch');
    form.set('sdp', 'v=0');
    form.set('session', JSON.stringify({ model: MODEL }));
    if (url === '/v1/files') form.set('provider', 'openai');
    form.set('file', new Blob(['{}']), 'a.jsonl');
    return { body: form, headers: {} };
  }
  const requestBody = { model: MODEL, messages: user('hi'), input: 'hi', prompt: 'hi', voice: 'v', max_tokens: 9 };
  const batch = { input_file_id: file, provider: 'openai', endpoint: '/v1/chat/completions' };
  const messages = {
    requests: [
      { custom_id: 'a', params: { model: MODEL.replace('llamacpp', 'openai'), max_tokens: 9, messages: user('hi') } },
    ],
  };
  const bodies: Record<string, object> = { '/v1/batches': batch, '/v1/messages/batches': messages };
  const body = JSON.stringify(bodies[url] ?? requestBody);
  return { body, headers: { 'content-type': 'application/json' } };
}

describe('a user path that has used up its rate limit', () => {
  it('is refused by every writing route of /v1', async () => {
    expect((await limit('/used', { limit_key: { period: 'hour' }, max_requests: 2 })).status).toBe(200);
    const first = await gateway.fetch('/v1/conversations', { json: {}, headers: at('/used') });
    expect(first.status).toBe(200);
    const { body: form } = bodyFor('/v1/files');
    const upload = await gateway.fetch('/v1/files', { method: 'POST', body: form, headers: at('/used') });
    const { id: file } = await json(upload);
    expect(upload.status).toBe(200);
    const routes = (servers.find((one) => one.some(({ url }) => url === '/openapi.json')) ?? []).filter(
      ({ method, url }) => url.startsWith('/v1/') && WRITING.includes(method),
    );
    expect(routes.length).toBeGreaterThan(15);
    for (const { method, url } of routes) {
      const path = url.replaceAll(/:\w+/g, 'some_id');
      const { body, headers } = bodyFor(url, file);
      const answer = await gateway.fetch(path, {
        method,
        headers: { ...headers, ...at('/used') },
        ...(method === 'DELETE' ? {} : { body }),
      });
      const { error } = await json(answer);
      expect([method, url, answer.status, error?.type]).toEqual([method, url, 429, 'rate_limit_error']);
    }
  });

  it('can still read', async () => {
    expect((await gateway.fetch('/v1/models', { headers: at('/used') })).status).toBe(200);
  });
});

describe('a request without an exchange', () => {
  it('counts in periods and not among concurrent requests', async () => {
    await limit('/both', { limit_key: { period: 'hour' }, max_requests: 3 });
    await limit('/both', { limit_key: { period: 'concurrent' }, max_requests: 1 });
    const create = () => gateway.fetch('/v1/conversations', { json: {}, headers: at('/both') });
    for (let requests = 0; requests < 3; requests++) expect((await create()).status).toBe(200);
    const refused = await create();
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(await errorOf(refused, 429)).toMatchObject({ code: 'rate_limit_exceeded' });
  });
});

describe('a new route', () => {
  const admitted: string[] = [];
  const app = createServer({
    bodyMemoryBytes: 16 * 1024 * 1024,
    bodyLimits: { model: 1000, audio: 1000, image: 1000, file: 1000, other: 1000 },
    bodyBounds: unbounded,
    maxHeaderBytes: 16_384,
    headersTimeoutMs: 1000,
    requestTimeoutMs: 1000,
    authenticator: {
      authenticate: () => ({ actor: 'master', authMethod: 'no_key', visibility: everything }),
      authenticateScraper: () => undefined,
    },
    recorder: { answered: () => {}, refused: async () => undefined },
    admitRequest(_caller, { url }) {
      admitted.push(url);
      throw refusals.rateLimitExceeded('full', 1);
    },
    isStopping: () => false,
    logError: () => {},
  });
  afterAll(() => app.close());

  it('under /v1 is limited unless it only reads, or declares that its exchange is limited', async () => {
    app.register(async (scope) => {
      scope.post('/v1/new', anyKey, () => 'done');
    });
    app.route({ method: ['GET', 'PUT'], url: '/v1/mixed', ...anyKey, handler: () => 'done' });
    app.get('/v1/read', anyKey, () => 'done');
    app.post('/v1/exchange', { config: { access: 'any-key', limits: 'exchange' } }, () => 'done');
    app.post('/other', anyKey, () => 'done');
    const statuses = [];
    for (const [method, url] of [
      ['POST', '/v1/new'],
      ['PUT', '/v1/mixed'],
      ['GET', '/v1/mixed'],
      ['GET', '/v1/read'],
      ['POST', '/v1/exchange'],
      ['POST', '/other'],
    ] as const) {
      statuses.push((await app.inject({ method, url, headers: { host: 'here' } })).statusCode);
    }
    expect(statuses).toEqual([429, 429, 200, 200, 200, 200]);
    expect(admitted).toEqual(['/v1/new', '/v1/mixed']);
  });
});
