/** Ollama's own API in the simulated provider: strict about requests, with the same content in each dialect. */
import { afterAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { dataOf, errorOf, json, user, weather, withGateway } from '../support/with-gateway.ts';
import { checkResponse, checkStream } from '../translate/openai-shape.ts';

const ollama = createSimulatedProvider();
const gateway = withGateway(async () => ({
  simulated: false,
  env: {
    OLLAMA_BASE_URL: new URL(await ollama.listen()).origin,
    RETRY_MAX_RETRIES: '0',
    CIRCUIT_BREAKER_ENABLED: 'false',
  },
}));
afterAll(() => ollama.close());

const model = 'ollama/simulated-small';
const requestBody = () => {
  const request = ollama.requests.at(-1);
  return { path: request?.path, body: JSON.parse(request?.body ?? '') };
};

interface Said {
  content: string;
  reasoning: string;
  calls: { id: string; type: string; function: { name: string; arguments: string } }[];
  finish: string | null;
  usage: Record<string, number>;
  logprobs: object[];
}

/** A chat completion as JSON or as a stream, returned in one form. */
async function chat(body: object, stream: boolean): Promise<Said> {
  const streamed = stream ? { stream, stream_options: { include_usage: true } } : {};
  const answer = await gateway.post('/v1/chat/completions', { model, ...body, ...streamed });
  expect(answer.status, await answer.clone().text()).toBe(200);
  const text = await answer.text();
  const said: Said = { content: '', reasoning: '', calls: [], finish: null, usage: {}, logprobs: [] };
  for (const { choices, usage } of stream ? dataOf(text) : [JSON.parse(text)]) {
    if (usage) said.usage = usage;
    for (const { delta, message = delta, finish_reason, logprobs } of choices) {
      said.content += message.content ?? '';
      said.reasoning += message.reasoning_content ?? '';
      for (const { index: _index, ...call } of message.tool_calls ?? []) said.calls.push(call);
      said.finish = finish_reason ?? said.finish;
      said.logprobs.push(...(logprobs?.content ?? []));
    }
  }
  return said;
}

async function respond(body: object, stream: boolean) {
  const answer = await gateway.post('/v1/responses', { model, stream, ...body });
  expect(answer.status, await answer.clone().text()).toBe(200);
  return stream ? checkStream(dataOf(await answer.text())) : checkResponse(await json(answer));
}

describe.each([false, true])('Ollama (stream: %s)', (stream) => {
  it('chats', async () => {
    const said = await chat({ messages: user('Reply with exactly: hello there'), seed: 1, stop: 'xyz' }, stream);
    expect(said).toMatchObject({ content: 'hello there', finish: 'stop', calls: [] });
    expect(said.usage.total_tokens).toBe(Number(said.usage.prompt_tokens) + Number(said.usage.completion_tokens));
    expect(requestBody()).toMatchObject({
      path: '/api/chat',
      body: { model: 'simulated-small', stream, options: { seed: 1, stop: ['xyz'] } },
    });
  });

  it('stops at a limit and at a sequence', async () => {
    const cut = await chat({ messages: user('Write 60 words.'), max_tokens: 8 }, stream);
    expect(cut).toMatchObject({ finish: 'length', usage: { completion_tokens: 8 } });
    const stopped = await chat({ messages: user('Reply with exactly: one STOP two'), stop: ['STOP'] }, stream);
    expect(stopped).toMatchObject({ content: 'one ', finish: 'stop' });
  });

  it('calls tools, receives their results, and answers', async () => {
    const tools = [{ type: 'function', function: weather }];
    const messages: object[] = user('What is the weather in Paris and New York?');
    const first = await chat({ messages, tools }, stream);
    expect(first.finish).toBe('tool_calls');
    expect(first.calls.map((call) => JSON.parse(call.function.arguments).city)).toEqual(['Paris', 'New York']);
    expect(new Set(first.calls.map(({ id }) => id)).size).toBe(2);
    const results = first.calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: '21 degrees' }));
    messages.push({ role: 'assistant', content: null, tool_calls: first.calls }, ...results);
    const second = await chat({ messages, tools }, stream);
    expect(second).toMatchObject({ content: expect.stringContaining('21 degrees'), finish: 'stop', calls: [] });
    expect(requestBody().body.messages.slice(1)).toMatchObject([
      {
        tool_calls: [{ function: { arguments: { city: 'Paris' } } }, { function: { arguments: { city: 'New York' } } }],
      },
      { role: 'tool', tool_name: 'get_weather' },
      { role: 'tool', tool_name: 'get_weather' },
    ]);
  });

  it('runs a loop of tools in responses, over previous_response_id', async () => {
    const tools = [{ type: 'function', ...weather }];
    const first = await respond({ input: 'What is the weather in Paris?', tools }, stream);
    const call = first.output.find((item) => item.type === 'function_call');
    const output = { type: 'function_call_output', call_id: call?.call_id, output: '21 degrees' };
    const second = await respond({ previous_response_id: first.id, input: [output], tools }, stream);
    expect(second.output).toMatchObject([{ content: [{ text: expect.stringContaining('21 degrees') }] }]);
  });

  it.each(['low', 'medium', 'high'])('returns its reasoning on request, %s', async (effort) => {
    const said = await chat({ messages: user('Reply with exactly: hello'), reasoning_effort: effort }, stream);
    expect(said).toMatchObject({ content: 'hello', reasoning: expect.stringMatching(/\w/) });
    expect(requestBody().body.think).toBe(effort);
    const response = await respond({ input: 'Reply with exactly: hello', reasoning: { effort } }, stream);
    expect(response.output.map(({ type }) => type)).toEqual(['reasoning', 'message']);
  });

  it('returns no reasoning with the effort none', async () => {
    const said = await chat({ messages: user('Think, then reply.'), reasoning_effort: 'none' }, stream);
    expect(said.reasoning).toBe('');
    expect(requestBody().body.think).toBe(false);
  });

  it('follows a JSON schema', async () => {
    const { parameters: schema } = weather;
    const response_format = { type: 'json_schema', json_schema: { name: 'weather', schema, strict: true } };
    const said = await chat({ messages: user('Tell me of Paris.'), response_format }, stream);
    expect(JSON.parse(said.content)).toMatchObject({ city: expect.any(String), unit: expect.any(String) });
    expect(requestBody().body.format).toEqual(schema);
    const text = { format: { type: 'json_schema', name: 'weather', schema } };
    const [message] = (await respond({ input: 'Tell me of Paris.', text }, stream)).output;
    expect(message).toMatchObject({ content: [{ text: said.content }] });
    const json = await chat({ messages: user('Some JSON, please.'), response_format: { type: 'json_object' } }, stream);
    expect(() => JSON.parse(json.content)).not.toThrow();
  });

  it('returns log probabilities', async () => {
    const messages = user('Reply with exactly: hello there');
    const { logprobs } = await chat({ messages, logprobs: true, top_logprobs: 2 }, stream);
    const entry = { token: expect.any(String), logprob: expect.any(Number), bytes: expect.any(Array) };
    expect(logprobs).toEqual(['hello', ' there'].map((token) => ({ ...entry, token, top_logprobs: [entry, entry] })));
    const bare = await chat({ messages, logprobs: true }, stream);
    expect(bare.logprobs).toEqual(['hello', ' there'].map((token) => ({ ...entry, token, top_logprobs: [] })));
    const include = ['message.output_text.logprobs'];
    const { output } = await respond({ input: 'Reply with exactly: hello there', include }, stream);
    expect(output).toMatchObject([
      { content: [{ logprobs: [{ token: 'hello', top_logprobs: [] }, { token: ' there' }] }] },
    ]);
  });

  it('accepts an image', async () => {
    const url = 'data:image/png;base64,iVBORw0KGgo=';
    const content = [
      { type: 'text', text: 'Reply with exactly: seen' },
      { type: 'image_url', image_url: { url } },
    ];
    expect((await chat({ messages: [{ role: 'user', content }] }, stream)).content).toBe('seen');
    expect(requestBody().body.messages[0]).toEqual({
      role: 'user',
      content: content[0]?.text,
      images: ['iVBORw0KGgo='],
    });
  });
});

describe('Ollama', () => {
  it('creates embeddings', async () => {
    const body = { model: 'ollama/simulated-embed', input: ['a', 'b'], dimensions: 8 };
    const { data, usage } = await json(await gateway.post('/v1/embeddings', body));
    expect(
      data.map(({ index, embedding }: { index: number; embedding: number[] }) => [index, embedding.length]),
    ).toEqual([
      [0, 8],
      [1, 8],
    ]);
    expect(usage.total_tokens).toBe(2);
    expect(requestBody().path).toBe('/api/embed');
    const packed = await json(await gateway.post('/v1/embeddings', { ...body, encoding_format: 'base64' }));
    const first = Buffer.from(packed.data[0].embedding, 'base64');
    expect(first.readFloatLE(0)).toBeCloseTo(data[0].embedding[0], 6);
  });

  it('lists its models with a description of each', async () => {
    const { data } = await json(await gateway.fetch('/v1/models'));
    expect(data.map(({ id }: { id: string }) => id)).toEqual([
      'ollama/simulated-small',
      'ollama/simulated-large',
      'ollama/simulated-embed',
    ]);
    expect(data[0].metadata).toMatchObject({
      context_window: 4096,
      capabilities: { tools: true, thinking: true, vision: true },
    });
    expect(data[2].metadata.modes).toEqual(['embedding']);
  });

  it('refuses unsupported input in its own words', async () => {
    const answer = await gateway.post('/v1/chat/completions', { model, messages: user('hi'), think: 'very' });
    const error = await errorOf(answer, 400);
    expect(error).toMatchObject({ type: 'invalid_request_error', provider: 'ollama' });
    expect(error.message).toContain('invalid think value');
  });
});
