/** A base path, a Unix socket, and an address for administration. */
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';
import { freePort } from '../../bench/servers/launch.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { fileProblems } from '../../src/config/server-settings.ts';
import { openListener } from '../../src/http/listener.ts';
import { providerTypes } from '../../src/providers/types.ts';
import { MASTER_KEY, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { openSocket, refusedSocket } from '../support/response-socket.ts';
import { errorOf, eventsOfExchange, exchangeOf, json, modelsListed, user } from '../support/with-gateway.ts';

const folder = mkdtempSync(join(tmpdir(), 'chancery-listen-'));
const gateways: TestGateway[] = [];
afterAll(async () => {
  for (const one of gateways) await one.close();
  rmSync(folder, { recursive: true, force: true });
});

async function start(env: Record<string, string>): Promise<TestGateway> {
  const gateway = await startTestGateway({ env });
  gateways.push(gateway);
  return gateway;
}

const authorization = `Bearer ${MASTER_KEY}`;
const MODEL = 'llamacpp/simulated-small';

/** A request at a Unix socket. */
async function at(socketPath: string, path: string, headers: Record<string, string> = {}, body?: object) {
  const sent = request({ socketPath, path, method: body ? 'POST' : 'GET', headers: { authorization, ...headers } });
  sent.end(body && JSON.stringify(body));
  const [response] = await once(sent, 'response');
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

describe('a gateway with a base path', () => {
  const started = start({ BASE_PATH: '/ai/gateway/' });

  it('has every route below it, under the path without it in the record', async () => {
    const gateway = await started;
    expect(gateway.url).toMatch(/\/ai\/gateway$/);
    await modelsListed(gateway);
    const answer = await gateway.fetch('/v1/chat/completions?x=1', { json: { model: MODEL, messages: user('hi') } });
    expect(answer.status).toBe(200);
    const [received] = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(received?.data.path).toBe('/v1/chat/completions?x=1');
    for (const path of [
      '/health',
      '/health?x',
      '/admin/auth-keys',
      '/admin/api/v1/auth-keys',
      '/admin/dashboard',
      '/metrics',
    ]) {
      expect((await gateway.fetch(path)).status, path).toBeLessThan(400);
    }
    expect((await json(await gateway.fetch('/openapi.json'))).servers).toEqual([{ url: '/ai/gateway' }]);
    await errorOf(await gateway.fetch('/v1/nothing'), 404);
  });

  it('has nothing elsewhere, and records such a request with a key', async () => {
    const { url, ...gateway } = await started;
    const { origin } = new URL(url);
    const elsewhere = [
      '/v1/models',
      '/health',
      '/admin/auth-keys',
      '/admin/api/v1/auth-keys',
      '/admin/dashboard',
      '/metrics',
    ];
    for (const path of [
      ...elsewhere,
      '/',
      '/ai',
      '/ai/gatewayx/v1/models',
      '/ai/v1/models',
      '//ai/gateway/v1/models',
    ]) {
      for (const headers of [{ authorization }, {}] as Record<string, string>[]) {
        const answer = await fetch(`${origin}${path}`, { headers });
        expect(answer.status, path).toBe(404);
        await answer.body?.cancel();
      }
    }
    const recorded = await fetch(`${origin}/v1/models`, { headers: { authorization } });
    expect((await eventsOfExchange(gateway, exchangeOf(recorded)))[1]?.data).toMatchObject({ status: 404 });
  });
});

describe('a gateway with an address for administration', () => {
  const ADMIN = [
    '/admin/auth-keys',
    '/admin/api/v1/auth-keys',
    '/admin/dashboard',
    '/admin/static/x',
    '/metrics',
    '/admin/%61uth-keys',
  ];
  const CLIENTS = ['/v1/models', '/openapi.json', '/p/llamacpp/v1/models'];

  it.each(['tcp', 'unix'])('over %s, serves each route at one of the two, and health checks at both', async (kind) => {
    const port = await freePort();
    const path = join(folder, 'admin.sock');
    const gateway = await start({
      ADMIN_LISTEN: kind === 'tcp' ? `127.0.0.1:${port}` : `unix:${path}`,
      METRICS_PUBLIC: String(kind === 'tcp'),
    });
    const admin = async (url: string, headers: Record<string, string>) =>
      kind === 'unix'
        ? at(path, url, headers)
        : fetch(`http://127.0.0.1:${port}${url}`, { headers: { authorization, ...headers } });
    const none = { authorization: '' };
    for (const url of ADMIN) {
      expect((await gateway.fetch(url)).status, url).toBe(404);
      expect((await fetch(`${gateway.url}${url}`)).status, url).toBe(404);
      if (!url.includes('static')) expect((await admin(url, {})).status, url).toBe(200);
    }
    for (const url of CLIENTS) {
      expect((await admin(url, {})).status, url).toBe(404);
      expect((await admin(url, none)).status, url).toBe(404);
      expect((await gateway.fetch(url)).status, url).toBe(200);
    }
    if (kind === 'tcp') expect((await refusedSocket(`http://127.0.0.1:${port}`)).status).toBe(404);
    const socket = await openSocket(gateway.url);
    socket.socket.close();
    expect((await admin('/health', none)).status).toBe(200);
    expect((await admin('/health/ready', none)).status).toBe(200);
    expect((await gateway.fetch('/health')).status).toBe(200);
  });

  it('does not start when that is in use, and frees the other one', async () => {
    const [one, two] = [await freePort(), await freePort()];
    const occupied = createServer().listen(two, '127.0.0.1');
    await once(occupied, 'listening');
    const address = { host: '127.0.0.1', port: one, adminListen: { host: '127.0.0.1', port: two } };
    await expect(openListener(address, (socket) => socket.destroy())).rejects.toMatchObject({
      code: 'EADDRINUSE',
      message: `127.0.0.1:${two} is in use: choose another address (ADMIN_LISTEN).`,
    });
    const { adminListen } = address;
    await expect(openListener(adminListen, (socket) => socket.destroy())).rejects.toThrow('(HOST, --port or PORT)');
    occupied.close();
    await (await openListener(address, (socket) => socket.destroy())).close();
  });
});

describe('a gateway at a Unix socket', () => {
  const path = join(folder, 'http.sock');

  it('serves requests, with the client that a trusted peer states, and removes the socket', async () => {
    const gateway = await startTestGateway({
      env: { HOST: `unix:${path}`, TRUSTED_PROXIES: 'unix', PROXY_PROTOCOL: 'false' },
    });
    expect(gateway.url).toBe(`unix:${path}`);
    expect(statSync(path).mode & 0o777).toBe(0o660);
    await expect.poll(async () => (await at(path, '/v1/models')).body).toContain('simulated-small');
    const chat = { model: MODEL, messages: user('hi') };
    const fetch = async (url: string) => new Response((await at(path, url)).body);
    for (const [header, clientIp] of [
      ['192.0.2.1', '192.0.2.1'],
      ['nothing', undefined],
    ] as const) {
      const answer = await at(path, '/v1/chat/completions', { 'x-forwarded-for': header }, chat);
      expect(answer.status, answer.body).toBe(200);
      const log = await at(path, `/admin/audit/events?log_id=${answer.headers['x-exchange-id']}&limit=1`);
      expect(JSON.parse(log.body).events[0].data.clientIp).toBe(clientIp);
    }
    expect((await fetch('/health')).ok).toBe(true);
    await gateway.close();
    expect(existsSync(path)).toBe(false);
  });

  it('replaces the socket that another process has left, and nothing that is in use or something else', async () => {
    const destroy = (socket: { destroy(): void }) => socket.destroy();
    const first = await openListener({ host: `unix:${path}`, port: 0 }, destroy);
    await expect(openListener({ host: `unix:${path}`, port: 0 }, destroy)).rejects.toMatchObject({
      code: 'EADDRINUSE',
    });
    await first.close();
    const { spawnSync } = await import('node:child_process');
    const left = `require('net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`;
    spawnSync(process.execPath, ['-e', left]);
    expect(existsSync(path)).toBe(true);
    await (await openListener({ host: `unix:${path}`, port: 0 }, destroy)).close();
    writeFileSync(path, 'a file');
    await expect(openListener({ host: `unix:${path}`, port: 0 }, destroy)).rejects.toMatchObject({
      code: 'EADDRINUSE',
      message: `unix:${path} is a file that is no socket: choose another path (HOST).`,
    });
    rmSync(path);
    await expect(openListener({ host: 'unix:/nonexistent/x', port: 0 }, destroy)).rejects.toThrow(
      'its folder does not exist (HOST)',
    );
  });
});

describe('the settings of listeners', () => {
  it.each([
    [{ BASE_PATH: 'ai' }, 'server.base_path', 'BASE_PATH'],
    [{ BASE_PATH: '/a//b' }, 'server.base_path', 'BASE_PATH'],
    [{ BASE_PATH: '/a?b' }, 'server.base_path', 'BASE_PATH'],
    [{ HOST: 'unix:relative.sock' }, 'server.host', 'HOST'],
    [{ BASE_PATH: '/a/../b' }, 'server.base_path', 'BASE_PATH'],
    [{ BASE_PATH: '/./b/' }, 'server.base_path', 'BASE_PATH'],
    [{ HOST: 'unix:/' }, 'server.host', 'HOST'],
    [{ HOST: `unix:/tmp/${'x'.repeat(103)}` }, 'server.host', 'HOST'],
    [{ ADMIN_LISTEN: `unix:/tmp/${'x'.repeat(103)}` }, 'server.admin_listen', 'ADMIN_LISTEN'],
    [{ ADMIN_LISTEN: '127.0.0.1:8080' }, 'server.admin_listen', 'ADMIN_LISTEN'],
    [{ ADMIN_LISTEN: '127.0.0.1:8080', HOST: 'localhost' }, 'server.admin_listen', 'ADMIN_LISTEN'],
    [{ ADMIN_LISTEN: '127.0.0.1:81', HOST: '0.0.0.0', PORT: '81' }, 'server.admin_listen', 'ADMIN_LISTEN'],
    [{ ADMIN_LISTEN: '0.0.0.0:8080' }, 'server.admin_listen', 'ADMIN_LISTEN'],
    [{ ADMIN_LISTEN: 'unix:/tmp/x', HOST: 'unix:/tmp/x' }, 'server.admin_listen', 'ADMIN_LISTEN'],
    [{ CLIENT_ADDRESS_HEADER: 'Authorization' }, 'server.client_address_header', 'CLIENT_ADDRESS_HEADER'],
    [{ USER_PATH_HEADER: 'x-api-key' }, 'server.user_path_header', 'USER_PATH_HEADER'],
    [{ ADMIN_LISTEN: '9090' }, 'server.admin_listen', 'ADMIN_LISTEN'],
    [{ ADMIN_LISTEN: '127.0.0.1:99999' }, 'server.admin_listen', 'ADMIN_LISTEN'],
    [{ ADMIN_LISTEN: 'unix:admin.sock' }, 'server.admin_listen', 'ADMIN_LISTEN'],
  ])('%j are refused with their place', (env, path, variable) => {
    const loaded = loadConfig({ flags: {}, env, cwd: '/nowhere', providerTypes });
    expect(loaded).toMatchObject({ ok: false, problems: [{ path, variable }] });
  });

  it.each([
    ['127.0.0.1:9090', { host: '127.0.0.1', port: 9090 }],
    ['[::1]:9090', { host: '::1', port: 9090 }],
    ['unix:/run/admin.sock', { host: 'unix:/run/admin.sock', port: 0 }],
    ['127.0.0.2:8080', { host: '127.0.0.2', port: 8080 }],
    ['127.0.0.1:0', { host: '127.0.0.1', port: 0 }],
  ])('ADMIN_LISTEN=%s is an address', (given, adminListen) => {
    const loaded = loadConfig({ flags: {}, env: { ADMIN_LISTEN: given }, cwd: '/nowhere', providerTypes });
    expect(loaded.ok && loaded.config.server.adminListen).toEqual(adminListen);
  });

  it('name a folder of a socket that does not exist', () => {
    const env = { ADMIN_LISTEN: 'unix:/nonexistent/admin.sock' };
    const loaded = loadConfig({ flags: {}, env, cwd: '/nowhere', providerTypes });
    if (!loaded.ok) throw new Error('the settings themselves are valid');
    const { config, rawSettings } = loaded;
    expect(fileProblems(config.server, rawSettings)).toMatchObject([
      { path: 'server.admin_listen', variable: 'ADMIN_LISTEN', message: expect.stringContaining('/nonexistent') },
    ]);
  });
});
