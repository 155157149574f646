/** Wrong methods, and features that are off: a status that states the reason. */
import { describe, expect, it } from 'vitest';
import { newKey } from '../support/managed-keys.ts';
import { rawAnswer } from '../support/raw-client.ts';
import { errorOf, json, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway();

describe('a method that a path does not support', () => {
  it.each([
    ['POST', '/v1/models', 'GET, HEAD'],
    ['GET', '/v1/chat/completions', 'POST'],
    ['DELETE', '/v1/chat/completions?a=b', 'POST'],
    ['PUT', '/v1/responses/resp_1', 'DELETE, GET, HEAD'],
    ['GET', '/v1/responses/resp_1/cancel', 'POST'],
    ['PATCH', '/v1/files/file-1', 'DELETE, GET, HEAD'],
    ['OPTIONS', '/v1/messages', 'POST'],
    ['POST', '/admin/users', 'DELETE, GET, HEAD, PUT'],
    ['GET', '/admin/api/v1/sql', 'POST'],
    ['DELETE', '/metrics', 'GET, HEAD'],
    ['POST', '/health', 'GET, HEAD'],
    ['DELETE', '/openapi.json', 'GET, HEAD'],
  ])('%s %s gets 405 with Allow', async (method, path, allow) => {
    const answer = await gateway.fetch(path, { method });
    expect(answer.headers.get('allow')).toBe(allow);
    if (!path.startsWith('/v1/messages')) expect((await errorOf(answer, 405)).code).toBe('method_not_allowed');
    else expect(answer.status).toBe(405);
  });

  it('gets 401 without a key, except at a path that requires none', async () => {
    expect((await fetch(`${gateway.url}/v1/models`, { method: 'POST' })).status).toBe(401);
    expect((await fetch(`${gateway.url}/health`, { method: 'POST' })).status).toBe(405);
  });

  it('gets 405 for CONNECT too', async () => {
    const answer = await rawAnswer(gateway.url, 'CONNECT example.com:443 HTTP/1.1\r\nhost: example.com\r\n\r\n');
    expect([answer?.status, answer?.headers['allow']]).toEqual([405, '']);
  });

  it('gets 404 where no route exists', async () => {
    expect((await errorOf(await gateway.fetch('/v1/nothing', { method: 'POST' }), 404)).code).toBe('unknown_route');
    expect((await gateway.fetch('/v1/modelsx', { method: 'POST' })).status).toBe(404);
  });
});

describe('plugins and guardrails, while they are off', () => {
  it.each([
    ['GET', '/admin/plugins'],
    ['GET', '/admin/guardrails/types'],
    ['GET', '/admin/guardrails'],
    ['GET', '/admin/guardrails/one'],
    ['PUT', '/admin/guardrails'],
    ['DELETE', '/admin/guardrails'],
    ['GET', '/admin/workflows/guardrails'],
  ])('%s %s answers 503', async (method, path) => {
    const answer = await gateway.fetch(path, { method });
    expect(answer.headers.get('x-should-retry')).toBe('false');
    expect(await errorOf(answer, 503)).toMatchObject({ code: 'feature_unavailable', type: 'invalid_request_error' });
    const key = await newKey(gateway);
    expect((await errorOf(await key.fetch(path, { method }), 403)).code).toBe('dashboard_access_denied');
  });
});

describe('the description of the API', () => {
  it('has the version of the API', async () => {
    expect((await json(await fetch(`${gateway.url}/openapi.json`))).info.version).toBe('1.0');
  });
});
