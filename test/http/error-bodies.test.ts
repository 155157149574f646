/** The status of a provider's error is kept, however long its body is. */
import type { ServerResponse } from 'node:http';
import { afterAll, describe, expect, it } from 'vitest';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, eventsOfExchange, exchangeOf, user, withGateway } from '../support/with-gateway.ts';

const API_KEY = 'correct.horse.battery.staple';
const started = startScriptedProvider();
const gateway = withGateway(async () => ({
  simulated: false as const,
  env: {
    LLAMACPP_BASE_URL: (await started).url,
    LLAMACPP_API_KEY: API_KEY,
    RETRY_MAX_RETRIES: '0',
    CIRCUIT_BREAKER_FAILURE_THRESHOLD: '2',
    HTTP_STREAM_IDLE_TIMEOUT: '500ms',
  },
}));
afterAll(async () => (await started).close());

const model = 'llamacpp/scripted';
const chat = { model, messages: user('hi') };
const surfaces = [
  ['/v1/chat/completions', chat],
  ['/v1/chat/completions', { ...chat, stream: true }],
  ['/v1/messages', { ...chat, max_tokens: 9 }],
  ['/v1/responses', { model, input: 'hi' }],
  ['/v1/embeddings', { model, input: 'hi' }],
  ['/v1/completions', { model, prompt: 'hi' }],
  ['/p/llamacpp/v1/chat/completions', { ...chat, model: 'scripted' }],
] as const;

async function answering(answer: (response: ServerResponse) => void): Promise<void> {
  (await started).script((_request, response) => answer(response));
}
const json = { 'content-type': 'application/json' };
const errorJson = (message: string) =>
  JSON.stringify({ error: { message, type: 'invalid_request_error', code: null } });

describe('a long error body', () => {
  it.each(surfaces)('keeps its status at %s, and opens no circuit breaker', async (path, body) => {
    const message = `The prompt is wrong: ${'x'.repeat(300_000)}`;
    await answering((response) => response.writeHead(400, json).end(errorJson(message)));
    for (let n = 0; n < 4; n++) {
      const answer = await gateway.post(path, body);
      expect(answer.status).toBe(400);
      expect(await answer.text()).toContain('The prompt is wrong: xxx');
    }
    await answering((response) => response.writeHead(422, json).end(errorJson('short')));
    expect((await gateway.post(path, body)).status).toBe(422);
  });

  it('is recorded up to a limit, without a part of a credential at its end', async () => {
    const before = '{"error":{"message":"'.length;
    for (const at of [1, 10, API_KEY.length - 1]) {
      const message = 'x'.repeat(64 * 1024 - before - at) + API_KEY + 'y'.repeat(100_000);
      await answering((response) => response.writeHead(400, json).end(errorJson(message)));
      const answer = await gateway.post('/v1/chat/completions', chat);
      await errorOf(answer, 400);
      const events = await eventsOfExchange(gateway, exchangeOf(answer));
      const body = events.find(({ type }) => type === 'attempt.failed')?.body ?? '';
      expect(body.length).toBeGreaterThan(64 * 1024 - 100);
      expect(body.length).toBeLessThanOrEqual(64 * 1024);
      expect(body.slice(-40)).not.toContain(API_KEY.slice(0, at));
    }
  });
});

describe('an endless error body', () => {
  it.each<[string, (response: ServerResponse) => void]>([
    ['breaks off', (response) => response.write('{"error":{"message":"The prompt is wr', () => response.destroy())],
    ['falls silent', (response) => response.write('{"error":{"message":"The prompt is wr')],
  ])('keeps its status when it %s', async (_how, send) => {
    for (let n = 0; n < 2; n++) {
      await answering((response) => send(response.writeHead(400, json)));
      const error = await errorOf(await gateway.post('/v1/chat/completions', chat), 400);
      expect(error.message).toContain('The prompt is wr');
    }
  });
});

describe('an error that a client causes', () => {
  it.each([400, 404, 405, 413, 422, 501])('with %i opens no circuit breaker', async (status) => {
    await answering((response) => response.writeHead(status, json).end(errorJson('not this way')));
    for (let n = 0; n < 4; n++) {
      expect((await gateway.post('/v1/chat/completions', chat)).status).toBe(status);
      await errorOf(await gateway.post('/p/llamacpp/v1/rerank', {}), status);
    }
  });

  it('opens no circuit breaker when a stream reports it either', async () => {
    const chunk = { choices: [{ index: 0, delta: { content: 'Hello' }, finish_reason: null }] };
    const error = { message: 'The grammar is wrong.', type: 'invalid_request_error', code: 400 };
    for (let n = 0; n < 4; n++) {
      await answering((response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(`data: ${JSON.stringify(chunk)}\n\n`, () =>
          response.end(`data: ${JSON.stringify({ error })}\n\n`),
        );
      });
      const answer = await gateway.post('/v1/chat/completions', { ...chat, stream: true });
      expect(await answer.text()).toContain('The grammar is wrong.');
    }
  });
});
