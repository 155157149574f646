/**
 * The possible outcomes of `POST /v1/responses` on a provider without a Responses API: every status of SPEC §3 that a
 * create can reach, and every condition of SPEC §7 that concerns it, for whole answers and for streams.
 *
 * | Condition | Tested in |
 * |---|---|
 * | SPEC §3: completed, incomplete, failed, whole and streamed | here |
 * | SPEC §3: queued, in_progress, cancelled | background.test.ts |
 * | SPEC §3: how a stored response is refreshed and read | responses.test.ts, responses-native.test.ts |
 * | 400: broken JSON, wrong types | bad-input.test.ts |
 * | 400: no `input`; features that only a native provider has | here |
 * | 401 | auth.test.ts, and here for a stream |
 * | 404: model, earlier response, item | here; of deleted and unstored responses in responses-translated.test.ts |
 * | 413 | bad-input.test.ts, and here for a stream |
 * | 429, 5xx and other refusals of a provider, its broken answers, 504 | errors.test.ts |
 * | 429 in a stream that has begun | here |
 * | 501 | responses-translated.test.ts, and here with the reaction of SDKs |
 * | 502, 503, 504 for a stream | here; 503 when the log cannot be written in log-unavailable.test.ts |
 */
import { describe, expect, it } from 'vitest';
import type { Fault } from '../../infra/simulated-provider/fault.ts';
import { startTestGateway } from '../support/gateway.ts';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { dataOf, errorOf, eventsOf, eventsOfExchange, exchangeOf, json, withGateway } from '../support/with-gateway.ts';
import { checkResponse, checkStream } from '../translate/openai-shape.ts';

const gateway = withGateway(
  {
    simulated: { responses: 'absent' },
    env: {
      LLAMACPP_DEAD_BASE_URL: 'http://127.0.0.1:1/v1',
      LLAMACPP_DEAD_MODELS: 'some-model',
      ANTHROPIC_API_KEY: 'none',
      ANTHROPIC_BASE_URL: 'http://127.0.0.1:1/v1',
      ANTHROPIC_MODELS: 'claude',
      OLLAMA_BASE_URL: 'http://127.0.0.1:1',
      OLLAMA_MODELS: 'llama',
      BODY_SIZE_LIMIT: '1M',
      HTTP_RESPONSE_HEADER_TIMEOUT: '1500ms',
      HTTP_STREAM_IDLE_TIMEOUT: '1500ms',
      RETRY_MAX_RETRIES: '0',
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  },
  1,
);

const PATH = '/v1/responses';
const model = 'llamacpp/simulated-small';
const forms = [
  ['whole', {}],
  ['streamed', { stream: true }],
] as const;

const chatCalls = () => gateway.simulated.requests.filter(({ path }) => path === '/v1/chat/completions').length;
const create = (body: object) => gateway.post(PATH, { model, input: 'Tell me something.', ...body });
const always = (fault: Fault) => gateway.simulated.control.always(fault, { path: '/v1/chat/completions' });
const stored = (id: string) => gateway.fetch(`${PATH}/${id}`);

/** The response of an answer, whole or from its stream, checked against everything clients rely on. */
async function responseIn(answer: Response) {
  expect(answer.status).toBe(200);
  const text = await answer.text();
  if (answer.headers.get('content-type')?.includes('event-stream') !== true) return checkResponse(JSON.parse(text));
  expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
  for (const { event, data } of eventsOf(text).slice(0, -1)) expect(event).toBe(JSON.parse(data).type);
  return checkStream(dataOf(text));
}

describe.each(forms)('SPEC §3, a %s response', (_form, form) => {
  it('is completed and stored', async () => {
    const response = await responseIn(await create(form));
    expect(response).toMatchObject({ status: 'completed', error: null, incomplete_details: null });
    expect(await json(await stored(response.id))).toEqual(response);
  });

  it('is incomplete when it ran out of tokens, and stored', async () => {
    const response = await responseIn(await create({ ...form, max_output_tokens: 1 }));
    expect(response).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
    expect(await json(await stored(response.id))).toEqual(response);
  });

  it('is not stored with store: false, however it ends', async () => {
    for (const more of [{}, { max_output_tokens: 1 }]) {
      const response = await responseIn(await create({ ...form, ...more, store: false }));
      expect(response.store).toBe(false);
      await errorOf(await stored(response.id), 404);
    }
  });
});

describe('SPEC §3, a response', () => {
  it.each(forms)('that is %s is incomplete when a filter cut it off', async (_form, form) => {
    const provider = await startScriptedProvider();
    const choice = { index: 0, finish_reason: 'content_filter' };
    provider.script(({ path, body }, response) => {
      if (!path.endsWith('/chat/completions')) {
        response.writeHead(404).end();
      } else if (JSON.parse(body.toString()).stream === true) {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.end(
          `data: ${JSON.stringify({ choices: [{ ...choice, delta: { content: 'He' } }] })}\n\ndata: [DONE]\n\n`,
        );
      } else {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ choices: [{ ...choice, message: { role: 'assistant', content: 'He' } }] }));
      }
    });
    const own = await startTestGateway({ simulated: false, env: { LLAMACPP_BASE_URL: provider.url } });
    try {
      const body = { model: 'llamacpp/scripted', input: 'hi', ...form };
      expect(await responseIn(await own.fetch(PATH, { json: body }))).toMatchObject({
        status: 'incomplete',
        incomplete_details: { reason: 'content_filter' },
        output: [{ status: 'incomplete', content: [{ text: 'He' }] }],
      });
    } finally {
      await own.close();
      await provider.close();
    }
  });

  it.each([
    [
      'failed',
      'breaks off',
      { cutAfterChunks: 4 },
      { error: { type: 'provider_error', code: 'stream_incomplete' }, incomplete_details: null },
    ],
    ['failed', 'falls silent', { holdAfterChunks: 4 }, { error: { type: 'provider_error', code: 'provider_timeout' } }],
    [
      'failed',
      'reports an error',
      { errorInStream: 4, message: 'out of memory', code: 'oom' },
      { error: { type: 'provider_error', code: 'oom', message: 'out of memory' } },
    ],
  ] as [string, string, Fault, object][])(
    'is %s when its stream %s, and is stored',
    async (status, _what, fault, details) => {
      always(fault);
      const response = await responseIn(await create({ stream: true }));
      expect(response).toMatchObject({ status, ...details });
      expect(await json(await stored(response.id))).toEqual(response);
    },
  );

  it('that failed as a whole is an HTTP error, and is not stored', async () => {
    always({ status: 500, message: 'no luck' });
    const answer = await create({});
    const exchange = exchangeOf(answer);
    await errorOf(answer, 500);
    await errorOf(await stored(`resp_${exchange.replaceAll('-', '')}`), 404);
  });
});

describe.each(forms)('SPEC §7, 400 in the envelope for an answer that is %s', (_form, form) => {
  it.each([
    ['missing', {}],
    ['null', { input: null }],
    ['null, beside a prompt that is null too', { input: null, prompt: null }],
  ])('with an input that is %s: answered by the gateway, before any provider is called', async (_what, body) => {
    const before = chatCalls();
    const answer = await gateway.post(PATH, { model, ...form, ...body });
    expect(await errorOf(answer, 400)).toEqual({
      type: 'invalid_request_error',
      code: 'missing_required_parameter',
      param: 'input',
      message: "Missing required parameter: 'input'.",
    });
    expect(chatCalls()).toBe(before);
  });

  it.each([
    ['prompt', { prompt: { id: 'pmpt_1' } }],
    ['truncation', { truncation: 'sometimes' }],
    ['context_management', { context_management: [{ type: 'compaction' }] }],
    ['moderation', { moderation: { model: 'omni-moderation-latest' } }],
    ['n', { n: 2 }],
    ['text.format.type', { text: { format: { type: 'grammar' } } }],
    ['text.tone', { text: { tone: 'warm' } }],
    ['reasoning.mode', { reasoning: { mode: 'pro' } }],
    ['include[0]', { include: ['everything'] }],
    ['stream_options.include_obfuscation', { stream_options: { include_obfuscation: true } }],
    ['tools[0].type', { tool_choice: { type: 'web_search' }, tools: [{ type: 'web_search' }] }],
    ['tool_choice', { tool_choice: { type: 'web_search' } }],
    ['tool_choice', { tool_choice: 'required' }],
    ['tools[0].name', { tools: [{ type: 'function' }] }],
    ['input[0].type', { input: [{ type: 'computer_call', call_id: 'x', action: {} }] }],
    ['input[0].content[0].image_url', { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'x' }] }] }],
    ['input[0].call_id', { input: [{ type: 'function_call_output', output: 'x' }] }],
    ['input', { input: [] }],
  ])('with a feature that only a native provider has: %s', async (param, body) => {
    const before = chatCalls();
    const answer = await create({ ...form, ...body });
    const error = await errorOf(answer, 400);
    expect(error).toMatchObject({ type: 'invalid_request_error', param, code: expect.stringMatching(/./) });
    expect(error).not.toHaveProperty('provider');
    expect(chatCalls()).toBe(before);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.at(-1)).toMatchObject({ type: 'request.refused', data: { status: 400, param } });
  });
});

describe('SPEC §7, 400 for a member that the provider does not support names the member of the request', () => {
  it.each([
    ['anthropic/claude', 'text.verbosity', { text: { verbosity: 'low' } }],
    ['anthropic/claude', 'text.format', { text: { format: { type: 'json_object' } }, reasoning: { effort: 'low' } }],
    ['anthropic/claude', 'include', { include: ['message.output_text.logprobs'] }],
    ['anthropic/claude', 'top_logprobs', { top_logprobs: 2 }],
    ['ollama/llama', 'parallel_tool_calls', { parallel_tool_calls: false, tools: [{ type: 'function', name: 'f' }] }],
    [
      'ollama/llama',
      'input',
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'https://example.com/a.png' }] }] },
    ],
  ])('%s: %s', async (requested, param, body) => {
    const error = await errorOf(await create({ model: requested, ...body }), 400);
    expect(error).toMatchObject({ type: 'invalid_request_error', param });
    if (param !== 'input') expect(error.message).toContain(`'${param}'`);
    expect(error).not.toHaveProperty('provider');
  });

  it('includes the index in the new input, not counting earlier turns', async () => {
    const { id: previous_response_id } = await responseIn(await create({}));
    const input = [{ role: 'user', content: 'hi' }, { type: 'computer_call' }];
    const error = await errorOf(await create({ previous_response_id, input }), 400);
    expect(error).toMatchObject({ param: 'input[1].type', code: 'unsupported_value' });
  });
});

describe('SPEC §7, errors of a streaming request are JSON in the envelope', () => {
  const streamed = { model, input: 'hi', stream: true };
  const send = (body: object, headers: Record<string, string>) =>
    fetch(`${gateway.url}${PATH}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'text/event-stream', ...headers },
      body: JSON.stringify(body),
    });

  it.each([
    ['no key', {}, 'missing_credentials'],
    ['a wrong key', { authorization: 'Bearer wrong' }, 'invalid_api_key'],
    ['no bearer', { authorization: 'Basic x' }, 'malformed_authorization'],
  ])('401 with %s', async (_what, headers, code) => {
    const error = await errorOf(await send(streamed, headers), 401);
    expect(error).toMatchObject({ type: 'authentication_error', code, param: null });
    expect(error).not.toHaveProperty('provider');
  });

  it('413 for a body over the limit', async () => {
    const answer = await gateway.post(PATH, { ...streamed, input: 'x'.repeat(1024 * 1024) });
    expect(await errorOf(answer, 413)).toMatchObject({ type: 'invalid_request_error', code: 'request_too_large' });
  });

  it('502 for a provider that cannot be reached, with its name', async () => {
    const answer = await gateway.post(PATH, { ...streamed, model: 'llamacpp-dead/some-model' });
    expect(await errorOf(answer, 502)).toMatchObject({
      type: 'provider_error',
      code: 'provider_unreachable',
      provider: 'llamacpp-dead',
    });
  });

  it('504 for a provider that does not answer in time, with its name', async () => {
    always({ hang: true });
    expect(await errorOf(await gateway.post(PATH, streamed), 504)).toMatchObject({
      type: 'provider_error',
      code: 'provider_timeout',
      provider: 'llamacpp',
    });
  });

  it('503 with Retry-After for a provider whose circuit breaker is open', async () => {
    const own = await startTestGateway({
      simulated: { responses: 'absent' },
      env: { CIRCUIT_BREAKER_FAILURE_THRESHOLD: '1', RETRY_MAX_RETRIES: '0' },
    });
    try {
      expect((await own.fetch(PATH, { json: { ...streamed, stream: false } })).status).toBe(200);
      own.simulated.control.always({ status: 503 }, { path: '/v1/chat/completions' });
      await errorOf(await own.fetch(PATH, { json: streamed }), 503);
      const answer = await own.fetch(PATH, { json: streamed });
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(await errorOf(answer, 503)).toMatchObject({ type: 'provider_error', code: 'provider_unavailable' });
    } finally {
      await own.close();
    }
  });
});

describe.each(forms)('SPEC §7, 404 for an answer that is %s', (_form, form) => {
  it.each([
    ['an unknown model', { model: 'nobody/x' }, 'model_not_found', 'model'],
    [
      'an unknown earlier response',
      { previous_response_id: 'resp_0' },
      'previous_response_not_found',
      'previous_response_id',
    ],
    ['an unknown item', { input: [{ type: 'item_reference', id: 'msg_0' }] }, 'item_not_found', 'input[0].id'],
  ])('%s', async (_what, body, code, param) => {
    const error = await errorOf(await create({ ...form, ...body }), 404);
    expect(error).toMatchObject({ type: 'not_found_error', code, param });
    expect(error).not.toHaveProperty('provider');
  });

  it('an earlier response of another tenant, as if it did not exist', async () => {
    const as = (path: string, body: object) =>
      gateway.post(PATH, { model, input: 'hi', ...form, ...body }, { headers: { 'x-gateway-user-path': path } });
    const { id: previous_response_id } = await responseIn(await as('/team/ann', {}));
    const answer = await as('/others', { previous_response_id });
    expect(await errorOf(answer, 404)).toMatchObject({
      type: 'not_found_error',
      code: 'previous_response_not_found',
      param: 'previous_response_id',
    });
    expect(await responseIn(await as('/team/ann', { previous_response_id }))).toMatchObject({ previous_response_id });
  });
});

describe('SPEC §7, 429', () => {
  it('in a stream that has begun has the code that clients check for', async () => {
    always({ errorInStream: 3, message: 'Rate limit reached.', code: '429' });
    const answer = await create({ stream: true });
    const events = dataOf(await answer.text());
    checkStream(events);
    const error = { type: 'rate_limit_error', code: 'rate_limit_exceeded', message: 'Rate limit reached.' };
    expect(events.at(-2)).toMatchObject({ type: 'error', code: error.code, error: { ...error, provider: 'llamacpp' } });
    expect(events.at(-1).response.error).toEqual(error);
  });
});

describe('SPEC §7, 501', () => {
  it('has x-should-retry: false, since a retry cannot succeed', async () => {
    for (const [path, init] of [
      [`${PATH}/resp_0?provider=llamacpp`, {}],
      [`${PATH}/resp_0/input_items?provider=llamacpp`, {}],
    ] as const) {
      const answer = await gateway.fetch(path, init);
      expect(answer.headers.get('x-should-retry')).toBe('false');
      const error = await errorOf(answer, 501);
      expect(error).toMatchObject({ type: 'invalid_request_error', code: 'unsupported_response_operation' });
      expect(error).not.toHaveProperty('provider');
    }
  });
});
