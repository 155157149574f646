import { describe, expect, it } from 'vitest';
import { type EmbeddingCall, EmbeddingCalls } from '../../src/commands/auxiliary-calls/auxiliary-calls.ts';
import type { Client, ModelRequest } from '../../src/commands/model-request/model-request.ts';
import { Refusal } from '../../src/commands/refusal.ts';

const call = (change: Partial<EmbeddingCall> = {}): EmbeddingCall => ({
  text: 'a secret text',
  model: 'm',
  provider: undefined,
  requestId: 'request-1',
  exchangeId: 'exchange-0',
  userPath: '/team/cache/semantic',
  signal: new AbortController().signal,
  ...change,
});

function callsThat(exchange: (client: Client) => void, limit = 2) {
  const requests: ModelRequest[] = [];
  const calls = new EmbeddingCalls({
    limit,
    newId: () => 'exchange-1',
    async run(_id, request, client) {
      requests.push(request);
      exchange(client);
      if (client.ended.aborted) return;
      await new Promise<void>((resolve) => client.ended.addEventListener('abort', () => resolve(), { once: true }));
    },
  });
  return { calls, requests };
}

const answers = (body: unknown) => (client: Client) => client.answer(200, {}, Buffer.from(JSON.stringify(body)));
const refuses = (facts: { status: number; provider?: string }) => (client: Client) =>
  client.refuse(new Refusal({ type: 'provider_error', code: 'c', message: 'about a secret text', ...facts }), {});
const base64 = Buffer.from(Float32Array.of(1, -0.5).buffer).toString('base64');

describe('EmbeddingCalls', () => {
  it.each([[[1, -0.5]], [base64]])('resolves to the embedding %j', async (embedding) => {
    const { calls } = callsThat(answers({ data: [{ embedding }] }));
    expect(await calls.embed(call())).toEqual(Float32Array.of(1, -0.5));
  });

  it('requests it at the given path, as the gateway itself, for the given exchange', async () => {
    const { calls, requests } = callsThat(answers({ data: [{ embedding: base64 }] }));
    await calls.embed(call({ provider: 'p' }));
    const [request] = requests;
    expect(request).toMatchObject({
      caller: { actor: 'system', origin: 'plugin', userPath: '/team/cache/semantic' },
      ...{ requestId: 'request-1', causationId: 'exchange-0', path: '/v1/embeddings' },
    });
    expect(JSON.parse(String(request?.body))).toEqual({
      ...{ model: 'm', provider: 'p', input: 'a secret text', encoding_format: 'base64' },
    });
  });

  it.each([
    [answers({ data: [] }), 'failed', 'no embedding'],
    [answers({ data: [{ embedding: [1, 'a'] }] }), 'failed', 'no embedding'],
    [answers({ data: [{ embedding: 'AAA=' }] }), 'failed', 'no embedding'],
    [answers({ data: [{ embedding: [] }] }), 'failed', 'no embedding'],
    [(client: Client) => client.answer(200, {}, Buffer.from('<html>')), 'failed', 'no embedding'],
    [refuses({ status: 404 }), 'failed', '404 c'],
    [refuses({ status: 429, provider: 'p' }), 'failed', '429 c'],
    [refuses({ status: 429 }), 'refused', '429 c'],
  ])('rejects without an embedding, and without the text: %#', async (exchange, failure, why) => {
    const { calls } = callsThat(exchange);
    const failed = await calls.embed(call()).catch((error: unknown) => error);
    expect(failed).toMatchObject({ failure, message: expect.stringContaining(why) });
    expect(failed).not.toMatchObject({ message: expect.stringContaining('secret') });
  });

  it('rejects beyond the limit, and at once when it is cancelled or the gateway stops', async () => {
    const { calls } = callsThat((client) =>
      client.ended.addEventListener('abort', () => refuses({ status: 503 })(client)),
    );
    const cancelled = new AbortController();
    const [first, second] = [calls.embed(call({ signal: cancelled.signal })), calls.embed(call())];
    await expect(calls.embed(call())).rejects.toMatchObject({ failure: 'refused' });
    cancelled.abort('client_gone');
    await expect(first).rejects.toMatchObject({ failure: 'cancelled' });
    calls.cut();
    await expect(second).rejects.toMatchObject({ failure: 'failed' });
  });
});
