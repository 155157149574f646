/** A gateway without a master key, and the requests that browsers send to it for web pages. */
import { once } from 'node:events';
import { type OutgoingHttpHeaders, request } from 'node:http';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { errorOf, json, user, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway({
  env: { GATEWAY_UNSAFE_OPEN: 'true', GATEWAY_MASTER_KEY: '', GATEWAY_ALLOWED_HOSTS: 'gateway.example, proxy' },
});
const EVIL = 'http://attacker.example';
const KEY = JSON.stringify({ name: 'stolen', dashboard_access: true });

/** `fetch` does not let its caller name the host. */
async function send(method: string, path: string, headers: OutgoingHttpHeaders, body = ''): Promise<Response> {
  const { port } = new URL(gateway.url);
  const sent = request({ host: '127.0.0.1', port, path, method, headers, setHost: false });
  sent.end(body);
  const [answer] = await once(sent, 'response');
  const pieces: Buffer[] = [];
  for await (const piece of answer) pieces.push(piece);
  return new Response(Buffer.concat(pieces), { status: answer.statusCode, headers: answer.headers });
}

const own = () => new URL(gateway.url).host;
const keys = async () => (await json(await fetch(`${gateway.url}/admin/auth-keys`))).length;

describe('an open gateway', () => {
  it.each([
    ['a form of another site', () => ({ host: own(), origin: EVIL, 'sec-fetch-site': 'cross-site' }), 'cross_site'],
    ['a form, by a browser without Fetch Metadata', () => ({ host: own(), origin: EVIL }), 'cross_site'],
    ['a form of a sandboxed page or without a referrer', () => ({ host: own(), origin: 'null' }), 'cross_site'],
    ['a page of another port of this machine', () => ({ host: own(), origin: 'http://127.0.0.1:1' }), 'cross_site'],
    ['a browser extension', () => ({ host: own(), origin: 'chrome-extension://abcdef' }), 'cross_site'],
    ['a page of a sibling name', () => ({ host: own(), 'sec-fetch-site': 'same-site' }), 'cross_site'],
    ['an image or a script of another site', () => ({ host: own(), 'sec-fetch-site': 'cross-site' }), 'cross_site'],
    ['two origins', () => ({ host: own(), origin: [`http://${own()}`, EVIL] }), 'cross_site'],
    ['an origin that only begins with the host', () => ({ host: own(), origin: `http://${own()}.evil` }), 'cross_site'],
    ['an origin with a user name', () => ({ host: own(), origin: `http://${own()}@evil.example` }), 'cross_site'],
    ['a rebound name', () => ({ host: 'attacker.example:8080' }), 'host_not'],
    ['a rebound name that is its own origin', () => ({ host: 'attacker.example', origin: EVIL }), 'host_not'],
    [
      'a rebound name with sec-fetch-site: same-origin',
      () => ({ host: 'attacker.example', origin: EVIL, 'sec-fetch-site': 'same-origin' }),
      'host_not',
    ],
    ['a name that begins with localhost', () => ({ host: 'localhost.attacker.example' }), 'host_not'],
    ['a name that begins with an address', () => ({ host: '127.0.0.1.attacker.example' }), 'host_not'],
    ['a name that ends with an allowed one', () => ({ host: 'agateway.example' }), 'host_not'],
    ['a host with a user name', () => ({ host: '127.0.0.1@attacker.example' }), 'host_not'],
    ['an empty host', () => ({ host: '' }), 'host_not'],
  ] as [string, () => OutgoingHttpHeaders, string][])('refuses %s', async (_, headers, code) => {
    const before = await keys();
    const requestCount = gateway.simulated.requests.length;
    for (const [method, path, body] of [
      ['POST', '/admin/auth-keys', KEY],
      ['POST', '/v1/chat/completions', '{}'],
      ['GET', '/v1/models', ''],
      ['GET', '/p/llamacpp/v1/models', ''],
      ['GET', '/admin/live/logs', ''],
      ['GET', '/metrics', ''],
    ] as const) {
      const answer = await send(method, path, { 'content-type': 'text/plain', ...headers() }, body);
      const refused = await errorOf(answer, 403);
      expect(refused.code).toMatch(new RegExp(`^${code}`));
      expect(refused.type).toBe('permission_error');
    }
    expect(await keys()).toBe(before);
    expect(gateway.simulated.requests).toHaveLength(requestCount);
  });

  it.each([
    ['curl', () => ({ host: own(), 'user-agent': 'curl/8.5.0', accept: '*/*' })],
    ['a client that calls it localhost', () => ({ host: 'localhost:8080' })],
    ['a client that writes a name with a dot and in capitals', () => ({ host: 'LOCALHOST.:8080' })],
    ['a client with a name below localhost', () => ({ host: 'gateway.localhost' })],
    ['a client by another address of the machine', () => ({ host: '192.168.7.9:8080' })],
    ['a client by IPv6', () => ({ host: '[::1]:8080' })],
    ['a client by a name that was added', () => ({ host: 'gateway.example' })],
    ['a page of its own', () => ({ host: own(), origin: `http://${own()}`, 'sec-fetch-site': 'same-origin' })],
    ['a page of its own behind TLS', () => ({ host: 'proxy', origin: 'https://proxy' })],
    [
      'an address typed into a browser',
      () => ({ host: own(), 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate' }),
    ],
  ] as [string, () => OutgoingHttpHeaders][])('serves %s', async (_, headers) => {
    expect((await send('GET', '/v1/models', headers())).status).toBe(200);
    expect((await send('GET', '/metrics', headers())).status).toBe(200);
    const body = JSON.stringify({ model: 'llamacpp/simulated-small', messages: user('hello') });
    expect((await send('POST', '/v1/chat/completions', headers(), body)).status).toBe(200);
    expect((await send('POST', '/admin/auth-keys', headers(), KEY)).status).toBe(201);
  });

  it('serves an SDK', async () => {
    const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const { choices } = await client.chat.completions.create({
      model: 'llamacpp/simulated-small',
      messages: [{ role: 'user', content: 'hello' }],
    });
    expect(choices[0]?.message.content).toMatch(/./);
  });

  it('answers health to every host, and with HTTP/1.0 also without one', async () => {
    expect((await send('GET', '/health', { host: 'probe' })).status).toBe(200);
  });
});

describe('a gateway with a master key', () => {
  const guarded = withGateway();

  it('does not check host and origin: a page does not have the key', async () => {
    const headers = { host: 'any.example', origin: EVIL, authorization: 'Bearer test-master-key' };
    const { port } = new URL(guarded.url);
    const sent = request({ host: '127.0.0.1', port, path: '/v1/models', headers, setHost: false });
    sent.end();
    const [answer] = await once(sent, 'response');
    answer.resume();
    expect(answer.statusCode).toBe(200);
  });
});
