import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { registerHealth } from '../../src/http/health.ts';
import { emptyAndLockIndex } from '../events/locked-index.ts';
import { appendThings, openTestLog, temporaryDirectory } from '../events/log-files.ts';
import { bareServer } from '../support/bare-server.ts';
import { startTestGateway } from '../support/gateway.ts';
import { errorOf, json, user, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway();
const open = (path: string, init?: RequestInit) => fetch(`${gateway.url}${path}`, init);

describe('open routes and metrics', () => {
  it('report whether the gateway runs, and whether it is ready', async () => {
    const health = await open('/health');
    expect(health.status).toBe(200);
    expect(await json(health)).toEqual({ status: 'ok' });
    const ready = await open('/health/ready');
    expect(ready.status).toBe(200);
    expect(await json(ready)).toEqual({ status: 'ready', components: { storage: 'ok', stream_index: 'ok' } });
  });

  it('answer HEAD too, and clients with a wrong key', async () => {
    expect((await open('/health', { method: 'HEAD' })).status).toBe(200);
    expect((await open('/health', { headers: { authorization: 'Bearer wrong' } })).status).toBe(200);
  });

  it('count requests by provider, model, endpoint and status', async () => {
    await gateway.post('/v1/chat/completions', { model: 'llamacpp/simulated-small', messages: user('hi') });
    const answer = await gateway.fetch('/metrics');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toMatch(/^text\/plain/);
    const text = await answer.text();
    const counted = text.split('\n').find((line) => line.startsWith('gateway_requests_total{'));
    for (const label of [
      'provider="llamacpp"',
      'endpoint="/v1/chat/completions"',
      'status_code="200"',
      'stream="false"',
    ]) {
      expect(counted).toContain(label);
    }
    expect(counted).toMatch(/ 1$/);
    expect(text).toMatch(/^gateway_request_duration_seconds_bucket\{/m);
    expect(text).toMatch(/^# TYPE gateway_response_snapshot_store_failures_total counter$/m);
  });

  it("serve the API's description", async () => {
    const document = await json(await open('/openapi.json'));
    expect(document.openapi).toMatch(/^3\.1/);
    expect(Object.keys(document.paths)).toEqual(
      expect.arrayContaining([
        '/v1/chat/completions',
        '/v1/responses',
        '/v1/responses/{id}',
        '/v1/embeddings',
        '/v1/models',
      ]),
    );
  });
});

describe('protected routes', () => {
  it.each([
    ['GET', '/v1/models'],
    ['GET', '/v1/models/x'],
    ['POST', '/v1/chat/completions'],
    ['POST', '/v1/responses'],
    ['GET', '/v1/responses/resp_1'],
    ['GET', '/v1/responses/resp_1/input_items'],
    ['DELETE', '/v1/responses/resp_1'],
    ['POST', '/v1/embeddings'],
    ['GET', '/p/llamacpp/props'],
    ['POST', '/p/llamacpp/chat/completions'],
    ['GET', '/admin/live/logs'],
    ['GET', '/metrics'],
    ['GET', '/v1/no-such-route'],
    ['GET', '/admin/no-such-route'],
  ])('refuse %s %s without a key, with a wrong one and with a malformed one', async (method, path) => {
    const before = gateway.simulated.requests.length;
    for (const [headers, code] of [
      [{}, 'missing_credentials'],
      [{ authorization: 'Bearer wrong' }, 'invalid_api_key'],
      [{ 'x-api-key': 'wrong' }, 'invalid_api_key'],
      [{ authorization: 'Basic dGVzdA==' }, 'malformed_authorization'],
      [{ authorization: 'Bearer' }, 'malformed_authorization'],
    ] as [Record<string, string>, string][]) {
      const answer = await open(path, { method, headers });
      expect(answer.headers.get('www-authenticate')).toBe('Bearer');
      expect(answer.headers.get('x-request-id')).toMatch(/./);
      expect(await errorOf(answer, 401)).toMatchObject({ type: 'authentication_error', code });
    }
    expect(gateway.simulated.requests).toHaveLength(before);
  });

  it('accept x-api-key too', async () => {
    expect((await open('/v1/models', { headers: { 'x-api-key': 'test-master-key' } })).status).toBe(200);
  });
});

describe('an open gateway', () => {
  it('serves every client, when GATEWAY_UNSAFE_OPEN is set', async () => {
    const unsafe = await startTestGateway({ env: { GATEWAY_UNSAFE_OPEN: 'true', GATEWAY_MASTER_KEY: '' } });
    try {
      expect((await fetch(`${unsafe.url}/v1/models`)).status).toBe(200);
      expect((await fetch(`${unsafe.url}/v1/models`, { headers: { authorization: 'anything' } })).status).toBe(200);
    } finally {
      await unsafe.close();
    }
  });
});

describe('GET /health/ready', () => {
  it.each([
    ['ok', 200, 'ready'],
    ['degraded', 200, 'degraded'],
    ['down', 503, 'not_ready'],
  ] as const)('storage %s: answers %i %s', async (storage, code, status) => {
    const app = bareServer();
    registerHealth(app, { log: () => storage, streamIndex: () => 'ok', stopping: () => false });
    const answer = await app.inject('/health/ready');
    const components = { storage, stream_index: 'ok' };
    expect([answer.statusCode, answer.json()]).toEqual([code, { status, components }]);
  });

  it.each([
    [2, 200, 'ready', {}],
    [1, 200, 'degraded', {}],
    [0, 503, 'not_ready', { reason: 'no worker serves requests' }],
  ] as const)('%i of 2 workers run: answers %i %s', async (running, code, status, reason) => {
    const app = bareServer();
    const workers = { configured: 2, running };
    registerHealth(app, { log: () => 'ok', streamIndex: () => 'ok', stopping: () => false, workers: () => workers });
    const answer = await app.inject('/health/ready');
    expect(answer.statusCode).toBe(code);
    expect(answer.json()).toMatchObject({ status, workers: { ...workers, ...reason } });
  });
});

describe('a gateway whose stream index is being rebuilt', () => {
  it('is degraded until the index is complete, and serves requests meanwhile', async () => {
    const dataDir = temporaryDirectory();
    const dir = join(dataDir, 'log');
    const log = await openTestLog(dir, { segmentBytes: 1_500 });
    await appendThings(log, 0, 40);
    await log.settled();
    await log.close();
    const unlock = emptyAndLockIndex(dir);
    const started = await startTestGateway({ dataDir });
    onTestFinished(() => started.close());
    const readiness = async () => {
      const answer = await fetch(`${started.url}/health/ready`);
      return [answer.status, await json(answer)];
    };
    // the log also states that segments cannot be indexed
    const components = { storage: expect.stringMatching(/^(ok|degraded)$/), stream_index: 'rebuilding' };
    expect(await readiness()).toEqual([200, { status: 'degraded', components }]);
    const request = { model: 'llamacpp/simulated-small', messages: user('hi') };
    expect((await started.fetch('/v1/chat/completions', { json: request })).status).toBe(200);
    expect(await readiness()).toEqual([200, { status: 'degraded', components }]);
    unlock();
    const ready = [200, { status: 'ready', components: { storage: 'ok', stream_index: 'ok' } }];
    await expect.poll(readiness).toEqual(ready);
  });
});
