/** Web pages of other origins: which may use the gateway, and the CORS headers that browsers receive. */
import { afterAll, describe, expect, it } from 'vitest';
import { MASTER_KEY, startTestGateway } from '../support/gateway.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, json, user, withGateway } from '../support/with-gateway.ts';

const PAGE = 'https://app.example.com';
const chat = { model: 'llamacpp/simulated-small', messages: user('Hello') };
const preflight = (origin: string) => ({
  method: 'OPTIONS',
  headers: {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization,content-type,x-cache-control,x-cache-ttl',
  },
});

describe('a gateway with CORS_ORIGINS', () => {
  const gateway = withGateway({ env: { CORS_ORIGINS: `${PAGE},http://localhost:5173` } });

  it.each([
    '/v1/chat/completions',
    '/v1/models',
    '/v1/responses/resp_1',
    '/p/llamacpp/tokenize',
    '/admin/users',
    '/no',
  ])('answers preflights for %s without a key', async (path) => {
    const answer = await fetch(`${gateway.url}${path}`, preflight(PAGE));
    expect(answer.status).toBe(204);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'access-control-allow-origin': PAGE,
      'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
      'access-control-allow-headers': 'authorization,content-type,x-cache-control,x-cache-ttl',
      'access-control-max-age': '600',
      vary: 'Origin',
    });
    expect(answer.headers.has('access-control-allow-credentials')).toBe(false);
  });

  it('lets a page of an allowed origin read answers, streams and errors', async () => {
    const headers = { origin: PAGE };
    const answers = [
      await gateway.fetch('/v1/models', { headers }),
      await gateway.post('/v1/chat/completions', chat, { headers }),
      await gateway.post('/v1/chat/completions', { ...chat, stream: true }, { headers }),
      await gateway.post('/v1/chat/completions', { ...chat, model: 'none' }, { headers }),
      await gateway.post('/p/llamacpp/tokenize', { content: 'a' }, { headers }),
      await fetch(`${gateway.url}/v1/models`, { headers }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 404, 200, 401]);
    for (const answer of answers) {
      await answer.arrayBuffer();
      expect(answer.headers.get('access-control-allow-origin')).toBe(PAGE);
      expect(answer.headers.get('access-control-expose-headers')).toBe('*');
      expect(answer.headers.get('vary')).toBe('Origin');
    }
  });

  it.each(['https://evil.example', `${PAGE}.evil.example`, 'http://app.example.com', 'null', `${PAGE}/`])(
    'allows nothing to a page of %s',
    async (origin) => {
      expect((await fetch(`${gateway.url}/v1/models`, preflight(origin))).status).toBe(401);
      const answer = await gateway.fetch('/v1/models', { headers: { origin } });
      expect(answer.status).toBe(200);
      expect(answer.headers.has('access-control-allow-origin')).toBe(false);
    },
  );

  it('passes an OPTIONS that is not a preflight on to a provider', async () => {
    const answer = await gateway.fetch('/p/llamacpp/tokenize', { method: 'OPTIONS', headers: { origin: PAGE } });
    expect(answer.headers.get('x-exchange-id')).toEqual(expect.any(String));
  });
});

describe("a provider's answer with a Vary of its own", () => {
  let scripted: ScriptedProvider;
  const gateway = withGateway(async () => {
    scripted = await startScriptedProvider();
    return {
      env: { CORS_ORIGINS: PAGE },
      register: (url) => ({ LLAMACPP_BASE_URL: url, LLAMACPP_ODD_BASE_URL: scripted.url }),
    };
  });
  afterAll(() => scripted.close());

  it.each([
    ['application/json', 'Cookie', 'Origin, Cookie'],
    ['text/event-stream', 'Cookie', 'Origin, Cookie'],
    ['application/json', 'accept-encoding, origin', 'accept-encoding, origin'],
    ['application/json', '*', '*'],
  ])('also varies by Origin: %s, %s', async (type, vary, merged) => {
    scripted.script((_request, response) => response.writeHead(200, { 'content-type': type, vary }).end('{}'));
    for (const headers of [{ origin: PAGE }, {}]) {
      const answer = await gateway.fetch('/p/llamacpp-odd/x', { headers });
      await answer.text();
      expect(answer.headers.get('vary')).toBe(merged);
    }
  });
});

describe('a gateway for every origin', () => {
  const gateway = withGateway({ env: { CORS_ORIGINS: '*' } });

  it('returns a star', async () => {
    const answer = await gateway.fetch('/v1/models', { headers: { origin: 'https://any.example' } });
    expect(answer.headers.get('access-control-allow-origin')).toBe('*');
  });
});

describe('a gateway without CORS_ORIGINS', () => {
  const gateway = withGateway();

  it('allows no origin', async () => {
    expect((await fetch(`${gateway.url}/v1/models`, preflight(PAGE))).status).toBe(401);
    const answer = await gateway.fetch('/v1/models', { headers: { origin: PAGE } });
    expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([]);
    expect(answer.headers.has('vary')).toBe(false);
  });
});

describe('an open gateway', () => {
  const open = { GATEWAY_UNSAFE_OPEN: 'true', GATEWAY_MASTER_KEY: '' };
  const page = { 'sec-fetch-site': 'cross-site', authorization: `Bearer ${MASTER_KEY}` };

  it('serves pages of listed origins, and no others', async () => {
    const gateway = await startTestGateway({ env: { ...open, CORS_ORIGINS: PAGE } });
    const models = (origin: string) => fetch(`${gateway.url}/v1/models`, { headers: { ...page, origin } });
    expect((await json(await models(PAGE))).object).toBe('list');
    expect((await errorOf(await models('https://evil.example'), 403)).code).toBe('cross_site_refused');
    await gateway.close();
  });

  it('serves no page when every origin is allowed by a star', async () => {
    const gateway = await startTestGateway({ env: { ...open, CORS_ORIGINS: '*' } });
    const answer = await fetch(`${gateway.url}/v1/models`, { headers: { ...page, origin: PAGE } });
    expect((await errorOf(answer, 403)).code).toBe('cross_site_refused');
    await gateway.close();
  });
});

describe('CORS_ORIGINS', () => {
  it.each(['app.example.com', 'https://app.example.com/', 'https://App.example.com', 'https://a.example/x', 'null'])(
    'with an invalid origin keeps the gateway from starting: %s',
    async (origin) => {
      await expect(startTestGateway({ env: { CORS_ORIGINS: origin } })).rejects.toThrow('expected origins such as');
    },
  );
});
