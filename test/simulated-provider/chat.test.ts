import { describe, expect, it } from 'vitest';
import { countTokens } from '../../infra/simulated-provider/tokens.ts';
import { dataOf, user, weatherTool, withProvider } from './started-provider.ts';

const { json, events, post, get } = withProvider();
const chat = '/v1/chat/completions';

describe('a chat completion', () => {
  it('is the same for the same request, and another for another', async () => {
    const ask = { model: 'simulated-small', messages: user('Tell me something.') };
    const [first, second, other] = await Promise.all([
      json(chat, ask),
      json(chat, ask),
      json(chat, { ...ask, messages: user('Tell me something else.') }),
    ]);
    expect(first.choices[0].message.content).toBe(second.choices[0].message.content);
    expect(first.id).not.toBe(second.id);
    expect(first.choices[0].message.content).not.toBe(other.choices[0].message.content);
  });

  it('has the shape that OpenAI requires', async () => {
    const answer = await json(chat, { model: 'm', messages: user('hi') });
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-/),
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'm',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: expect.any(String) },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
    });
  });

  it('counts its tokens exactly, in a stream as in one piece', async () => {
    const ask = { model: 'm', messages: user('Count, please.') };
    const whole = await json(chat, ask);
    const streamed = dataOf(await events(chat, { ...ask, stream: true, stream_options: { include_usage: true } }));
    expect(whole.usage.completion_tokens).toBe(countTokens(whole.choices[0].message.content));
    expect(whole.usage.total_tokens).toBe(whole.usage.prompt_tokens + whole.usage.completion_tokens);
    expect(streamed.at(-1).usage).toEqual(whole.usage);
  });

  it('ends for length when max_tokens is reached, and counts only the tokens it sent', async () => {
    const answer = await json(chat, { model: 'm', messages: user('hi'), max_tokens: 1 });
    expect(answer.choices[0].finish_reason).toBe('length');
    expect(answer.usage.completion_tokens).toBe(1);
    const other = await json(chat, { model: 'm', messages: user('hi'), max_completion_tokens: 5 });
    expect(countTokens(other.choices[0].message.content)).toBe(5);
  });

  it('has the length that the prompt names', async () => {
    const answer = await json(chat, { model: 'm', messages: user('Write 120 words about the sea.') });
    expect(answer.usage.completion_tokens).toBe(120);
  });

  it.each([
    ['Reply with exactly: PONG', 'PONG'],
    ['Reply with exactly the word "banana".', 'banana'],
    ['Say exactly hello world', 'hello world'],
    ['Please respond with only the text: a b, c.', 'a b, c.'],
  ])('follows %j', async (prompt, reply) => {
    const answer = await json(chat, { model: 'm', messages: user(prompt) });
    expect(answer.choices[0].message.content).toBe(reply);
  });

  it('recalls facts of earlier turns in the conversation, the newest first', async () => {
    const messages = [
      ...user('Hello! My name is Bob.'),
      { role: 'assistant', content: 'Hello.' },
      ...user('Sorry: my name is Ada.'),
      { role: 'assistant', content: 'Hello.' },
      ...user('What is my name?'),
    ];
    expect((await json(chat, { model: 'm', messages })).choices[0].message.content).toContain('Ada');
  });

  it('stops before a stop sequence', async () => {
    const ask = { model: 'm', messages: user('Reply with exactly: one two three four') };
    const answer = await json(chat, { ...ask, stop: [' four', ' three'] });
    expect(answer.choices[0]).toMatchObject({ message: { content: 'one two' }, finish_reason: 'stop' });
  });

  it('comes n times, differently, and is counted n times', async () => {
    const one = await json(chat, { model: 'm', messages: user('hi') });
    const three = await json(chat, { model: 'm', messages: user('hi'), n: 3 });
    expect(three.choices.map((choice: { index: number }) => choice.index)).toEqual([0, 1, 2]);
    expect(new Set(three.choices.map((choice: { message: { content: string } }) => choice.message.content)).size).toBe(
      3,
    );
    expect(three.usage.completion_tokens).toBe(3 * one.usage.completion_tokens);
    expect(three.usage.prompt_tokens).toBe(one.usage.prompt_tokens);
  });

  it('has logprobs of its tokens on request, in a stream too', async () => {
    const ask = { model: 'm', messages: user('hi'), logprobs: true, top_logprobs: 2, max_tokens: 3 };
    const whole = (await json(chat, ask)).choices[0];
    expect(whole.logprobs.content.map((entry: { token: string }) => entry.token).join('')).toBe(whole.message.content);
    expect(whole.logprobs.content[0]).toEqual({
      token: expect.any(String),
      logprob: expect.any(Number),
      bytes: [...Buffer.from(whole.logprobs.content[0].token)],
      top_logprobs: [
        expect.objectContaining({ token: expect.any(String) }),
        expect.objectContaining({ token: expect.any(String) }),
      ],
    });
    const streamed = dataOf(await events(chat, { ...ask, stream: true })).flatMap(
      (chunk) => chunk.choices[0].logprobs?.content ?? [],
    );
    expect(streamed).toEqual(whole.logprobs.content);
  });

  it('reasons when an effort is given or the prompt says think, and counts it', async () => {
    const requestBody = await json(chat, { model: 'm', messages: user('hi'), reasoning_effort: 'low' });
    const reported = await json(chat, { model: 'm', messages: user('Think hard.') });
    const plain = await json(chat, { model: 'm', messages: user('Think hard.'), reasoning_effort: 'none' });
    expect(requestBody.choices[0].message.reasoning_content).toEqual(expect.any(String));
    expect(requestBody.usage.completion_tokens_details.reasoning_tokens).toBe(
      countTokens(requestBody.choices[0].message.reasoning_content),
    );
    expect(reported.choices[0].message.reasoning_content).toEqual(expect.any(String));
    expect(plain.choices[0].message).not.toHaveProperty('reasoning_content');
  });

  it('is JSON in JSON mode, and an instance of the schema when there is one', async () => {
    const free = await json(chat, { model: 'm', messages: user('hi'), response_format: { type: 'json_object' } });
    expect(JSON.parse(free.choices[0].message.content)).toBeTypeOf('object');
    const schema = {
      type: 'object',
      properties: { city: { type: 'string' }, size: { type: 'integer' } },
      required: ['city', 'size'],
    };
    const bound = await json(chat, {
      model: 'm',
      messages: user('Describe the city of Oslo.'),
      response_format: { type: 'json_schema', json_schema: { name: 'city', strict: true, schema } },
    });
    expect(JSON.parse(bound.choices[0].message.content)).toEqual({ city: 'Oslo', size: expect.any(Number) });
  });

  it.each([
    ['no messages', { model: 'm' }, 'messages'],
    ['messages that are not a list', { model: 'm', messages: 'hi' }, 'messages'],
    ['an unknown role', { model: 'm', messages: [{ role: 'nobody', content: 'hi' }] }, 'messages'],
    ['n of zero', { model: 'm', messages: user('hi'), n: 0 }, 'n'],
  ])('refuses %s with a 400 that names the parameter', async (_, body, param) => {
    const response = await post(chat, body);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { type: 'invalid_request_error', param, message: expect.any(String) },
    });
  });

  it('refuses a body that is not JSON, and an empty one', async () => {
    expect((await post(chat, '{"model":')).status).toBe(400);
    expect((await post(chat, '')).status).toBe(400);
  });
});

describe('a chat stream', () => {
  const ask = { model: 'm', messages: user('Tell me something.'), stream: true };

  it('begins with the role, has the text of the whole answer, gives the finish reason and ends in [DONE]', async () => {
    const whole = await json(chat, { ...ask, stream: false });
    const all = await events(chat, ask);
    const chunks = dataOf(all);
    expect(all.at(-1)?.data).toBe('[DONE]');
    expect(chunks[0].choices[0].delta.role).toBe('assistant');
    expect(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join('')).toBe(whole.choices[0].message.content);
    expect(chunks.map((chunk) => chunk.choices[0].finish_reason).filter(Boolean)).toEqual(['stop']);
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
  });

  it('has usage only on request: a last chunk without choices, and null in all others', async () => {
    const without = dataOf(await events(chat, ask));
    expect(without.some((chunk) => 'usage' in chunk)).toBe(false);
    const chunks = dataOf(await events(chat, { ...ask, stream_options: { include_usage: true } }));
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } });
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
  });

  it('streams every one of n choices', async () => {
    const chunks = dataOf(await events(chat, { ...ask, n: 2 }));
    expect(chunks.filter((chunk) => chunk.choices[0].finish_reason).map((chunk) => chunk.choices[0].index)).toEqual([
      0, 1,
    ]);
  });
});

describe('function calling', () => {
  const ask = { model: 'm', messages: user('What is the weather in Paris?'), tools: [weatherTool] };

  it('calls the function with arguments that satisfy its parameters', async () => {
    const { message, finish_reason } = (await json(chat, ask)).choices[0];
    expect(finish_reason).toBe('tool_calls');
    expect(message.content).toBeNull();
    expect(message.tool_calls).toHaveLength(1);
    expect(message.tool_calls[0]).toMatchObject({
      id: expect.stringMatching(/^call_/),
      type: 'function',
      function: { name: 'get_weather' },
    });
    expect(JSON.parse(message.tool_calls[0].function.arguments)).toEqual({
      city: 'Paris',
      unit: expect.stringMatching(/^(celsius|fahrenheit)$/),
    });
  });

  it('calls in parallel for two places, unless parallel calls are off', async () => {
    const messages = user('What is the weather in Paris and New York?');
    const cities = async (more: object) =>
      (await json(chat, { ...ask, messages, ...more })).choices[0].message.tool_calls.map(
        (call: { function: { arguments: string } }) => JSON.parse(call.function.arguments).city,
      );
    expect(await cities({})).toEqual(['Paris', 'New York']);
    expect(await cities({ parallel_tool_calls: false })).toEqual(['Paris']);
  });

  it('calls both tools when the prompt says so', async () => {
    const clock = { type: 'function', function: { name: 'get_time', parameters: { type: 'object', properties: {} } } };
    const messages = user('What is the weather and the time in Tokyo? Call both tools.');
    const { tool_calls } = (await json(chat, { ...ask, messages, tools: [weatherTool, clock] })).choices[0].message;
    expect(tool_calls.map((call: { function: { name: string } }) => call.function.name)).toEqual([
      'get_weather',
      'get_time',
    ]);
    expect(new Set(tool_calls.map((call: { id: string }) => call.id)).size).toBe(2);
  });

  it('does not call with tool_choice none, nor when the reply is dictated', async () => {
    const none = await json(chat, { ...ask, tool_choice: 'none' });
    expect(none.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: expect.any(String) } });
    const dictated = await json(chat, { ...ask, messages: user('Reply with exactly: no') });
    expect(dictated.choices[0].message.content).toBe('no');
  });

  it('calls the function that tool_choice names, or the one the prompt is about', async () => {
    const clock = { type: 'function', function: { name: 'get_time', parameters: { type: 'object', properties: {} } } };
    const tools = [clock, weatherTool];
    const name = async (more: object) =>
      (await json(chat, { ...ask, tools, ...more })).choices[0].message.tool_calls[0].function.name;
    expect(await name({})).toBe('get_weather');
    expect(await name({ tool_choice: { type: 'function', function: { name: 'get_time' } } })).toBe('get_time');
    expect(await name({ tool_choice: 'required', messages: user('Reply with exactly: no') })).toBe('get_time');
  });

  it('answers with text once it has the result', async () => {
    const called = (await json(chat, ask)).choices[0].message;
    const messages = [
      ...ask.messages,
      called,
      { role: 'tool', tool_call_id: called.tool_calls[0].id, content: 'sunny, 21 degrees' },
    ];
    const answer = (await json(chat, { ...ask, messages })).choices[0];
    expect(answer.finish_reason).toBe('stop');
    expect(answer.message.content).toContain('sunny, 21 degrees');
  });

  it('streams calls in pieces: first id and name, then arguments that add up', async () => {
    const whole = (await json(chat, ask)).choices[0].message.tool_calls[0];
    const deltas = dataOf(await events(chat, { ...ask, stream: true })).flatMap(
      (chunk) => chunk.choices[0].delta.tool_calls ?? [],
    );
    expect(deltas[0]).toEqual({
      index: 0,
      id: expect.any(String),
      type: 'function',
      function: { name: 'get_weather', arguments: '' },
    });
    expect(deltas.length).toBeGreaterThan(2);
    expect(deltas.map((delta) => delta.function.arguments).join('')).toBe(whole.function.arguments);
  });
});

describe('the other endpoints', () => {
  it('list the models, report health, and describe the server', async () => {
    const models = await json('/v1/models');
    expect(models.data.map((model: { id: string }) => model.id)).toEqual([
      'simulated-small',
      'simulated-large',
      'simulated-embed',
    ]);
    expect(models.data[0]).toEqual({
      id: 'simulated-small',
      object: 'model',
      created: expect.any(Number),
      owned_by: 'simulated',
    });
    expect(await json('/health')).toEqual({ status: 'ok' });
    expect(await json('/props')).toMatchObject({
      default_generation_settings: { n_ctx: 4096 },
      modalities: { vision: false },
    });
  });

  it('complete a prompt at the older endpoint, in one piece and streamed', async () => {
    const ask = { model: 'm', prompt: 'Once upon a time', max_tokens: 5 };
    const whole = await json('/v1/completions', ask);
    expect(whole).toMatchObject({
      object: 'text_completion',
      choices: [{ finish_reason: 'length' }],
      usage: { completion_tokens: 5 },
    });
    const all = await events('/v1/completions', { ...ask, stream: true });
    expect(
      dataOf(all)
        .map((chunk) => chunk.choices[0].text)
        .join(''),
    ).toBe(whole.choices[0].text);
    expect(all.at(-1)?.data).toBe('[DONE]');
    expect((await post('/v1/completions', { model: 'm' })).status).toBe(400);
  });

  it('give logprobs of a completion, and repeat the prompt with echo', async () => {
    const whole = await json('/v1/completions', { model: 'm', prompt: 'Once', max_tokens: 3, logprobs: 1, echo: true });
    expect(whole.choices[0].text.startsWith('Once')).toBe(true);
    expect(whole.choices[0].logprobs).toMatchObject({
      tokens: { length: 3 },
      token_logprobs: { length: 3 },
      text_offset: { length: 3 },
    });
  });

  it('tokenize', async () => {
    const { tokens } = await json('/tokenize', { content: 'hello hello' });
    expect(tokens).toHaveLength(2);
  });

  it('answer 404 in JSON to everything else', async () => {
    const response = await get('/v1/nothing');
    expect(response.status).toBe(404);
    expect(await response.json()).toEqual({ error: { code: 404, message: 'File Not Found', type: 'not_found_error' } });
  });
});
