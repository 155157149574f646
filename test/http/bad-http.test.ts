import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { MASTER_KEY, startTestGateway } from '../support/gateway.ts';
import { type RawAnswer, RawClient, rawAnswer } from '../support/raw-client.ts';
import { expectEnvelope, json, modelsListed, user, withGateway } from '../support/with-gateway.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'chancery-bad-http-'));
writeFileSync(join(dataDir, 'chancery.yaml'), 'server: { headers_timeout: 500ms, request_timeout: 1s }\n');
afterAll(() => rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 }));
const gateway = withGateway({ dataDir });

const KEY = `host: gateway\r\nauthorization: Bearer ${MASTER_KEY}\r\n`;
const chat = JSON.stringify({ model: 'llamacpp/simulated-small', messages: user('Reply with exactly: fine') });

const postBytes = (path: string, body: string, headers = '') =>
  `POST ${path} HTTP/1.1\r\n${KEY}${headers}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const raw = (bytes: string | Buffer) => rawAnswer(gateway.url, bytes);

/** The answer to raw bytes: an error in the envelope. */
function refusal(answer: RawAnswer | undefined, status: number | readonly number[]) {
  expect([status].flat(), answer?.body.toString()).toContain(answer?.status);
  const body = JSON.parse(answer?.body.toString() ?? '');
  expectEnvelope(body);
  return body.error;
}

async function answersAsEver(): Promise<void> {
  const answer = await gateway.post('/v1/chat/completions', chat);
  expect((await json(answer)).choices[0].message.content).toBe('fine');
}

const bytes = (...parts: (string | number)[]) =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from([part]))));

describe('invalid HTTP', () => {
  it.each([
    ['rubbish', 'GARBAGE\r\n\r\n'],
    ['a TLS greeting', bytes(0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03, '\r\n\r\n')],
    ['an unknown method', `FROBNICATE /v1/models HTTP/1.1\r\n${KEY}\r\n`],
    ['an unknown version', `GET /v1/models HTTP/9.9\r\n${KEY}\r\n`],
    ['a header without a colon', `GET /v1/models HTTP/1.1\r\n${KEY}nonsense\r\n\r\n`],
    ['a NUL in a header', `GET /v1/models HTTP/1.1\r\n${KEY}x: a\u0000b\r\n\r\n`],
    ['a space in a header name', `GET /v1/models HTTP/1.1\r\n${KEY}a b: c\r\n\r\n`],
    ['no host', `GET /v1/models HTTP/1.1\r\nauthorization: Bearer ${MASTER_KEY}\r\n\r\n`],
    ['two lengths', `POST /v1/models HTTP/1.1\r\n${KEY}content-length: 3\r\ncontent-length: 4\r\n\r\nabcd`],
    ['a length that is not a number', `POST /v1/models HTTP/1.1\r\n${KEY}content-length: x\r\n\r\n`],
    ['a negative length', `POST /v1/models HTTP/1.1\r\n${KEY}content-length: -1\r\n\r\n`],
    [
      'a length and chunks',
      `POST /v1/models HTTP/1.1\r\n${KEY}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    [
      'malformed chunks',
      `POST /v1/chat/completions HTTP/1.1\r\n${KEY}transfer-encoding: chunked\r\n\r\nZZZ\r\nabc\r\n`,
    ],
    [
      'a chunk longer than its stated length',
      `POST /v1/chat/completions HTTP/1.1\r\n${KEY}transfer-encoding: chunked\r\n\r\n2\r\nabcdef\r\n`,
    ],
    [
      'two requests grown together',
      `POST /v1/chat/completions HTTP/1.1\r\n${KEY}content-length: 5\r\n\r\n{}GET /v1/models HTTP/1.1\r\n\r\n`,
    ],
  ] as [string, string | Buffer][])('is refused: %s', async (_what, sent) => {
    const client = await RawClient.open(gateway.url);
    client.send(sent);
    refusal(await client.answer(), [400, 404, 505]);
    client.close();
    await answersAsEver();
  });

  it.each([
    ['a header of 64 KiB', `x-big: ${'x'.repeat(64 * 1024)}\r\n`],
    ['ten thousand headers', Array.from({ length: 10_000 }, (_, n) => `x-${n}: ${n}\r\n`).join('')],
  ])('is refused as too large: %s', async (_what, headers) => {
    const error = refusal(await raw(`GET /v1/models HTTP/1.1\r\n${KEY}${headers}\r\n`), 431);
    expect(error.type).toBe('invalid_request_error');
    await answersAsEver();
  });

  it('is refused as too large: a URL of 100 KB', async () => {
    refusal(await raw(`GET /v1/models/${'x'.repeat(100_000)} HTTP/1.1\r\n${KEY}\r\n`), [414, 431]);
  });

  it('is refused after a while: a request that does not continue', { timeout: 20_000 }, async () => {
    const halves = [
      'GET /v1/models HTTP/1.1\r\nhost: x\r\n',
      `POST /v1/chat/completions HTTP/1.1\r\n${KEY}content-length: 1000\r\n\r\n{"model":`,
      `POST /v1/chat/completions HTTP/1.1\r\n${KEY}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n`,
      `POST /p/llamacpp/tokenize HTTP/1.1\r\n${KEY}content-length: 1000\r\n\r\n{"content":`,
    ];
    const answers = await Promise.all(halves.map(raw));
    for (const answer of answers) if (answer !== undefined) refusal(answer, 408);
    await answersAsEver();
  });

  it('has no effect when its sender disconnects in the middle', async () => {
    for (const half of [
      'GET /v1/mod',
      `POST /v1/chat/completions HTTP/1.1\r\n${KEY}content-length: 1000\r\n\r\n{"model":`,
      `POST /p/llamacpp/tokenize HTTP/1.1\r\n${KEY}content-length: 1000\r\n\r\n{"content":`,
      `POST /p/llamacpp/tokenize HTTP/1.1\r\n${KEY}content-length: 100000\r\n\r\n{"content":`,
      `POST /p/llamacpp/tokenize HTTP/1.1\r\n${KEY}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n`,
    ]) {
      const client = await RawClient.open(gateway.url);
      client.send(half);
      await answersAsEver();
      client.socket.resetAndDestroy();
      await answersAsEver();
    }
  });

  it('cannot smuggle a request behind a body', async () => {
    const client = await RawClient.open(gateway.url);
    client.send(postBytes('/v1/chat/completions', `${chat}\r\n\r\nGET /v1/models HTTP/1.1\r\n${KEY}\r\n`));
    refusal(await client.answer(), 400);
    client.send(`GET /health HTTP/1.1\r\nhost: x\r\n\r\n`);
    expect(JSON.parse((await client.answer())?.body.toString() ?? '')).toEqual({ status: 'ok' });
    client.close();
  });
});

describe('unusual but valid HTTP', () => {
  it('of version 1.0 is answered, and the connection closed', async () => {
    const client = await RawClient.open(gateway.url);
    client.send(`GET /health HTTP/1.0\r\n\r\n`);
    expect((await client.answer())?.status).toBe(200);
    await client.closed();
    const requested = await raw(
      `POST /v1/chat/completions HTTP/1.0\r\n${KEY}content-length: ${chat.length}\r\n\r\n${chat}`,
    );
    expect(JSON.parse(requested?.body.toString() ?? '').choices[0].message.content).toBe('fine');
  });

  it('of version 1.0 receives streams', async () => {
    const body = JSON.stringify({ ...JSON.parse(chat), stream: true });
    const answer = await raw(
      `POST /v1/chat/completions HTTP/1.0\r\n${KEY}content-length: ${body.length}\r\n\r\n${body}`,
    );
    expect(answer?.status).toBe(200);
    expect(answer?.headers['transfer-encoding']).toBeUndefined();
    expect(answer?.body.toString()).toMatch(/^data: \{[\s\S]*\ndata: \[DONE\]\n\n$/);
  });

  it('in a pipeline is answered in its order', async () => {
    const client = await RawClient.open(gateway.url);
    const row = Array.from({ length: 8 }, (_, n) =>
      n % 2 === 0
        ? postBytes('/v1/chat/completions', chat, `x-request-id: row-${n}\r\n`)
        : `GET /v1/models HTTP/1.1\r\n${KEY}x-request-id: row-${n}\r\n\r\n`,
    );
    client.send(row.join(''));
    for (const n of row.keys()) {
      const answer = await client.answer();
      expect(answer?.status).toBe(200);
      expect(answer?.headers['x-request-id']).toBe(`row-${n}`);
    }
    client.close();
  });

  it('with Expect: 100-continue receives 100', async () => {
    const client = await RawClient.open(gateway.url);
    client.send(
      `POST /v1/chat/completions HTTP/1.1\r\n${KEY}expect: 100-continue\r\ncontent-length: ${chat.length}\r\n\r\n`,
    );
    expect((await client.answer())?.status).toBe(100);
    expect((await client.send(chat).answer())?.status).toBe(200);
    client.close();
  });

  it.each(['/v1/responses', '/v1/responses/x', '/v1/models', '/v1/realtime', '/admin/live/logs/x', '/nothing'])(
    'that requests an upgrade at %s is answered without one, but for a web socket at /v1/responses and /v1/realtime',
    async (path) => {
      const upgrade =
        'connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
      const answer = await raw(`GET ${path} HTTP/1.1\r\n${KEY}${upgrade}\r\n`);
      if (path === '/v1/models') expect(answer?.status).toBe(200);
      else if (['/v1/responses', '/v1/realtime'].includes(path)) expect(answer?.status).toBe(101);
      else refusal(answer, 404);
      const h2c = await raw(
        `GET ${path} HTTP/1.1\r\n${KEY}connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n\r\n`,
      );
      expect([200, 404, 426]).toContain(h2c?.status);
    },
  );

  it.each(['PROPFIND', 'TRACE', 'LINK', 'PURGE', 'OPTIONS', 'SEARCH', 'QUERY'])(
    'with the method %s is refused as unsupported',
    async (method) => {
      for (const path of ['/v1/models', '/v1/chat/completions', '/nothing']) {
        const error = refusal(await raw(`${method} ${path} HTTP/1.1\r\n${KEY}\r\n`), [400, 404, 405]);
        expect(['not_found_error', 'invalid_request_error']).toContain(error.type);
      }
    },
  );

  it('that requests a tunnel gets none', async () => {
    const client = await RawClient.open(gateway.url);
    client.send(`CONNECT example.com:443 HTTP/1.1\r\n${KEY}\r\n`);
    refusal(await client.answer(), [400, 404, 405]);
    await client.closed();
    await answersAsEver();
  });

  it.each([
    ['//v1/models', 404],
    ['/v1//models', 404],
    ['/v1/models/%00', 404],
    ['/v1/models/%', 400],
    ['/v1/models/%zz', 400],
    ['/v1/models/%ff%fe', 400],
    ['/v1/responses/%2e%2e%2fmodels', 404],
    ['/v1/responses/..%2f..%2fetc', 404],
    [`/v1/responses/${'x'.repeat(2000)}`, [404, 414]],
    ['/v1/../admin/live/logs/x', 404],
    ['*', 404],
    ['http://evil.example/v1/nothing', 404],
    ['/v1/nothing?a=%zz', 404],
    ['/V1/MODELS', 404],
    ['/v1/models/', 404],
    ['/p/llamacpp', 404],
    ['/p//x', [400, 404]],
    ['/p/%00/x', 400],
    ['/p/%2e%2e/x', 400],
  ] as [string, number | number[]][])('for the URL %s gets an error', async (path, status) => {
    refusal(await raw(`GET ${path} HTTP/1.1\r\n${KEY}\r\n`), status);
  });

  it('with an invalid Authorization header is refused', async () => {
    for (const value of [
      'Bearer',
      'Bearer  ',
      'bearer\tx',
      'Bearer a b',
      'Token x',
      '',
      `Bearer ${'x'.repeat(10_000)}`,
      'Bearer \u00ff\u00fe',
    ]) {
      const answer = await rawAnswer(
        gateway.url,
        Buffer.from(`GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: ${value}\r\n\r\n`, 'latin1'),
      );
      expect(refusal(answer, 401).type).toBe('authentication_error');
    }
  });
});

describe('after all of this', () => {
  it('the same gateway works as before, and nothing is left open', async () => {
    await answersAsEver();
    const metrics = await (await gateway.fetch('/metrics')).text();
    expect(metrics).toMatch(/^gateway_requests_in_flight 0$/m);
    expect(metrics).not.toMatch(/^gateway_requests_total\{[^}]*status_code="500"/m);
    expect((await fetch(`${gateway.url}/health/ready`)).status).toBe(200);
  });

  it('a gateway stops in time, although clients hold incomplete requests', async () => {
    const own = await startTestGateway({ env: { DRAIN_TIMEOUT: '200ms', BODY_SIZE_LIMIT: '1K' } });
    await modelsListed(own);
    const halves = [
      'GET /v1/models HTTP/1.1\r\nhost: x\r\n',
      `POST /v1/chat/completions HTTP/1.1\r\n${KEY}content-length: 1000\r\n\r\n{"model":`,
      `POST /p/llamacpp/tokenize HTTP/1.1\r\n${KEY}content-length: 1000\r\n\r\n{"content":`,
      `POST /v1/chat/completions HTTP/1.1\r\n${KEY}content-length: 1000000\r\n\r\n{"model":`,
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n{"model":`,
    ];
    const clients = await Promise.all(halves.map(async (half) => (await RawClient.open(own.url)).send(half)));
    expect((await own.fetch('/v1/models')).status).toBe(200);
    const before = performance.now();
    await own.close();
    expect(performance.now() - before).toBeLessThan(3000);
    for (const client of clients) await client.closed();
  });
});
