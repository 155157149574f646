import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { ask, killAll, type ServedGateway, serve, temporaryFolder } from './gateway-process.ts';
import { type LlamacppReplay, recordedPair, startLlamacppReplay } from './llamacpp-replay.ts';
import { eventsIn } from './recorded-events.ts';

const folder = temporaryFolder();
const dataDir = join(folder.path, 'data');
const model = 'llamacpp/tiny-random';
let server: LlamacppReplay;
let gateway: ServedGateway;

beforeAll(async () => {
  server = await startLlamacppReplay();
  gateway = await serve({ dataDir, env: { LLAMACPP_BASE_URL: server.url } });
});
afterAll(async () => {
  killAll();
  await server.close();
  folder.remove();
});

/** The recorded request, sent to the gateway with a model that it lists. */
async function replay(name: string, path?: string): Promise<Response> {
  const { request } = recordedPair(name);
  const json = path === undefined ? { ...Object(request.body), model } : request.body;
  return ask(gateway.url, path ?? request.path, { json });
}

/** The JSON of an answer, however deep a test looks into it. */
const jsonOf = (response: Response): Promise<Answered> => response.json();

const answerOf = (name: string) => recordedPair(name).response.body;

function requestsTo(path: string): number {
  return server.requests.filter((request) => request.path === path).length;
}

describe('models of a llama.cpp server', () => {
  it('are listed under the provider, with the context window that the server runs with', async () => {
    // The recorded model entry only has the training context (2048); /props has the running one (512).
    await expect
      .poll(async () => jsonOf(await ask(gateway.url, '/v1/models')))
      .toMatchObject({
        object: 'list',
        data: [{ id: model, object: 'model', owned_by: 'llamacpp', metadata: { context_window: 512 } }],
      });
  });
});

describe('chat', () => {
  it.each(['chat', 'chat.stop', 'chat.logprobs', 'chat.json_schema', 'chat.error.toolong'])(
    'answers %s as the server did',
    async (name) => {
      const response = await replay(name);
      expect(response.status).toBe(recordedPair(name).response.status);
      expect(await jsonOf(response)).toEqual(answerOf(name));
    },
  );

  it('streams the very bytes that the server sent', async () => {
    const response = await replay('chat.stream');
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    expect(await response.text()).toBe(answerOf('chat.stream'));
  });

  it('requests usage in every stream, and records the usage that the server reported', async () => {
    const messages = [{ role: 'user', content: 'hi' }];
    const json = { model, messages, max_tokens: 8, seed: 1, stream: true };
    const response = await ask(gateway.url, '/v1/chat/completions', { json });
    // This server reports usage with the finish reason, in a chunk that the client gets as it is.
    expect(await response.text()).toBe(answerOf('chat.stream'));
    expect(JSON.parse(server.requests.at(-1)?.body ?? '')).toMatchObject({ stream_options: { include_usage: true } });
    const stream = `exchange-${response.headers.get('x-exchange-id')}`;
    const usage = async () =>
      (await eventsIn(dataDir)).find((event) => event.stream === stream && event.type === 'usage.recorded')?.data;
    expect(await usage()).toMatchObject({ source: 'provider', inputTokens: 29, outputTokens: 8, totalTokens: 37 });
  });
});

describe('embeddings', () => {
  it.each(['embeddings', 'embeddings.base64'])('answers %s as the server did', async (name) => {
    const response = await replay(name);
    expect(response.status).toBe(200);
    expect(await jsonOf(response)).toEqual(answerOf(name));
  });
});

describe('responses', () => {
  it('are served by translation after one probe', async () => {
    const first = await replay('responses.error.absent');
    expect(first.status).toBe(200);
    expect(await first.json()).toMatchObject({
      object: 'response',
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ type: 'message', role: 'assistant' }],
    });
    expect(requestsTo('/v1/responses')).toBe(1);
    expect((await replay('responses.error.absent')).status).toBe(200);
    expect(requestsTo('/v1/responses')).toBe(1);
  });

  it('stream the recorded text in the events of the Responses API', async () => {
    const response = await ask(gateway.url, '/v1/responses', { json: { model, input: 'hi', stream: true } });
    const events = (await response.text())
      .split('\n\n')
      .filter((frame) => frame.startsWith('event: '))
      .map((frame) => JSON.parse(frame.slice(frame.indexOf('data: ') + 'data: '.length)));
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    expect(events[0]).toMatchObject({ type: 'response.created', response: { status: 'in_progress' } });
    const deltas = events.filter(({ type }) => type === 'response.output_text.delta').map(({ delta }) => delta);
    const said = [...String(answerOf('chat.stream')).matchAll(/"delta":\{"content":("(?:[^"\\]|\\.)*")/g)];
    expect(deltas.join('')).toBe(said.map(([, text]) => JSON.parse(text ?? '""')).join(''));
    const { response: final } = events.at(-1);
    expect(final.output[0].content[0].text).toBe(deltas.join(''));
    expect(await jsonOf(await ask(gateway.url, `/v1/responses/${final.id}`))).toEqual(final);
  });
});

describe('errors of the server', () => {
  it('reach the client in the envelope, with the provider named', async () => {
    const { request, response: recorded } = recordedPair('embeddings.error.pooling');
    // The same request as for embeddings, with another answer of the server: sent with its own recorded body.
    const response = await ask(gateway.url, '/p/llamacpp/v1/embeddings', { json: request.body });
    expect(response.status).toBe(400);
    const { error } = await jsonOf(response);
    expect(error).toMatchObject({ provider: 'llamacpp', type: 'invalid_request_error' });
    expect(error.message).toContain(String(Object(Object(recorded.body).error).message));
  });

  it('that are its own fault keep their status and are provider errors', async () => {
    const response = await ask(gateway.url, '/p/llamacpp/chat/completions', { method: 'POST', body: '{"model":' });
    expect(response.status).toBe(recordedPair('chat.error.badjson').response.status);
    expect((await jsonOf(response)).error).toMatchObject({ type: 'provider_error', provider: 'llamacpp' });
  });
});

describe('passthrough', () => {
  it.each([
    ['tokenize', '/p/llamacpp/tokenize'],
    ['completions', '/p/llamacpp/v1/completions'],
  ])('returns %s as the server answered it', async (name, path) => {
    const response = await replay(name, path);
    expect(response.status).toBe(200);
    expect(await jsonOf(response)).toEqual(answerOf(name));
  });

  it.each([
    ['props', '/p/llamacpp/props'],
    ['health', '/p/llamacpp/health'],
  ])('returns %s from the root of the server', async (name, path) => {
    expect(await jsonOf(await ask(gateway.url, path))).toEqual(answerOf(name));
  });

  it.each([
    ['infill', '/p/llamacpp/infill', '/infill'],
    ['rerank.error', '/p/llamacpp/v1/rerank', '/v1/rerank'],
    ['rerank.error', '/p/llamacpp/rerank', '/rerank'],
  ])('returns the refusal of %s at %s', async (name, path, upstreamPath) => {
    const response = await replay(name, path);
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect((await jsonOf(response)).error).toMatchObject({ provider: 'llamacpp' });
    expect(server.requests.at(-1)?.path).toBe(upstreamPath);
  });
});

describe('after a restart', () => {
  it('the gateway still knows that the server has no responses, without another probe', async () => {
    gateway.process.kill('SIGTERM');
    await gateway.process.exited;
    gateway = await serve({ dataDir, env: { LLAMACPP_BASE_URL: server.url } });
    expect((await replay('responses.error.absent')).status).toBe(200);
    expect(requestsTo('/v1/responses')).toBe(1);
  });

  it('models are served at once, also while the server is down', async () => {
    gateway.process.kill('SIGTERM');
    await gateway.process.exited;
    await server.close();
    gateway = await serve({ dataDir, env: { LLAMACPP_BASE_URL: server.url, RETRY_MAX_RETRIES: '0' } });
    const listed = await jsonOf(await ask(gateway.url, '/v1/models'));
    expect(listed.data).toMatchObject([{ id: model, metadata: { context_window: 512 } }]);
    const response = await replay('chat');
    expect(response.status).toBe(502);
    expect((await jsonOf(response)).error).toMatchObject({ code: 'provider_unreachable', provider: 'llamacpp' });
  });
});
