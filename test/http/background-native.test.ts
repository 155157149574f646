/** Background responses of a provider that stores them itself: the provider makes them, and the gateway polls it. */
import { describe, expect, it } from 'vitest';
import { native, withBothKinds } from '../support/both-kinds.ts';
import { dataOf, errorOf, eventsOfExchange, exchangeOf, json, readUntil } from '../support/with-gateway.ts';

const kinds = withBothKinds({ RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' });
const { gateway, nativeProvider: provider } = kinds;
const hello = { model: native, input: 'Reply with exactly: hello', background: true };
const upstreamGets = (id: string) =>
  provider.requests.filter(({ method, path }) => method === 'GET' && path.startsWith(`/v1/responses/${id}`)).length;

async function until(id: string, status: string) {
  for (;;) {
    const response = await json(await kinds.retrieve(id));
    if (response.status === status) return response;
    expect(['queued', 'in_progress']).toContain(response.status);
  }
}

describe('a background response of a native provider', () => {
  it('is queued at once, polled while it is in progress, and served from the record when it has ended', async () => {
    provider.control.next({ holdBackground: 'in_progress' });
    const queued = await kinds.create(hello);
    expect(queued).toMatchObject({ status: 'queued', background: true });
    expect(JSON.parse(provider.requests.findLast(({ method }) => method === 'POST')?.body ?? '')).toMatchObject({
      background: true,
    });
    await until(queued.id, 'in_progress');
    provider.control.release();
    const made = await until(queued.id, 'completed');
    expect(made.output[0].content[0].text).toBe('hello');
    const requestCount = upstreamGets(queued.id);
    expect(requestCount).toBeGreaterThan(0);
    expect(await json(await kinds.retrieve(queued.id))).toEqual(made);
    expect(upstreamGets(queued.id)).toBe(requestCount);
  });

  it('is returned in its last known state when the provider cannot be reached', async () => {
    provider.control.next({ holdBackground: 'queued' });
    const { id } = await kinds.create(hello);
    provider.control.next({ status: 503 });
    const known = await kinds.retrieve(id);
    expect(known.status).toBe(200);
    expect(await json(known)).toMatchObject({ id, status: 'queued' });
    provider.control.release();
  });

  it('is cancelled by its provider, and stays cancelled', async () => {
    provider.control.next({ holdBackground: 'in_progress' });
    const { id } = await kinds.create(hello);
    const cancelled = await json(await gateway.post(`/v1/responses/${id}/cancel`, ''));
    expect(cancelled).toMatchObject({ id, status: 'cancelled' });
    const requestCount = upstreamGets(id);
    expect(await json(await kinds.retrieve(id))).toEqual(cancelled);
    expect(upstreamGets(id)).toBe(requestCount);
    provider.control.release();
  });

  it('cannot be cancelled when it was not created in the background', async () => {
    const { id } = await kinds.create({ model: native, input: 'hi' });
    await errorOf(await gateway.post(`/v1/responses/${id}/cancel`, ''), 400);
  });

  it('continues at its provider when the client of its stream disconnects, and is then polled', async () => {
    provider.control.next({ holdAfterChunks: 8 });
    const left = new AbortController();
    const body = { ...hello, input: 'Write 30 words', stream: true };
    const answer = await gateway.post('/v1/responses', body, { signal: left.signal });
    const text = await readUntil(answer, 'output_text.delta');
    const [{ response }] = dataOf(text);
    left.abort();
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.map(({ type }) => type)).toContain('client.disconnected');
    provider.control.release();
    const made = await until(response.id, 'completed');
    expect(made.output[0].content[0].text).not.toBe('');
  });

  it('that is unknown to the gateway is looked up at the provider in the query', async () => {
    const made = await fetch(`${kinds.nativeUrl}/responses`, {
      method: 'POST',
      headers: { authorization: 'Bearer sk-native' },
      body: JSON.stringify({ model: 'simulated-small', input: 'hi', background: true }),
    });
    const { id } = await json(made);
    const cancelled = await gateway.post(`/v1/responses/${id}/cancel?provider=openai`, '');
    expect(cancelled.status).toBe(200);
    const refused = await gateway.post(`/v1/responses/${id}/cancel?provider=llamacpp`, '');
    expect(refused.headers.get('x-should-retry')).toBe('false');
    expect(await errorOf(refused, 501)).toMatchObject({ code: 'unsupported_response_operation', param: null });
  });
});
