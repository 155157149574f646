/** `Idempotency-Key`: the same key and body is one request, however often it is sent. */
import { describe, expect, it } from 'vitest';
import { both, translated, withBothKinds } from '../support/both-kinds.ts';
import { dataOf, errorOf, eventsOfExchange, exchangeOf, json, user } from '../support/with-gateway.ts';

const kinds = withBothKinds({ RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' });
const { gateway } = kinds;
let keys = 0;
const newKey = () => `key-${++keys}`;
const calls = () =>
  [...gateway.simulated.requests, ...kinds.nativeProvider.requests].filter(({ method }) => method === 'POST').length;

const post = (path: string, body: object, key: string, init: RequestInit = {}) =>
  gateway.post(path, body, { ...init, headers: { ...init.headers, 'idempotency-key': key } });

const routes = both.flatMap(([kind, model]) => [
  [`a ${kind} chat completion`, '/v1/chat/completions', { model, messages: user('Write 20 words') }] as const,
  [`a ${kind} response`, '/v1/responses', { model, input: 'Write 20 words' }] as const,
  [`a ${kind} response that is not stored`, '/v1/responses', { model, input: 'Write 20 words', store: false }] as const,
  [`${kind} embeddings`, '/v1/embeddings', { model, input: 'a text' }] as const,
]);

describe.each(routes)('%s', (_what, path, body) => {
  it('is returned again, byte for byte, without another call', async () => {
    const key = newKey();
    const first = await post(path, body, key);
    const text = await first.text();
    expect(first.status, text).toBe(200);
    expect(first.headers.get('idempotent-replayed')).toBeNull();
    const before = calls();
    const second = await post(path, body, key);
    expect(await second.text()).toBe(text);
    expect(second.status).toBe(200);
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect(second.headers.get('content-type')).toContain('application/json');
    expect(calls()).toBe(before);
  });

  it('is refused for another body', async () => {
    const key = newKey();
    await (await post(path, body, key)).text();
    const refused = await post(path, { ...body, user: 'another' }, key);
    expect(refused.headers.get('x-should-retry')).toBe('false');
    expect(await errorOf(refused, 409)).toMatchObject({ code: 'idempotency_key_reused', param: 'Idempotency-Key' });
  });
});

describe.each(routes.filter(([, path]) => path !== '/v1/embeddings'))('%s as a stream', (_what, path, body) => {
  it('is returned again, byte for byte', async () => {
    const key = newKey();
    const streamed = { ...body, stream: true };
    const text = await (await post(path, streamed, key)).text();
    const before = calls();
    const second = await post(path, streamed, key);
    expect(second.headers.get('content-type')).toContain('text/event-stream');
    expect(await second.text()).toBe(text);
    expect(calls()).toBe(before);
  });

  it('is joined while it is in progress', async () => {
    const provider = String(body.model) === translated ? gateway.simulated : kinds.nativeProvider;
    provider.control.next({ holdAfterChunks: 4 });
    const providerRequest = provider.nextRequest();
    const key = newKey();
    const before = calls();
    const streamed = { ...body, stream: true };
    const texts = Promise.all([1, 2, 3].map(async () => (await post(path, streamed, key)).text()));
    const request = await providerRequest;
    while (request.outcome === 'open') {
      provider.control.release();
      await new Promise(setImmediate);
    }
    const [first, ...others] = await texts;
    for (const other of others) expect(other).toBe(first);
    expect(calls()).toBe(before + 1);
  });
});

describe('a request under a key', () => {
  const chat = { model: translated, messages: user('Write 20 words') };

  it("continues when its client disconnects, for the client's next attempt", async () => {
    gateway.simulated.control.next({ firstByteDelayMs: 300 });
    const providerRequest = gateway.simulated.nextRequest();
    const key = newKey();
    const left = new AbortController();
    const first = post('/v1/chat/completions', chat, key, { signal: left.signal }).catch(() => undefined);
    const request = await providerRequest;
    left.abort();
    await first;
    const before = calls();
    const second = await post('/v1/chat/completions', chat, key);
    expect(second.status).toBe(200);
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect((await json(second)).choices[0].message.content).not.toBe('');
    expect(request.outcome).toBe('answered');
    expect(calls()).toBe(before);
  });

  it('is repeated after it failed', async () => {
    gateway.simulated.control.next({ status: 500 });
    const key = newKey();
    await errorOf(await post('/v1/chat/completions', chat, key), 500);
    const second = await post('/v1/chat/completions', chat, key);
    expect(second.status).toBe(200);
    expect(second.headers.get('idempotent-replayed')).toBeNull();
  });

  it('is repeated after it was refused, also with another body', async () => {
    const key = newKey();
    await errorOf(await post('/v1/chat/completions', { ...chat, model: 'nobody/none' }, key), 404);
    expect((await post('/v1/chat/completions', chat, key)).status).toBe(200);
  });

  it('is independent of the same key on another route or for another user path', async () => {
    const key = newKey();
    await (await post('/v1/chat/completions', chat, key)).text();
    const response = await post('/v1/responses', { model: translated, input: 'hi' }, key);
    expect(response.headers.get('idempotent-replayed')).toBeNull();
    const init = { headers: { 'x-gateway-user-path': '/team/a' } };
    const other = await post('/v1/chat/completions', { ...chat, user: 'x' }, key, init);
    expect(other.status).toBe(200);
    expect(other.headers.get('idempotent-replayed')).toBeNull();
  });

  it('is recorded with the exchange whose answer was returned again', async () => {
    const key = newKey();
    const first = await post('/v1/chat/completions', chat, key);
    await first.text();
    const second = await post('/v1/chat/completions', chat, key);
    await second.text();
    const events = await eventsOfExchange(gateway, exchangeOf(second));
    expect(events.map(({ type }) => type)).toEqual(['request.received', 'answer.replayed', 'exchange.completed']);
    expect(events[1]?.data).toEqual({ exchangeId: exchangeOf(first) });
    expect(exchangeOf(second)).not.toBe(exchangeOf(first));
  });

  it('returns a background response in its current state', async () => {
    const key = newKey();
    const body = { model: translated, input: 'Reply with exactly: hello', background: true };
    const { id, status } = await json(await post('/v1/responses', body, key));
    expect(status).toBe('queued');
    await (await kinds.retrieve(id, '?stream=true')).text();
    const again = await json(await post('/v1/responses', body, key));
    expect(again).toEqual(await json(await kinds.retrieve(id)));
    expect(again.status).toBe('completed');
  });

  it.each(both.flatMap(([kind, model]) => [true, false].map((stream) => [kind, model, stream] as const)))(
    'is refused for a %s response (%s, stream: %s) that was deleted',
    async (_kind, model, stream) => {
      const key = newKey();
      const body = { model, input: 'Reply with exactly: hello', stream };
      const text = await (await post('/v1/responses', body, key)).text();
      const { id } = stream ? dataOf(text)[0].response : JSON.parse(text);
      await gateway.fetch(`/v1/responses/${id}`, { method: 'DELETE' });
      const before = calls();
      expect((await errorOf(await post('/v1/responses', body, key), 404)).message).toContain(id);
      expect(calls()).toBe(before);
    },
  );

  it.each([['x'.repeat(256)], ['with a\ttab']])('refuses the key %j', async (key) => {
    const answer = await gateway.post('/v1/chat/completions', chat, { headers: { 'idempotency-key': key } });
    expect(await errorOf(answer, 400)).toMatchObject({ param: 'Idempotency-Key' });
  });

  it('whose stream broke off is repeated', async () => {
    gateway.simulated.control.next({ cutAfterChunks: 3 });
    const key = newKey();
    const streamed = { ...chat, stream: true };
    await (await post('/v1/chat/completions', streamed, key)).text();
    const second = await post('/v1/chat/completions', streamed, key);
    const text = await second.text();
    expect(second.headers.get('idempotent-replayed')).toBeNull();
    expect(dataOf(text).at(-1).choices[0].finish_reason).toBe('stop');
  });
});
