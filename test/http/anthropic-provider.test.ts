/** Clients of OpenAI's API with a provider that has Anthropic's Messages API. */

import { describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import {
  dataOf,
  errorOf,
  eventsOf,
  eventsOfExchange,
  exchangeOf,
  json,
  user,
  weather,
  withGateway,
} from '../support/with-gateway.ts';
import { checkResponse, checkStream } from '../translate/openai-shape.ts';

const KEY = 'sk-ant-api03-very-secret';
const gateway = withGateway({
  simulated: { apiKey: KEY, models: ['claude-sonnet-4-6', 'claude-haiku-4-5', 'claude-3-5-haiku'] },
  register: (url) => ({ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: KEY }),
  env: { ANTHROPIC_DEFAULT_MAX_TOKENS: '3000', RETRY_MAX_RETRIES: '1', CIRCUIT_BREAKER_ENABLED: 'false' },
});
const CHAT = '/v1/chat/completions';
const RESPONSES = '/v1/responses';
const adaptive = 'anthropic/claude-sonnet-4-6';
const budgeted = 'anthropic/claude-haiku-4-5';
const models = [adaptive, budgeted];
const chatTools = [{ type: 'function', function: { ...weather, strict: true } }];
const responseTools = [{ type: 'function', strict: true, ...weather }];

const lastBody = () => JSON.parse(gateway.lastProviderRequest().body);
const chat = async (body: object) => json(await gateway.post(CHAT, { model: adaptive, ...body }));
const respond = async (body: object) => json(await gateway.post(RESPONSES, { model: adaptive, ...body }));
const streamed = async (path: string, body: object) => {
  const answer = await gateway.post(path, { model: adaptive, stream: true, ...body });
  expect(answer.status, await answer.clone().text()).toBe(200);
  expect(answer.headers.get('content-type')).toMatch(/^text\/event-stream/);
  return { text: await answer.text(), exchange: exchangeOf(answer) };
};

/** The blocks of the turn before the last: what the client sent back of the assistant's turn. */
const turnBefore = () => lastBody().messages.at(-2).content as { type: string; signature?: string }[];

function messageOf(chunks: Answered[]) {
  const message = { role: 'assistant', content: '', tool_calls: [] as Record<string, unknown>[] };
  for (const { choices } of chunks) {
    const delta = choices[0]?.delta ?? {};
    message.content += delta.content ?? '';
    for (const { index, function: called, ...rest } of delta.tool_calls ?? []) {
      const before = (message.tool_calls[index] ?? { function: { name: '', arguments: '' } }) as {
        function: { name: string; arguments: string };
      };
      message.tool_calls[index] = {
        ...before,
        ...rest,
        function: {
          name: before.function.name + (called.name ?? ''),
          arguments: before.function.arguments + called.arguments,
        },
      };
    }
  }
  return message;
}

describe('chat completions of an Anthropic model', () => {
  it('are requested as messages, and returned as completions', async () => {
    const answer = await gateway.post(CHAT, {
      model: adaptive,
      messages: [{ role: 'system', content: 'Be brief.' }, ...user('Reply with exactly: hello')],
      max_tokens: 50,
    });
    expect(await json(answer)).toMatchObject({
      object: 'chat.completion',
      model: 'claude-sonnet-4-6',
      choices: [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: expect.any(Number), completion_tokens: 1 },
    });
    const { path, headers } = gateway.lastProviderRequest();
    expect(path).toBe('/v1/messages');
    expect(headers).toMatchObject({ 'x-api-key': KEY, 'anthropic-version': '2023-06-01' });
    expect(lastBody()).toEqual({
      model: 'claude-sonnet-4-6',
      max_tokens: 50,
      system: 'Be brief.',
      messages: user('Reply with exactly: hello'),
    });
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.find(({ type }) => type === 'attempt.started')?.data).toMatchObject({
      provider: 'anthropic',
      dialect: 'messages',
    });
    expect(events.at(-1)).toMatchObject({ type: 'usage.recorded', data: { outputTokens: 1, source: 'provider' } });
    expect(JSON.stringify(events)).not.toContain(KEY);
  });

  it.each([true, undefined])('stream as chunks, with usage when include_usage is set (%s)', async (include_usage) => {
    const stream_options = include_usage === undefined ? undefined : { include_usage };
    const { text } = await streamed(CHAT, { messages: user('Reply with exactly: one two three'), stream_options });
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
    const chunks = dataOf(text);
    expect(chunks[0].choices[0].delta).toEqual({ role: 'assistant', content: '' });
    const withUsage = chunks.filter(({ usage }) => usage !== undefined);
    expect(withUsage.map(({ choices }) => choices)).toEqual(include_usage === true ? [[]] : []);
    const last = chunks.filter(({ choices }) => choices.length > 0).at(-1);
    expect(last.choices[0]).toMatchObject({ delta: {}, finish_reason: 'stop' });
    expect(messageOf(chunks).content).toBe('one two three');
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
  });

  it('report the cached tokens of the prompt', async () => {
    const long = `A long text. ${'word '.repeat(2000)}`;
    const messages = [{ role: 'user', content: [{ type: 'text', text: long, cache_control: { type: 'ephemeral' } }] }];
    const first = (await chat({ messages })).usage;
    const second = (await chat({ messages })).usage;
    expect(first.prompt_tokens_details.cache_write_tokens).toBeGreaterThan(0);
    expect(second.prompt_tokens_details.cached_tokens).toBe(first.prompt_tokens_details.cache_write_tokens);
    expect(second.prompt_tokens).toBe(first.prompt_tokens);
    expect(second.total_tokens).toBe(second.prompt_tokens + second.completion_tokens);
  });

  it('follow a schema', async () => {
    const schema = {
      type: 'object',
      properties: { n: { type: 'integer' } },
      required: ['n'],
      additionalProperties: false,
    };
    const response_format = { type: 'json_schema', json_schema: { name: 'x', schema } };
    const { choices } = await chat({ messages: user('A number, please.'), response_format });
    expect(JSON.parse(choices[0].message.content)).toEqual({ n: expect.any(Number) });
    expect(lastBody().max_tokens).toBe(3000);
  });
});

describe.each([...models, 'anthropic/claude-3-5-haiku'])('a JSON object from %s', (model) => {
  const messages = user('Answer with a JSON object, please.');
  const format = { type: 'json_object' };

  it('is the text of a chat completion, whole and streamed', async () => {
    const body = { model, messages, response_format: format };
    const { message, finish_reason } = (await chat(body)).choices[0];
    expect(JSON.parse(message.content)).toEqual({});
    expect(message).not.toHaveProperty('tool_calls');
    expect(finish_reason).toBe('stop');
    expect(lastBody().tool_choice).toEqual({ type: 'tool', name: 'gateway_json_answer' });
    const chunks = dataOf((await streamed(CHAT, body)).text);
    expect(messageOf(chunks)).toMatchObject({ content: message.content, tool_calls: [] });
    expect(chunks.findLast(({ choices }) => choices.length > 0).choices[0].finish_reason).toBe('stop');
  });

  it('is the text of a response, whole and streamed, and after a restart of the stream from its record', async () => {
    const body = { model, input: messages, text: { format } };
    const whole = checkResponse(await respond(body));
    expect(whole.output).toMatchObject([{ type: 'message', content: [{ type: 'output_text', text: '{}' }] }]);
    expect(whole.text.format).toEqual(format);
    expect(whole.tools).toEqual([]);
    const { text } = await streamed(RESPONSES, body);
    const { id, output } = checkStream(dataOf(text));
    expect(output).toMatchObject([{ type: 'message', content: [{ text: '{}' }] }]);
    expect(await (await gateway.fetch(`${RESPONSES}/${id}?stream=true`)).text()).toBe(text);
  });

  it('is not demanded instead of a call of the client’s tools', async () => {
    const body = { model, messages: user('What is the weather in Paris?'), response_format: format };
    const { message, finish_reason } = (await chat({ ...body, tools: chatTools })).choices[0];
    expect(message.tool_calls).toMatchObject([{ function: { name: 'get_weather' } }]);
    expect(finish_reason).toBe('tool_calls');
  });
});

describe('a model without thinking', () => {
  it.each(['low', 'high', 'max'])('gets no budget for the effort %s', async (effort) => {
    const model = 'anthropic/claude-3-5-haiku';
    await chat({ model, messages: user('hi'), reasoning_effort: effort, temperature: 0.5 });
    expect(lastBody()).not.toHaveProperty('thinking');
    await respond({ model, input: 'hi', reasoning: { effort } });
    expect(lastBody()).not.toHaveProperty('thinking');
  });
});

describe.each(models)('a tool loop of two turns, with thinking, on %s', (model) => {
  const question = user('What is the weather in Paris?');
  const effort = { model, reasoning_effort: 'low' };

  it('works in chat completions, with the message sent back unchanged', async () => {
    const { message, finish_reason } = (await chat({ ...effort, messages: question, tools: chatTools })).choices[0];
    expect(finish_reason).toBe('tool_calls');
    expect(message.reasoning_content).toEqual(expect.stringMatching(/./));
    const [call] = message.tool_calls;
    const result = { role: 'tool', tool_call_id: call.id, content: '18 degrees' };
    const second = await chat({ ...effort, messages: [...question, message, result], tools: chatTools });
    expect(second.choices[0].message.content).toContain('18 degrees');
    expect(turnBefore().map(({ type }) => type)).toEqual(['thinking', 'tool_use']);
    expect(turnBefore()[0]?.signature).toEqual(expect.stringMatching(/./));
    expect(lastBody().thinking).toBeDefined();
  });

  it('works in streams, with messages that clients assembled from chunks', async () => {
    const first = await streamed(CHAT, { ...effort, messages: question, tools: chatTools });
    const message = messageOf(dataOf(first.text));
    expect(JSON.parse(String(Object(message.tool_calls[0]).function.arguments))).toMatchObject({ city: 'Paris' });
    const result = { role: 'tool', tool_call_id: message.tool_calls[0]?.['id'], content: '18 degrees' };
    const second = await streamed(CHAT, { ...effort, messages: [...question, message, result], tools: chatTools });
    expect(messageOf(dataOf(second.text)).content).toContain('18 degrees');
    expect(turnBefore().map(({ type }) => type)).toEqual(['thinking', 'tool_use']);
  });

  it('works in chat completions for a client that drops the reasoning', async () => {
    const { message } = (await chat({ ...effort, messages: question, tools: chatTools })).choices[0];
    const [{ extra_content: _, ...call }] = message.tool_calls;
    const bare = { role: 'assistant', content: null, tool_calls: [call] };
    const result = { role: 'tool', tool_call_id: call.id, content: '18 degrees' };
    const second = await chat({ ...effort, messages: [...question, bare, result], tools: chatTools });
    expect(second.choices[0].message.content).toContain('18 degrees');
  });

  it.each([false, true])('works in responses, chained by id (stream: %s)', async (stream) => {
    const requestBody = { model, reasoning: { effort: 'low' }, tools: responseTools };
    const turn = async (body: object) => {
      if (!stream) return checkResponse(await respond({ ...requestBody, ...body }));
      return checkStream(dataOf((await streamed(RESPONSES, { ...requestBody, ...body })).text));
    };
    const first = await turn({ input: 'What is the weather in Paris?' });
    expect(first.output.map(({ type }) => type)).toEqual(['reasoning', 'function_call']);
    const call = first.output.find((item) => item.type === 'function_call');
    const output = { type: 'function_call_output', call_id: call?.call_id, output: '18 degrees' };
    const second = await turn({ previous_response_id: first.id, input: [output] });
    expect(JSON.stringify(second.output.at(-1))).toContain('18 degrees');
    expect(turnBefore().map(({ type }) => type)).toEqual(['thinking', 'tool_use']);
    expect(lastBody().thinking).toBeDefined();
  });

  it('works in responses, with the items sent back', async () => {
    const requestBody = { model, reasoning: { effort: 'low' }, tools: responseTools, store: false };
    const question = { role: 'user', content: 'What is the weather in Paris?' };
    const include = ['reasoning.encrypted_content'];
    const { output } = await respond({ ...requestBody, include, input: [question] });
    const call = output.at(-1);
    // Clients keep those members of an item that OpenAI's types have.
    const kept = output.map(({ extra_content: _, ...item }: Record<string, unknown>) => item);
    const result = { type: 'function_call_output', call_id: call.call_id, output: '18 degrees' };
    const second = await respond({ ...requestBody, include, input: [question, ...kept, result] });
    expect(JSON.stringify(second.output.at(-1))).toContain('18 degrees');
    expect(turnBefore().map(({ type }) => type)).toEqual(['thinking', 'tool_use']);
  });
});

describe('responses of an Anthropic model', () => {
  it('are made from its messages, whole and streamed', async () => {
    const requestBody = { input: 'Reply with exactly: hello there', instructions: 'Be brief.' };
    const whole = checkResponse(await respond(requestBody));
    expect(whole.output).toMatchObject([{ type: 'message', content: [{ type: 'output_text', text: 'hello there' }] }]);
    const events = dataOf((await streamed(RESPONSES, requestBody)).text);
    expect(checkStream(events)).toMatchObject({ status: 'completed', usage: whole.usage });
  });

  it('are incomplete when the tokens run out', async () => {
    const cut = await respond({ input: 'Write 100 words.', max_output_tokens: 3 });
    expect(cut).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
  });
});

describe('an unsupported feature', () => {
  it.each<[string, object, string]>([
    [CHAT, { n: 5 }, 'n'],
    [CHAT, { seed: 1 }, 'seed'],
    [CHAT, { temperature: 1.2 }, 'temperature'],
    [CHAT, { response_format: { type: 'json_object' }, reasoning_effort: 'low' }, 'response_format'],
    [RESPONSES, { text: { format: { type: 'json_object' } }, reasoning: { effort: 'low' } }, 'text.format'],
    [RESPONSES, { reasoning: { effort: 'bogus' } }, 'reasoning.effort'],
    [CHAT, { reasoning_effort: 'bogus' }, 'reasoning_effort'],
    [
      CHAT,
      { messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: {} }] }] },
      'messages[0].content[0].type',
    ],
    [RESPONSES, { temperature: 0.5, reasoning: { effort: 'high' } }, 'temperature'],
  ])('on %s is refused: %j', async (path, body, param) => {
    const requestCount = gateway.simulated.requests.length;
    const error = await errorOf(
      await gateway.post(path, { model: adaptive, messages: user('x'), input: 'x', ...body }),
      400,
    );
    expect(error).toMatchObject({ type: 'invalid_request_error', param });
    expect(error).not.toHaveProperty('provider');
    expect(gateway.simulated.requests).toHaveLength(requestCount);
  });

  it('includes embeddings', async () => {
    const error = await errorOf(await gateway.post('/v1/embeddings', { model: adaptive, input: 'x' }), 501);
    expect(error).toMatchObject({ type: 'invalid_request_error', code: 'unsupported_operation' });
  });
});

describe('a failure of Anthropic', () => {
  it('is returned in the envelope', async () => {
    gateway.simulated.control.always({ status: 529, message: 'Overloaded' });
    const error = await errorOf(await gateway.post(CHAT, { model: adaptive, messages: user('x') }), 529);
    expect(error).toMatchObject({
      type: 'provider_error',
      code: 'overloaded_error',
      message: 'Overloaded',
      provider: 'anthropic',
    });
  });

  it('never contains the key, for the client or in the log', async () => {
    gateway.simulated.control.always({ status: 401, message: `invalid x-api-key ${KEY}` });
    const answer = await gateway.post(CHAT, { model: adaptive, messages: user('x') });
    const exchange = exchangeOf(answer);
    expect((await errorOf(answer, 502)).message).toMatch(/: invalid x-api-key \[redacted\]$/);
    expect(JSON.stringify(await eventsOfExchange(gateway, exchange))).not.toContain(KEY);
  });

  it('in mid-stream ends the stream with an error', async () => {
    gateway.simulated.control.always({ errorInStream: 6 });
    const { text } = await streamed(CHAT, { messages: user('Write 30 words.') });
    expect(dataOf(text).at(-1)).toMatchObject({
      error: { type: 'provider_error', code: 'overloaded_error', provider: 'anthropic' },
    });
    expect(text).not.toContain('[DONE]');
    const events = eventsOf((await streamed(RESPONSES, { input: 'Write 30 words.' })).text).map(({ event }) => event);
    expect(events.slice(-3)).toEqual(expect.arrayContaining(['error', 'response.failed']));
  });

  it('to finish its stream is an error', async () => {
    gateway.simulated.control.always({ cutAfterChunks: 6 });
    const { text } = await streamed(CHAT, { messages: user('Write 30 words.') });
    expect(dataOf(text).at(-1)).toMatchObject({ error: { code: 'stream_incomplete' } });
  });
});

describe('the models of Anthropic', () => {
  it('are listed, and its own API is reached by passthrough', async () => {
    const { data } = await json(await gateway.fetch('/v1/models'));
    expect(data.map(({ id }: { id: string }) => id)).toEqual(expect.arrayContaining(models));
    const body = { model: 'claude-sonnet-4-6', max_tokens: 10, messages: user('Reply with exactly: hello') };
    const answer = await json(await gateway.post('/p/anthropic/v1/messages', body));
    expect(answer).toMatchObject({ type: 'message', content: [{ type: 'text', text: 'hello' }] });
    expect(gateway.lastProviderRequest().headers).toMatchObject({
      'x-api-key': KEY,
      'anthropic-version': '2023-06-01',
    });
  });
});
