/** The recorded content of requests that the gateway refuses: their beginning, their size and their digest. */
import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { at, setBudget, setPrice } from '../support/batches.ts';
import { MASTER_KEY } from '../support/gateway.ts';
import { rawAnswer } from '../support/raw-client.ts';
import {
  errorOf,
  eventsOfExchange,
  exchangeOf,
  json,
  type LoggedEvent,
  user,
  withGateway,
} from '../support/with-gateway.ts';

const gateway = withGateway();
const MODEL = 'llamacpp/simulated-small';
const text = 'x'.repeat(100_000);
const KEPT = 4096;

const limit = (path: string) =>
  gateway.post(
    '/admin/rate-limits',
    { user_path: path, limit_key: { period: 'hour' }, max_requests: 1 },
    { method: 'PUT' },
  );

beforeAll(async () => {
  await setPrice(gateway, MODEL, { per_request: 2 });
  await setBudget(gateway, '/poor', 1);
  expect((await limit('/limited')).status).toBe(200);
  const first = { model: MODEL, messages: user('hi') };
  expect((await gateway.post('/v1/chat/completions', first, at('/limited'))).status).toBe(200);
});

async function deniedKey(): Promise<RequestInit> {
  const made = await gateway.fetch('/admin/auth-keys', {
    json: { name: 'denied', allowed_models: ['llamacpp/simulated-large'] },
  });
  return { headers: { authorization: `Bearer ${(await json(made)).value}` } };
}

async function restrictedKey(): Promise<RequestInit> {
  const made = await gateway.fetch('/admin/auth-keys', { json: { name: 'restricted', user_path: '/restricted' } });
  return { headers: { authorization: `Bearer ${(await json(made)).value}` } };
}

/** The only event of the request that holds content. */
async function receivedOf(answer: Response): Promise<LoggedEvent> {
  const events = await eventsOfExchange(gateway, exchangeOf(answer));
  const received = events.find(({ type }) => type === 'request.received');
  if (received === undefined) throw new Error('the request is not on record');
  return received;
}

const chat = (model: unknown = MODEL) => JSON.stringify({ model, messages: user(text) });

describe('a refused request', () => {
  it.each<[string, string, string, number, () => RequestInit | Promise<RequestInit>]>([
    ['is over a rate limit', '/v1/chat/completions', chat(), 429, () => at('/limited')],
    ['is over a budget', '/v1/chat/completions', chat(), 429, () => at('/poor')],
    ['may not use the model', '/v1/chat/completions', chat(), 400, deniedKey],
    ['names no model that exists', '/v1/chat/completions', chat('nothing'), 404, () => ({})],
    ['is not valid', '/v1/chat/completions', chat(7), 400, () => ({})],
    ['is no JSON', '/v1/chat/completions', text, 400, () => ({})],
    [
      'continues no response',
      '/v1/responses',
      JSON.stringify({ model: MODEL, input: text, previous_response_id: 'resp_none' }),
      404,
      () => ({}),
    ],
    [
      'is over a rate limit under /p/',
      '/p/llamacpp/v1/chat/completions',
      chat('simulated-small').slice(0, 60_000),
      429,
      () => at('/limited'),
    ],
  ])('that %s is recorded with 4 KiB of its body, its size and its digest', async (_why, path, body, status, init) => {
    const answer = await gateway.post(path, body, await init());
    await errorOf(answer, status);
    const { body: kept, data } = await receivedOf(answer);
    expect(kept).toBe(body.slice(0, KEPT));
    expect(data).toMatchObject({ bodyBytes: body.length, bodySha256: createHash('sha256').update(body).digest('hex') });
  });

  it('is recorded with no more under an idempotency key, which stays free for a later request', async () => {
    const headers = { ...at('/limited').headers, 'idempotency-key': 'refused-once' };
    const answer = await gateway.post('/v1/chat/completions', chat(), { headers });
    await errorOf(answer, 429);
    expect((await receivedOf(answer)).body).toHaveLength(KEPT);
    const again = await gateway.post('/v1/chat/completions', chat('nothing'), { headers });
    expect(await errorOf(again, 404)).toMatchObject({ code: 'model_not_found' });
  });

  it('is recorded with the beginning of a long model name, also in its error', async () => {
    const answer = await gateway.post('/v1/chat/completions', chat('m'.repeat(100_000)));
    await errorOf(answer, 404);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(JSON.stringify(events).length).toBeLessThan(3 * KEPT);
  });

  it('is recorded whole when it is short', async () => {
    const body = JSON.stringify({ model: 'nothing', messages: user('hi') });
    const answer = await gateway.post('/v1/chat/completions', body);
    const { body: kept, data } = await receivedOf(answer);
    expect(kept).toBe(body);
    expect(data).not.toHaveProperty('bodySha256');
  });
});

describe('a refused request under /p/', () => {
  const short = JSON.stringify({ model: 'gpt-x', messages: user('hi') });

  it.each<[string, string, number, string, string | undefined]>([
    ['of an unknown provider', '/p/nowhere/v1/chat/completions', 400, short, undefined],
    ['with a dot segment', '/p/llamacpp/..%2fx', 400, short, 'llamacpp'],
  ])('%s has the model, the provider and the body on record', async (_why, path, status, body, provider) => {
    const answer = await gateway.post(path, body);
    await errorOf(answer, status);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const received = events.find(({ type }) => type === 'request.received');
    expect([received?.body?.toString(), received?.data['model']]).toEqual([body, 'gpt-x']);
    const resolved = events.find(({ type }) => type === 'model.resolved');
    expect(resolved?.data['provider']).toBe(provider);
  });

  it('has 4 KiB of a long body on record, and is answered', async () => {
    const body = `{"model":"gpt-x","text":"${'a'.repeat(300_000)}"}`;
    const answer = await gateway.post('/p/nowhere/x', body);
    await errorOf(answer, 400);
    expect((await receivedOf(answer)).body).toBe(body.slice(0, KEPT));
  });

  it('is answered although its client sends no body', async () => {
    const head = [
      'POST /p/nowhere/x HTTP/1.1',
      'host: x',
      `authorization: Bearer ${MASTER_KEY}`,
      'content-type: application/json',
      'content-length: 100',
    ];
    const answer = await rawAnswer(gateway.url, `${head.join('\r\n')}\r\n\r\n`);
    expect(answer?.status).toBe(400);
  });

  it('of a key with restricted visibility has the model and the body on record', async () => {
    const init = await restrictedKey();
    const answer = await gateway.post('/p/llamacpp/v1/files', short, init);
    await errorOf(answer, 403);
    const { body, data } = await receivedOf(answer);
    expect([body, data['model']]).toEqual([short, 'gpt-x']);
  });
});

describe('a request that a provider refused', () => {
  it('is recorded with its whole body', async () => {
    gateway.simulated.control.next({ status: 400 });
    const answer = await gateway.post('/v1/chat/completions', chat());
    expect(answer.status).toBe(400);
    expect((await receivedOf(answer)).body).toBe(chat());
  });
});

describe('GET /admin/audit/detail', () => {
  it('shows the size and the digest of a body that was cut', async () => {
    const answer = await gateway.post('/v1/chat/completions', chat('nothing'));
    await eventsOfExchange(gateway, exchangeOf(answer));
    const detail = await json(await gateway.fetch(`/admin/audit/detail?log_id=${exchangeOf(answer)}`));
    expect(detail.data).toMatchObject({
      request_body: chat('nothing').slice(0, KEPT),
      request_body_bytes: chat('nothing').length,
      request_body_sha256: createHash('sha256').update(chat('nothing')).digest('hex'),
    });
  });
});
