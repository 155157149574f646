/** HTTPS with HTTP/1.1 and HTTP/2: the answers and the record are those of HTTP; certificates of server and clients. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type ClientHttp2Session, constants } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls, type SecureContextOptions, type TLSSocket } from 'node:tls';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { certificateWarnings, fileProblems } from '../../src/config/server-settings.ts';
import { providerTypes } from '../../src/providers/types.ts';
import { createAuthority, missingOpenssl } from '../support/certificates.ts';
import { MASTER_KEY, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { openSocket } from '../support/response-socket.ts';
import { answerOf, begin, fetchWith, http1, openHttp2 } from '../support/tls-client.ts';
import { fetchViaProxy } from '../support/via-proxy.ts';
import { eventsOfExchange, eventsUntil, modelsListed, user } from '../support/with-gateway.ts';

const MODEL = 'llamacpp/simulated-small';
const CHAT = '/v1/chat/completions';
const authorization = `Bearer ${MASTER_KEY}`;
const json = { authorization, 'content-type': 'application/json' };
const chat = (more: object = {}) => ({
  method: 'POST',
  headers: json,
  body: JSON.stringify({ model: MODEL, messages: user('Reply with exactly: hello'), ...more }),
});

describe.skipIf(missingOpenssl() !== undefined)('a gateway with TLS', () => {
  const folder = mkdtempSync(join(tmpdir(), 'chancery-tls-'));
  const authority = createAuthority();
  const files = { cert: join(folder, 'tls.pem'), key: join(folder, 'tls.key'), ca: authority.ca.certFile };
  const own = { TLS_CERT_FILE: files.cert, TLS_KEY_FILE: files.key };
  const ca: SecureContextOptions = { ca: authority.ca.cert };
  const sessions: ClientHttp2Session[] = [];
  const gateways: TestGateway[] = [];

  function install(subject: string): void {
    const { certFile, keyFile } = authority.issue(subject, 'DNS:localhost,IP:127.0.0.1');
    copyFileSync(keyFile, files.key);
    copyFileSync(certFile, files.cert);
  }

  async function start(env: Record<string, string> = {}, tls = ca) {
    const gateway = await startTestGateway({ env: { ...own, ...env } });
    gateways.push(gateway);
    const { url, simulated } = gateway;
    const fetch = fetchWith(url, tls, MASTER_KEY);
    await modelsListed({ fetch });
    return { gateway, url, simulated, fetch };
  }

  async function open(url: string, tls = ca): Promise<ClientHttp2Session> {
    const session = await openHttp2(url, tls);
    sessions.push(session);
    return session;
  }

  let gateway: Awaited<ReturnType<typeof start>>;
  beforeAll(async () => {
    install('first');
    gateway = await start();
  });
  afterEach(() => {
    for (const session of sessions.splice(0)) session.destroy();
    gateway.simulated.control.clear();
  });
  afterAll(async () => {
    for (const one of gateways) await one.close();
    authority.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  const received = async (exchange: unknown, by: Pick<TestGateway, 'fetch'> = gateway) => {
    const events = await eventsOfExchange(by, String(exchange));
    return { events, data: events[0]?.data };
  };

  it('has an address with https', () => {
    expect(gateway.url).toMatch(/^https:/);
  });

  it('upgrades to WebSockets', async () => {
    const socket = await openSocket(gateway.url, MASTER_KEY, { ca: authority.ca.cert });
    const end = await socket.turn({ model: MODEL, input: 'Reply with exactly: hello' });
    expect(end).toMatchObject({ type: 'response.completed', response: { status: 'completed' } });
    socket.socket.close();
    expect((await socket.closed)[0]).toBe(1005);
  });

  it('gives the same answer over HTTP/1.1 and HTTP/2, whole and as a stream', async () => {
    const { url } = gateway;
    const session = await open(url);
    const without = (body: Buffer) => body.toString().replaceAll(/"(id|created)":("[^"]*"|\d+)/g, '');
    for (const stream of [false, true]) {
      const one = await http1(`${url}${CHAT}`, chat({ stream }), ca);
      const two = await answerOf(begin(session, CHAT, chat({ stream })));
      expect([one.status, two.status]).toEqual([200, 200]);
      expect(without(two.body)).toBe(without(one.body));
      expect(two.headers['content-type']).toBe(one.headers['content-type']);
      for (const name of ['connection', 'transfer-encoding', 'keep-alive'])
        expect(two.headers).not.toHaveProperty(name);
      const { events } = await received(two.headers['x-exchange-id']);
      expect(events.at(-1)?.type).toBe('usage.recorded');
    }
  });

  it('passes the bytes of a stream on as the provider wrote them', async () => {
    const session = await open(gateway.url);
    for (const fault of [
      { splitEvery: 7 },
      { coalesce: true },
      { crlf: true, comments: true },
      { oversizedBytes: 3e6 },
    ]) {
      gateway.simulated.control.next(fault, { path: CHAT });
      const { body, headers } = await answerOf(begin(session, CHAT, chat({ stream: true })));
      expect(body.toString()).toMatch(/data: \[DONE\]\s+$/);
      const { events } = await received(headers['x-exchange-id']);
      expect(events.some(({ type }) => type === 'exchange.completed')).toBe(true);
    }
  });

  it('records a request over HTTP/2 as one of HTTP/1.1: with a host, and without pseudo-headers', async () => {
    const session = await open(gateway.url);
    const { headers } = await answerOf(begin(session, CHAT, chat()));
    const { data } = await received(headers['x-exchange-id']);
    expect(data).toMatchObject({ method: 'POST', path: CHAT, clientIp: '127.0.0.1' });
    expect(data.headers.host).toBe(new URL(gateway.url).host);
    expect(Object.keys(data.headers).filter((name) => name.startsWith(':'))).toEqual([]);
    expect(data).not.toHaveProperty('clientSubject');
  });

  it.each([
    ['GET', '/health', 200],
    ['HEAD', '/health', 200],
    ['GET', '/v1/models', 200],
    ['GET', '/v1/nothing', 404],
    ['DELETE', CHAT, 405],
    ['POST', '/v1/responses', 200],
    ['POST', '/v1/messages', 200],
    ['POST', '/p/llamacpp/v1/chat/completions', 200],
    ['GET', '/admin/auth-keys', 200],
    ['GET', '/admin/api/v1/auth-keys', 200],
    ['GET', '/metrics', 200],
  ])('answers %s %s over HTTP/2 with %i', async (method, path, status) => {
    const body = {
      model: path.startsWith('/p/') ? 'simulated-small' : MODEL,
      max_tokens: 9,
      messages: user('hi'),
      input: 'hi',
    };
    const { max_tokens: _, messages: __, ...response } = body;
    const { input: ___, ...message } = body;
    const sent = path === '/v1/responses' ? response : message;
    const init = method === 'POST' ? { body: JSON.stringify(sent) } : {};
    const answer = await answerOf(begin(await open(gateway.url), path, { method, headers: json, ...init }));
    expect(answer.status, answer.body.toString()).toBe(status);
    expect(answer.headers['x-request-id']).toBeDefined();
  });

  it('serves many requests on one connection at the same time', async () => {
    const session = await open(gateway.url);
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, at) => answerOf(begin(session, CHAT, chat({ stream: at % 2 === 0 })))),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(new Set(answers.map(({ headers }) => headers['x-exchange-id'])).size).toBe(60);
  });

  it('takes large bodies over HTTP/2, and refuses larger ones', async () => {
    const session = await open(gateway.url);
    const large = chat({ messages: user('x'.repeat(3_000_000)) });
    expect((await answerOf(begin(session, CHAT, large))).status).toBe(200);
    const deep = { method: 'POST', headers: json, body: JSON.stringify({ name: 'x'.repeat(11 * 1024 * 1024) }) };
    expect((await answerOf(begin(session, '/admin/auth-keys', deep))).status).toBe(413);
    expect((await answerOf(begin(session, '/v1/models', { headers: { authorization } }))).status).toBe(200);
  });

  it('cancels the call of the provider when a stream of HTTP/2 is cancelled', async () => {
    gateway.simulated.control.next({ holdAfterChunks: 2 }, { path: CHAT });
    const stream = begin(await open(gateway.url), CHAT, chat({ stream: true }));
    const [headers] = await once(stream, 'response');
    await once(stream, 'data');
    const left = eventsUntil(
      gateway,
      `stream=exchange-${headers['x-exchange-id']}`,
      ({ type }) => type === 'client.disconnected',
    );
    stream.close(8);
    expect((await left).at(-1)?.type).toBe('client.disconnected');
    gateway.simulated.control.release();
  });

  it('records an upload that its client cancels, and serves the next request of the connection', async () => {
    const session = await open(gateway.url);
    for (const path of ['/p/llamacpp/v1/files', '/v1/files', CHAT]) {
      const upload = session.request({ ':method': 'POST', ':path': path, ...json });
      upload.on('error', () => {});
      upload.write(Buffer.alloc(300_000, ' '));
      await new Promise((resolve) => setImmediate(resolve));
      upload.close(8);
      await once(upload, 'close');
    }
    const next = await answerOf(begin(session, CHAT, chat()));
    expect(next.status).toBe(200);
    await received(next.headers['x-exchange-id']);
    const scrape = async () =>
      (await answerOf(begin(session, '/metrics', { headers: { authorization } }))).body.toString();
    await expect.poll(scrape).toMatch(/^gateway_requests_in_flight 0$/m);
  });

  it('has the answers of a client that reads slowly wait, and sends them whole', async () => {
    gateway.simulated.control.next({ oversizedBytes: 8_000_000 }, { path: CHAT });
    const stream = begin(await open(gateway.url), CHAT, chat({ stream: true }));
    await once(stream, 'response');
    stream.pause();
    for (let turns = 0; turns < 50; turns++) await new Promise((resolve) => setImmediate(resolve));
    let bytes = 0;
    for await (const piece of stream) bytes += piece.length;
    expect(bytes).toBeGreaterThan(8_000_000);
  });

  it('refuses a head that is too large, and a body that takes too long', async () => {
    const slow = await start({ CHANCERY_CONFIG: settings('server: { request_timeout: 200ms }\n') });
    const session = await open(slow.url);
    const large = await answerOf(
      begin(session, '/v1/models', { headers: { authorization, 'x-large': 'x'.repeat(20_000) } }),
    );
    expect([large.status, JSON.parse(large.body.toString()).error.code]).toEqual([431, 'bad_request']);
    const late = session.request({ ':method': 'POST', ':path': CHAT, ...json });
    late.write('{');
    expect((await answerOf(late)).status).toBe(408);
  });

  it('ends only the stream of a body that is longer than its content-length, and a connection that breaks HTTP/2', async () => {
    const session = await open(gateway.url);
    const other = session.request({ ':method': 'POST', ':path': CHAT, ...json });
    const { body } = chat();
    other.write(body.slice(0, 5));
    const long = begin(session, CHAT, { method: 'POST', headers: { ...json, 'content-length': '5' }, body });
    await new Promise((resolve) => long.once('close', resolve));
    expect(long.rstCode).toBe(constants.NGHTTP2_PROTOCOL_ERROR);
    other.end(body.slice(5));
    expect((await answerOf(other)).status).toBe(200);
    const raw = connectTls({
      ...ca,
      host: '127.0.0.1',
      port: Number(new URL(gateway.url).port),
      ALPNProtocols: ['h2'],
    });
    await once(raw, 'secureConnect');
    raw.resume();
    // The preface, an empty frame of settings, and data on the stream 0.
    raw.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x01\0\0\0\0\0\0A', 'latin1');
    await once(raw, 'close');
  });

  function settings(text: string): string {
    const path = join(folder, 'settings.yaml');
    writeFileSync(path, text);
    return path;
  }

  it('lets streams end when it stops, and accepts no others', async () => {
    const stopping = await start();
    stopping.simulated.control.next({ holdAfterChunks: 2 }, { path: CHAT });
    const session = await open(stopping.url);
    const stream = begin(session, CHAT, chat({ stream: true }));
    await once(stream, 'response');
    const goaway = once(session, 'goaway');
    const closed = gateways.pop()?.close();
    await goaway;
    stopping.simulated.control.release();
    let text = '';
    for await (const piece of stream) text += piece;
    expect(text).toMatch(/data: \[DONE\]\s+$/);
    await closed;
    await expect(openHttp2(stopping.url, ca)).rejects.toThrow();
  });

  it('uses changed files for new connections, and keeps the open ones', async () => {
    const subjectAt = async (): Promise<string> => {
      const socket = connectTls({ port: Number(new URL(gateway.url).port), ...ca, servername: 'localhost' });
      await once(socket, 'secureConnect');
      const { CN } = socket.getPeerCertificate().subject;
      socket.destroy();
      return String(CN);
    };
    expect(await subjectAt()).toBe('first');
    const before = await open(gateway.url);
    install('second');
    await expect.poll(subjectAt, { timeout: 10_000 }).toBe('second');
    expect((await answerOf(begin(before, '/v1/models', { headers: { authorization } }))).status).toBe(200);
    writeFileSync(files.key, 'not a key');
    install('third');
    await expect.poll(subjectAt, { timeout: 10_000 }).toBe('third');
  });

  describe('and certificates of clients', () => {
    const client = authority.issue('client/O=Example', 'DNS:client');
    const other = createAuthority();
    const foreign = other.issue('foreign', 'DNS:client');
    afterAll(() => other.remove());
    const presenting = ({ cert, key }: { readonly cert: string; readonly key: string }) => ({ ...ca, cert, key });

    it('records the subject of a client, over both protocols, also where the request is refused', async () => {
      const checking = await start({ TLS_CLIENT_CA_FILE: files.ca });
      const session = await open(checking.url, presenting(client));
      const two = await answerOf(begin(session, CHAT, chat()));
      const one = await http1(`${checking.url}${CHAT}`, chat(), presenting(client));
      const refused = await answerOf(begin(session, '/v1/nothing', { headers: { authorization } }));
      for (const { headers } of [one, two, refused]) {
        const { data } = await received(headers['x-exchange-id'], checking);
        expect(data.clientSubject).toBe('O=Example,CN=client');
      }
      const without = await http1(`${checking.url}${CHAT}`, chat(), ca);
      expect((await received(without.headers['x-exchange-id'], checking)).data).not.toHaveProperty('clientSubject');
      await expect(http1(`${checking.url}${CHAT}`, chat(), presenting(foreign))).rejects.toThrow();
    });

    it('serves only clients with one when they are required', async () => {
      const required = { TLS_CLIENT_CA_FILE: files.ca, TLS_CLIENT_AUTH: 'required' };
      const checking = await start(required, presenting(client));
      expect((await http1(`${checking.url}/health`, {}, presenting(client))).status).toBe(200);
      for (const tls of [ca, presenting(foreign)])
        await expect(http1(`${checking.url}/health`, {}, tls)).rejects.toThrow();
    });
  });

  it('reads a header of the PROXY protocol before TLS', async () => {
    const behind = await startTestGateway({
      env: { ...own, PROXY_PROTOCOL: 'true', TRUSTED_PROXIES: 'loopback' },
    });
    gateways.push(behind);
    const recorded: string[] = [];
    for (const ALPNProtocols of [['http/1.1'], ['h2']]) {
      const raw = connectTcp(Number(new URL(behind.url).port), '127.0.0.1');
      raw.write('PROXY TCP4 192.0.2.9 10.0.0.1 4711 443\r\n');
      const socket = connectTls({ socket: raw, ...ca, servername: 'localhost', ALPNProtocols });
      await once(socket, 'secureConnect');
      recorded.push(await exchangeOver(socket));
    }
    const fetch = fetchViaProxy(behind.url, ca);
    for (const id of recorded) {
      expect((await eventsOfExchange({ fetch }, id))[0]?.data).toMatchObject({ clientIp: '192.0.2.9' });
    }
  });

  /** @returns the id of the exchange of a refused request */
  async function exchangeOver(socket: TLSSocket): Promise<string> {
    if (socket.alpnProtocol === 'h2') {
      const { connect } = await import('node:http2');
      const session = connect('https://localhost', { createConnection: () => socket });
      sessions.push(session);
      const { headers } = await answerOf(begin(session, '/v1/nothing', { headers: { authorization } }));
      return String(headers['x-exchange-id']);
    }
    socket.write(
      `GET /v1/nothing HTTP/1.1\r\nhost: localhost\r\nauthorization: ${authorization}\r\nconnection: close\r\n\r\n`,
    );
    let text = '';
    for await (const piece of socket) text += piece;
    return /x-exchange-id: (\S+)/.exec(text)?.[1] ?? '';
  }

  it('is reached by curl with both protocols', async () => {
    for (const [flag, version] of [
      ['--http1.1', '1.1'],
      ['--http2', '2'],
    ] as const) {
      const words = ['-sS', flag, '--cacert', files.ca, '-w', ' %{http_version} %{http_code}', `${gateway.url}/health`];
      const { stdout } = await promisify(execFile)('curl', words);
      expect(stdout).toBe(`{"status":"ok"} ${version} 200`);
    }
  });

  it('closes connections that do not begin with TLS, and stays reachable', async () => {
    const raw = connectTcp(Number(new URL(gateway.url).port), '127.0.0.1');
    raw.on('error', () => {});
    raw.write('GET /health HTTP/1.1\r\nhost: x\r\n\r\n');
    raw.resume();
    await once(raw, 'close');
    expect((await http1(`${gateway.url}/health`, {}, ca)).status).toBe(200);
  });

  it('closes connections whose handshake does not end in time, also after a part of it', async () => {
    const slow = await start({ CHANCERY_CONFIG: settings('server: { headers_timeout: 200ms }\n') });
    for (const bytes of ['', '\u0016\u0003']) {
      const raw = connectTcp(Number(new URL(slow.url).port), '127.0.0.1');
      raw.on('error', () => {});
      raw.write(bytes, 'latin1');
      raw.resume();
      await once(raw, 'close');
    }
  });

  describe('and wrong settings', () => {
    const problemsOf = (env: Record<string, string>) => {
      const loaded = loadConfig({ flags: {}, env, cwd: folder, providerTypes });
      return loaded.ok ? fileProblems(loaded.config.server, loaded.rawSettings) : loaded.problems;
    };

    it.each([
      [{ TLS_CERT_FILE: 'tls.pem' }, 'server.tls.key_file', 'TLS_KEY_FILE'],
      [{ TLS_KEY_FILE: 'tls.key' }, 'server.tls.cert_file', 'TLS_CERT_FILE'],
      [{ TLS_CLIENT_CA_FILE: 'ca.pem' }, 'server.tls.client_ca_file', 'TLS_CLIENT_CA_FILE'],
      [{ ...own, TLS_CLIENT_AUTH: 'required' }, 'server.tls.client_auth', 'TLS_CLIENT_AUTH'],
      [{ ...own, TLS_CLIENT_AUTH: 'always' }, 'server.tls.client_auth', 'TLS_CLIENT_AUTH'],
      [{ ...own, TLS_CERT_FILE: 'missing.pem' }, 'server.tls.cert_file', 'TLS_CERT_FILE'],
      [{ ...own, TLS_CERT_FILE: files.key }, 'server.tls.cert_file', 'TLS_CERT_FILE'],
      [{ ...own, TLS_KEY_FILE: files.cert }, 'server.tls.key_file', 'TLS_KEY_FILE'],
      [{ ...own, TLS_KEY_FILE: authority.ca.keyFile }, 'server.tls.key_file', 'TLS_KEY_FILE'],
      [{ ...own, TLS_CLIENT_CA_FILE: 'missing.pem' }, 'server.tls.client_ca_file', 'TLS_CLIENT_CA_FILE'],
    ])('%j names the setting', (env, path, variable) => {
      expect(problemsOf(env)).toMatchObject([{ path, variable }]);
    });

    it.each([
      [-2, 'is not valid before'],
      [4, 'expired at'],
    ])('%d days from now are warnings with the setting and the date', (days, what) => {
      const loaded = loadConfig({
        flags: {},
        env: { ...own, TLS_CLIENT_CA_FILE: files.ca },
        cwd: folder,
        providerTypes,
      });
      if (!loaded.ok) throw new Error('the settings are invalid');
      const warnings = (now?: Date) => certificateWarnings(loaded.config.server.tls, now);
      const dated = (variable: string, file: string) =>
        expect.stringMatching(new RegExp(`^${variable}: the certificate in .*${file} ${what} \\d{4}-\\d\\d-\\d\\dT`));
      expect(warnings(new Date(Date.now() + days * 86_400_000))).toEqual([
        dated('TLS_CERT_FILE', ''),
        dated('TLS_CLIENT_CA_FILE', ''),
      ]);
      expect(warnings()).toEqual([]);
    });

    it('has none with valid files', () => {
      expect(problemsOf({ ...own, TLS_CLIENT_CA_FILE: files.ca })).toEqual([]);
    });
  });
});
