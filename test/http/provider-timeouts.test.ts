/** A provider that takes too long: the error names the setting, and states whether anything had arrived. */
import type { ServerResponse } from 'node:http';
import { afterAll, describe, expect, it } from 'vitest';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { dataOf, errorOf, user, withGateway } from '../support/with-gateway.ts';

const started = startScriptedProvider();
const gateway = withGateway(async () => {
  const { url } = await started;
  return {
    simulated: false as const,
    env: {
      LLAMACPP_BASE_URL: url,
      LLAMACPP_TIMEOUT: '300ms',
      LLAMACPP_STREAM_IDLE_TIMEOUT: '200ms',
      LLAMACPP_GPU_BASE_URL: url,
      LLAMACPP_GPU_TIMEOUT: '400ms',
      OPENAI_BASE_URL: url,
      OPENAI_API_KEY: 'a-key-for-tests',
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: 'a-key-for-tests',
      ANTHROPIC_MODELS: 'scripted',
      HTTP_TIMEOUT: '500ms',
      HTTP_RESPONSE_HEADER_TIMEOUT: '600ms',
      HTTP_STREAM_IDLE_TIMEOUT: '250ms',
      CIRCUIT_BREAKER_ENABLED: 'false',
      // On a slow machine the first listing may take longer than that.
      PROVIDER_RECHECK_INTERVAL: '100ms',
    },
  };
}, 3);
afterAll(async () => (await started).close());

const path = '/v1/chat/completions';
const ask = (provider: string, more: object = {}) =>
  gateway.post(path, { model: `${provider}/scripted`, messages: user('hi'), ...more });
const answering = async (answer: (response: ServerResponse) => void) =>
  (await started).script((_request, response) => answer(response));
const SSE = { 'content-type': 'text/event-stream' };
const JSON_TYPE = { 'content-type': 'application/json' };

describe('a provider that does not answer', () => {
  it.each([
    ['llamacpp', '0.3 s (LLAMACPP_TIMEOUT)'],
    ['llamacpp-gpu', '0.4 s (LLAMACPP_GPU_TIMEOUT)'],
    ['openai', '0.6 s (HTTP_RESPONSE_HEADER_TIMEOUT)'],
  ])('ends with 504: %s after %s', async (provider, limit) => {
    await answering(() => {});
    for (const more of [{}, { stream: true }]) {
      const error = await errorOf(await ask(provider, more), 504);
      expect(error).toMatchObject({ code: 'provider_timeout', provider });
      expect(error.message).toContain(`did not answer within ${limit}`);
      expect(error.message).toContain('no byte of its answer had arrived');
    }
  });
});

describe('one of parallel calls that takes too long', () => {
  it.each([
    ['has no headers', {}, 'did not answer within 0.6 s (HTTP_RESPONSE_HEADER_TIMEOUT)', JSON_TYPE],
    ['does not end', {}, '0.5 s (HTTP_TIMEOUT)', JSON_TYPE],
    ['sends nothing more', { stream: true }, '0.25 s (HTTP_STREAM_IDLE_TIMEOUT)', SSE],
  ])('ends all with 504 when it %s', async (what, more, limit, head) => {
    let calls = 0;
    await answering((response) => {
      calls += 1;
      if (calls % 2 === 0 && what === 'has no headers') return;
      response.writeHead(200, head).flushHeaders();
      if (calls % 2 === 1 && head === JSON_TYPE) response.end(JSON.stringify({ content: [] }));
    });
    const error = await errorOf(await ask('anthropic', { n: 2, ...more }), 504);
    expect(error).toMatchObject({ code: 'provider_timeout', provider: 'anthropic' });
    expect(error.message).toContain(limit);
  });
});

describe('a provider that stops sending', () => {
  it.each([
    ['llamacpp', '0.3 s (LLAMACPP_TIMEOUT)'],
    ['openai', '0.5 s (HTTP_TIMEOUT)'],
  ])('within an answer that is not streamed ends with 504: %s after %s', async (provider, limit) => {
    await answering((response) => response.writeHead(200, JSON_TYPE).flushHeaders());
    const nothing = await errorOf(await ask(provider), 504);
    expect(nothing.message).toContain(`took longer than ${limit}`);
    expect(nothing.message).toContain('no byte of its answer had arrived after the headers');
    await answering((response) => response.writeHead(200, JSON_TYPE).write('{"id":'));
    const some = await errorOf(await ask(provider), 504);
    expect(some.message).toContain(`took longer than ${limit}, after 6 bytes of its answer had arrived`);
  });

  it.each([
    ['llamacpp', '0.2 s (LLAMACPP_STREAM_IDLE_TIMEOUT)'],
    ['openai', '0.25 s (HTTP_STREAM_IDLE_TIMEOUT)'],
  ])('within a stream ends it with an error: %s after %s', async (provider, limit) => {
    const frame = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'Hello' }, finish_reason: null }] })}\n\n`;
    await answering((response) => response.writeHead(200, SSE).write(frame));
    const text = await (await ask(provider, { stream: true })).text();
    const { error } = dataOf(text).at(-1);
    expect(error).toMatchObject({ code: 'provider_timeout' });
    expect(error.message).toContain(`sent nothing for ${limit}, after ${frame.length} bytes`);
    await answering((response) => response.writeHead(200, SSE).flushHeaders());
    const nothing = await errorOf(await ask(provider, { stream: true }), 504);
    expect(nothing.message).toContain(`sent nothing for ${limit}, and no byte of its answer had arrived`);
  });

  it('has as much time as its own setting allows', async () => {
    await answering((response) => {
      response.writeHead(200, JSON_TYPE).write('{"object":"chat.completion",');
      setTimeout(() => response.end('"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}'), 300);
    });
    const answer = await ask('llamacpp-gpu');
    expect(answer.status).toBe(200);
  });
});
