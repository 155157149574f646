import { describe, expect, it } from 'vitest';
import type { Fault } from '../../infra/simulated-provider/fault.ts';
import { startTestGateway } from '../support/gateway.ts';
import { both, headers, native, translated, withMessageKinds } from '../support/message-kinds.ts';
import { errorOf, eventsOf, json, user } from '../support/with-gateway.ts';

const { gateway, anthropic, post, stream } = withMessageKinds({
  RETRY_MAX_RETRIES: '0',
  CIRCUIT_BREAKER_ENABLED: 'false',
  BODY_SIZE_LIMIT: '64K',
});
const messages = user('Tell me something.');
const requestBody = { model: translated, max_tokens: 10, messages };

/** The error of an answer, in exactly Anthropic's form. */
async function failure(answer: Response, status: number) {
  const text = await answer.text();
  expect({ status: answer.status, text }).toMatchObject({ status });
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  const { type, error, request_id, ...rest } = JSON.parse(text);
  expect({ type, rest }).toEqual({ type: 'error', rest: {} });
  expect(request_id).toBe(answer.headers.get('request-id'));
  expect(Object.keys(error).filter((name) => name !== 'details')).toEqual(['type', 'message']);
  return error;
}

describe('a refusal on /v1/messages', () => {
  it.each([
    [{ max_tokens: 10, messages }, 'model'],
    [{ model: translated, messages }, 'max_tokens'],
    [{ model: translated, max_tokens: 10 }, 'messages'],
    [{ ...requestBody, messages: [] }, 'messages'],
    [{ ...requestBody, messages: 'hi' }, 'messages'],
    [{ ...requestBody, messages: [{ role: 'user' }] }, 'messages[0].content'],
    [{ ...requestBody, messages: [{ role: 'user', content: [{}] }] }, 'messages[0].content[0].type'],
    [{ ...requestBody, max_tokens: -1 }, 'max_tokens'],
    [{ ...requestBody, max_tokens: '10' }, 'max_tokens'],
    [{ ...requestBody, system: 1 }, 'system'],
    [{ ...requestBody, stream: 'yes' }, 'stream'],
    [{ ...requestBody, stop_sequences: 'END' }, 'stop_sequences'],
    [{ ...requestBody, messages: [{ role: 'robot', content: 'hi' }] }, 'messages[0].role'],
    [{ ...requestBody, container: 'c' }, 'container'],
  ])('names the invalid member of %j', async (body, param) => {
    expect(await failure(await post(body), 400)).toMatchObject({
      type: 'invalid_request_error',
      message: expect.stringContaining(param),
      details: { param, error_code: expect.any(String) },
    });
  });

  it.each(['', 'no JSON', '[]', 'null', '"x"'])('is returned for a body that is no JSON object: %j', async (body) => {
    expect(await failure(await gateway.post('/v1/messages', body), 400)).toMatchObject({
      type: 'invalid_request_error',
    });
  });

  it('is a 401 without a key, or with a wrong one', async () => {
    for (const key of [{}, { 'x-api-key': 'wrong' }, { authorization: 'Basic x' }]) {
      const init = { method: 'POST', headers: key, body: JSON.stringify(requestBody) };
      const answer = await fetch(`${gateway.url}/v1/messages`, init);
      expect(await failure(answer, 401)).toMatchObject({ type: 'authentication_error' });
      expect(answer.headers.get('www-authenticate')).toBe('Bearer');
    }
  });

  it('is a 404 for an unknown model, and a 400 for an unknown provider', async () => {
    expect(await failure(await post({ ...requestBody, model: 'nobody/x' }), 404)).toMatchObject({
      type: 'not_found_error',
      details: { error_code: 'model_not_found', param: 'model' },
    });
    expect(await failure(await post({ ...requestBody, provider: 'nobody' }), 400)).toMatchObject({
      details: { error_code: 'unknown_provider' },
    });
  });

  it('is a 413 for a body over the limit', async () => {
    const long = { ...requestBody, messages: user('x'.repeat(100_000)) };
    expect(await failure(await post(long), 413)).toMatchObject({ type: 'request_too_large' });
  });

  it('is a 404 for an unknown path below it', async () => {
    for (const path of ['/v1/messages/nothing', '/v1/messages/count_tokens/x']) {
      const answer = await gateway.fetch(path, { method: 'GET' });
      expect(await failure(answer, 404)).toMatchObject({
        type: 'not_found_error',
        details: { error_code: 'unknown_route' },
      });
    }
  });

  it('is a 405 for an unsupported method', async () => {
    const answer = await gateway.fetch('/v1/messages?x=1', { method: 'GET' });
    expect(answer.headers.get('allow')).toContain('POST');
    expect(await failure(answer, 405)).toMatchObject({ type: 'invalid_request_error' });
  });

  it("has OpenAI's form on other paths", async () => {
    for (const path of ['/v1/messagesx', '/v1/nothing', '/messages']) {
      await errorOf(await gateway.fetch(path, { headers }), 404);
    }
    await errorOf(await gateway.post('/v1/chat/completions', {}, { headers }), 400);
  });
});

describe.each(both)("a provider's refusal, %s", (_kind, model) => {
  const path = model === native ? '/v1/messages' : '/v1/chat/completions';
  const simulated = () => (model === native ? anthropic : gateway.simulated);

  it.each([
    [400, 'invalid_request_error'],
    [403, 'permission_error'],
    [404, 'not_found_error'],
    [409, 'invalid_request_error'],
    [413, 'request_too_large'],
    [422, 'invalid_request_error'],
    [429, 'rate_limit_error'],
    [500, 'api_error'],
    [502, 'api_error'],
    [503, 'overloaded_error'],
    [504, 'api_error'],
    [529, 'overloaded_error'],
  ])('with %i keeps its status and is a %s', async (status, type) => {
    for (const stream of [false, true]) {
      // After a longer time the provider would not be called for the model by the tests that follow.
      const retryAfter = status === 429 ? 0 : 7;
      simulated().control.next({ status, message: 'no luck today', retryAfter }, { path });
      const answer = await post({ ...requestBody, model, stream });
      expect(await failure(answer, status)).toMatchObject({ type, message: 'no luck today' });
      expect(answer.headers.get('retry-after')).toBe(String(retryAfter));
    }
  });
});

describe.each(both)("a provider's refusal of the gateway's credential, %s", (_kind, model) => {
  it('is 502 and an api_error', async () => {
    const path = model === native ? '/v1/messages' : '/v1/chat/completions';
    const simulated = model === native ? anthropic : gateway.simulated;
    for (const stream of [false, true]) {
      simulated.control.next({ status: 401, message: 'no luck today' }, { path });
      expect(await failure(await post({ ...requestBody, model, stream }), 502)).toMatchObject({
        type: 'api_error',
        message: expect.stringContaining('no luck today'),
      });
    }
  });
});

describe('a translated stream that fails', () => {
  it.each([
    [
      'reports an error',
      { errorInStream: 3, message: 'out of memory' },
      { type: 'api_error', message: 'out of memory' },
    ],
    ['ends too early', { cutAfterChunks: 4 }, { type: 'api_error', details: { error_code: 'stream_incomplete' } }],
  ] as [string, Fault, object][])('whose provider %s ends with an error event', async (_how, fault, error) => {
    gateway.simulated.control.next(fault);
    const { text } = await stream(requestBody);
    const events = eventsOf(text);
    expect(events[0]?.event).toBe('message_start');
    expect(events.at(-1)?.event).toBe('error');
    expect(JSON.parse(events.at(-1)?.data ?? '')).toMatchObject({ type: 'error', error });
    expect(text).not.toContain('message_stop');
  });

  it('before its first word is an error answer', async () => {
    gateway.simulated.control.next({ errorInStream: 0, message: 'out of memory' });
    expect(await failure(await post({ ...requestBody, stream: true }), 502)).toMatchObject({
      message: 'out of memory',
    });
  });
});

describe('a gateway that stops', () => {
  it('ends a stream with an error event', async () => {
    const other = await startTestGateway({ env: { DRAIN_TIMEOUT: '0s' } });
    other.simulated.control.next({ holdAfterChunks: 3 });
    const answer = await other.fetch('/v1/messages', { json: { ...requestBody, stream: true } });
    const closed = other.close();
    expect(eventsOf(await answer.text()).at(-1)?.event).toBe('error');
    await closed;
  });
});

describe('GET /v1/models for a client of Anthropic', () => {
  const list = async (query = '') => json(await fetch(`${gateway.url}/v1/models${query}`, { headers }));

  it("lists models in Anthropic's shape", async () => {
    const { data, first_id, last_id, has_more } = await list('?limit=1000');
    expect({ first_id, last_id, has_more }).toEqual({ first_id: data[0].id, last_id: data.at(-1).id, has_more: false });
    expect(data.map(({ id }: { id: string }) => id)).toEqual(expect.arrayContaining([translated, native]));
    for (const model of data) {
      expect(model).toMatchObject({ type: 'model', display_name: expect.any(String), id: expect.any(String) });
      expect(new Date(model.created_at).toISOString()).toBe(model.created_at);
    }
  });

  it('lists them a page at a time, in both directions', async () => {
    const all = (await list('?limit=1000')).data;
    const first = await list('?limit=2');
    expect(first).toMatchObject({ data: all.slice(0, 2), has_more: true });
    expect(await list(`?limit=2&after_id=${first.last_id}`)).toMatchObject({ data: all.slice(2, 4), has_more: true });
    expect(await list(`?limit=100&after_id=${all.at(-2).id}`)).toMatchObject({ data: all.slice(-1), has_more: false });
    expect(await list(`?limit=2&before_id=${all[3].id}`)).toMatchObject({ data: all.slice(1, 3), has_more: true });
    expect(await list(`?limit=2&before_id=${all[1].id}`)).toMatchObject({ data: all.slice(0, 1), has_more: false });
    expect(await list(`?after_id=${all.at(-1).id}`)).toEqual({
      data: [],
      first_id: null,
      last_id: null,
      has_more: false,
    });
  });

  it.each(['limit=0', 'limit=1001', 'limit=x', 'after_id=nobody', 'before_id=nobody'])('refuses %s', async (query) => {
    const answer = await fetch(`${gateway.url}/v1/models?${query}`, { headers });
    expect(await failure(answer, 400)).toMatchObject({ details: { param: query.split('=')[0] } });
  });

  it("returns a model, or a 404 in Anthropic's form", async () => {
    const found = await json(await fetch(`${gateway.url}/v1/models/${native}`, { headers }));
    expect(found).toMatchObject({ type: 'model', id: native });
    const missing = await fetch(`${gateway.url}/v1/models/nobody`, { headers });
    expect(await failure(missing, 404)).toMatchObject({ type: 'not_found_error' });
  });
});
