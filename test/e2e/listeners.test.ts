/** Several workers behind nginx, with TLS, at a Unix socket, and with an address for administration. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../bench/servers/launch.ts';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { requestReceived } from '../../src/events/catalogue/exchange.ts';
import { createAuthority, missingOpenssl } from '../support/certificates.ts';
import { answerOf, begin, http1, openHttp2 } from '../support/tls-client.ts';
import { killAll, MASTER_KEY, type ServedGateway, serve, stopGateway, temporaryFolder } from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider({ models: ['m'], responses: 'absent' });
let upstream = '';
let dataDir = '';
let tests = 0;
const nginxes: ChildProcess[] = [];

beforeAll(async () => {
  upstream = await provider.listen();
});
afterEach(() => {
  for (const one of nginxes.splice(0)) one.kill('SIGKILL');
  killAll();
  tests += 1;
});
afterAll(async () => {
  await provider.close();
  folder.remove();
});

function start(env: Record<string, string>): Promise<ServedGateway> {
  dataDir = join(folder.path, String(tests));
  return serve({ dataDir, env: { LLAMACPP_BASE_URL: upstream, GATEWAY_WORKERS: '2', ...env } });
}

const authorization = `Bearer ${MASTER_KEY}`;
const headers = { authorization, 'content-type': 'application/json' };
const body = JSON.stringify({ model: 'llamacpp/m', messages: [{ role: 'user', content: 'Hello' }] });

/** The newest chat request in the log. */
async function lastReceived() {
  const all = (await eventsIn(dataDir)).filter(({ type }) => type === requestReceived.type);
  return all.map(({ data }) => requestReceived.data.parse(data)).findLast(({ path }) => path.endsWith('/completions'));
}

async function at(socketPath: string, path: string, method = 'GET') {
  const sent = request({ socketPath, path, method, headers });
  sent.end(method === 'POST' ? body : undefined);
  const [response] = await once(sent, 'response');
  return { status: Number(response.statusCode), body: await text(response) };
}

const withoutNginx = spawnSync('nginx', ['-v']).error === undefined ? undefined : 'nginx is not installed';
if (withoutNginx !== undefined) console.warn(`not run: a gateway behind nginx, since ${withoutNginx}`);

async function nginx(server: string): Promise<string> {
  const port = await freePort();
  const prefix = join(folder.path, `nginx-${tests}`);
  mkdirSync(prefix, { recursive: true });
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (one) => `${one}_temp_path ${prefix}/${one};`,
  );
  const config = `daemon off; master_process off; error_log stderr; pid ${prefix}/pid; events {}
    http { access_log off; ${temporary.join(' ')} server { listen 127.0.0.1:${port}; location / { ${server} } } }`;
  writeFileSync(join(prefix, 'nginx.conf'), config);
  const process = spawn('nginx', ['-p', prefix, '-c', join(prefix, 'nginx.conf')], { stdio: 'ignore' });
  nginxes.push(process);
  const answers = () =>
    fetch(`http://127.0.0.1:${port}`).then(
      () => true,
      () => false,
    );
  await expect.poll(answers, { timeout: 10_000 }).toBe(true);
  return `http://127.0.0.1:${port}`;
}

describe.skipIf(withoutNginx !== undefined)('several workers behind nginx', () => {
  it('record the client of a request, whatever the client claims, whole or as a stream', async () => {
    const { url } = await start({ TRUSTED_PROXIES: 'loopback' });
    const front = await nginx(
      `proxy_pass ${url}; proxy_http_version 1.1; proxy_buffering off; proxy_set_header X-Forwarded-For "$http_x_forwarded_for, 192.0.2.7";`,
    );
    const claiming = { ...headers, 'x-forwarded-for': '203.0.113.9' };
    const answer = await fetch(`${front}/v1/chat/completions`, { method: 'POST', headers: claiming, body });
    expect(answer.status, await answer.text()).toBe(200);
    expect((await lastReceived())?.clientIp).toBe('192.0.2.7');
    const stream = JSON.stringify({ ...JSON.parse(body), stream: true });
    const streamed = await fetch(`${front}/v1/chat/completions`, { method: 'POST', headers: claiming, body: stream });
    expect(await streamed.text()).toContain('data: [DONE]');
  });

  it('are reached through a Unix socket below a base path', async () => {
    const path = join(folder.path, 'behind.sock');
    const gateway = await start({ HOST: `unix:${path}`, TRUSTED_PROXIES: 'unix', BASE_PATH: '/ai' });
    const front = await nginx(
      `proxy_pass http://unix:${path}:; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;`,
    );
    const answer = await fetch(`${front}/ai/v1/chat/completions`, { method: 'POST', headers, body });
    expect(answer.status, await answer.text()).toBe(200);
    expect(await lastReceived()).toMatchObject({ clientIp: '127.0.0.1', path: '/v1/chat/completions' });
    expect((await fetch(`${front}/v1/models`, { headers })).status).toBe(404);
    await stopGateway(gateway);
  });
});

describe('several workers', () => {
  it('serve a Unix socket and a port for administration', async () => {
    const path = join(folder.path, 'http.sock');
    const port = await freePort();
    const gateway = await start({ HOST: `unix:${path}`, ADMIN_LISTEN: `127.0.0.1:${port}` });
    expect(gateway.url).toBe(`unix:${path}`);
    for (let turn = 0; turn < 4; turn++) {
      expect(await at(path, '/v1/chat/completions', 'POST')).toMatchObject({ status: 200 });
      expect(await at(path, '/admin/auth-keys')).toMatchObject({ status: 404 });
      const admin = (url: string) => fetch(`http://127.0.0.1:${port}${url}`, { headers });
      expect((await admin('/admin/auth-keys')).status).toBe(200);
      expect((await admin('/metrics')).status).toBe(200);
      expect((await admin('/v1/models')).status).toBe(404);
    }
    expect(await lastReceived()).not.toHaveProperty('clientIp');
    await stopGateway(gateway);
  });

  it('read the PROXY protocol', async () => {
    const { url } = await start({ TRUSTED_PROXIES: 'loopback', PROXY_PROTOCOL: 'true' });
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization}\r\nconnection: close\r\n`;
    socket.write('PROXY TCP6 2001:db8::7 ::1 4711 8080\r\n');
    socket.write(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 /);
    expect((await lastReceived())?.clientIp).toBe('2001:db8::7');
  });

  it.skipIf(missingOpenssl() !== undefined)('serve TLS with HTTP/1.1 and HTTP/2', async () => {
    const authority = createAuthority();
    try {
      const { certFile, keyFile } = authority.issue('gateway', 'DNS:localhost,IP:127.0.0.1');
      const gateway = await start({ TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile });
      const ca = { ca: authority.ca.cert };
      expect(gateway.url).toMatch(/^https:/);
      const init = { method: 'POST', headers, body };
      expect((await http1(`${gateway.url}/v1/chat/completions`, init, ca)).status).toBe(200);
      const session = await openHttp2(gateway.url, ca);
      expect((await answerOf(begin(session, '/v1/chat/completions', init))).status).toBe(200);
      expect(await lastReceived()).toMatchObject({ clientIp: '127.0.0.1' });
      session.destroy();
      await stopGateway(gateway);
    } finally {
      authority.remove();
    }
  });
});
