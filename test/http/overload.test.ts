import { describe, expect, it } from 'vitest';
import { json, user, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway({ env: { MAX_CONCURRENT_REQUESTS: '2' } });
const model = 'llamacpp/simulated-small';

/** A stream that has begun and does not end by itself. */
async function openStream(): Promise<AbortController> {
  const client = new AbortController();
  const body = { model, messages: user('hold'), stream: true, simulate: { words: 20, holdAfterChunks: 3 } };
  const answer = await gateway.post('/v1/chat/completions', body, { signal: client.signal });
  await (answer.body as ReadableStream<Uint8Array>).getReader().read();
  return client;
}

const ask = () => gateway.post('/v1/chat/completions', { model, messages: user('hello') });

describe('MAX_CONCURRENT_REQUESTS', () => {
  it('refuses a request beyond it with 503 and Retry-After, and serves again when another has ended', async () => {
    const open = [await openStream(), await openStream()];
    const requestCount = gateway.simulated.requests.length;
    const refused = await ask();
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).toBe('1');
    expect((await json(refused)).error).toMatchObject({ code: 'overloaded', type: 'internal_error' });
    expect(gateway.simulated.requests).toHaveLength(requestCount);
    expect((await gateway.fetch('/health')).status).toBe(200);
    const metrics = await (await gateway.fetch('/metrics')).text();
    expect(metrics).toMatch(/gateway_admission_refused_total\{reason="overloaded"\} 1/);

    open[0]?.abort();
    await gateway.simulated.requests.at(-2)?.ended;
    await expect.poll(async () => (await ask()).status).toBe(200);
    open[1]?.abort();
  });
});
