/** Clients of OpenAI's API with a provider that has Ollama's own API. */
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { type ScriptedProvider, type ScriptedRequest, startScriptedProvider } from '../support/scripted-provider.ts';
import {
  dataOf,
  errorOf,
  eventsOfExchange,
  exchangeOf,
  json,
  user,
  weather,
  withGateway,
} from '../support/with-gateway.ts';
import { checkResponse, checkStream } from '../translate/openai-shape.ts';

let scripted: ScriptedProvider;
/** Requests to the models, without those that list them. */
let requests: ScriptedRequest[] = [];

const NDJSON = { 'content-type': 'application/x-ndjson' };
const JSON_TYPE = { 'content-type': 'application/json; charset=utf-8' };
const done = { done: true, done_reason: 'stop', prompt_eval_count: 5, eval_count: 7, total_duration: 1 };
const line = (message: object, more: object = {}) => ({
  model: 'm',
  created_at: '2026-01-01T00:00:00Z',
  message: { role: 'assistant', content: '', ...message },
  done: false,
  ...more,
});

type Turn = readonly object[];

/** Answers with these messages, as lines or as the one complete object. */
function says(turn: Turn, whole: object): void {
  answers((request) => {
    if (JSON.parse(request.body.toString()).stream === false)
      return { headers: JSON_TYPE, body: JSON.stringify(line(whole, done)) };
    const lines = [...turn.map((message) => line(message)), line({}, done)];
    return { headers: NDJSON, body: lines.map((one) => `${JSON.stringify(one)}\n`).join('') };
  });
}

function answers(
  answer: (request: ScriptedRequest) => {
    status?: number;
    headers: Record<string, string>;
    body: string;
    cut?: boolean;
  },
): void {
  scripted.script((request, response) => {
    const respond = (status: number, headers: Record<string, string>, body: string) =>
      response.writeHead(status, headers).end(body);
    if (request.path === '/api/tags') return respond(200, JSON_TYPE, '{"models":[{"model":"m"},{"model":"e"}]}');
    if (request.path === '/api/show') {
      const shown = {
        capabilities: ['completion', 'tools'],
        model_info: { 'general.architecture': 'x', 'x.context_length': 4096 },
      };
      return respond(200, JSON_TYPE, JSON.stringify(shown));
    }
    requests.push(request);
    const { status = 200, headers, body, cut } = answer(request);
    if (cut !== true) return respond(status, headers, body);
    return response.writeHead(status, headers).write(body, () => response.destroy());
  });
}

const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  says([], {});
  return {
    simulated: false,
    env: { OLLAMA_BASE_URL: scripted.url, RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' },
  };
});
beforeEach(() => {
  requests = [];
  says([{ content: 'Hel' }, { content: 'lo' }], { content: 'Hello' });
});
afterAll(() => scripted.close());

const CHAT = '/v1/chat/completions';
const RESPONSES = '/v1/responses';
const model = 'ollama/m';
const bodies = () => requests.map(({ body }) => JSON.parse(body.toString()));
const streamed = async (path: string, body: object, init: RequestInit = {}) => {
  const answer = await gateway.post(path, { model, stream: true, ...body }, init);
  expect(answer.status, await answer.clone().text()).toBe(200);
  return answer;
};

describe('chat completions of Ollama', () => {
  it('are requested from its own API, and returned as completions', async () => {
    const answer = await gateway.post(CHAT, { model, messages: user('hi'), max_tokens: 9, temperature: 0 });
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
    expect(await json(answer)).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-/),
      object: 'chat.completion',
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 },
    });
    expect(requests.map(({ path }) => path)).toEqual(['/api/chat']);
    expect(bodies()).toEqual([
      { model: 'm', messages: user('hi'), options: { num_predict: 9, temperature: 0 }, stream: false },
    ]);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.find(({ type }) => type === 'attempt.started')?.data).toMatchObject({ dialect: 'ollama_chat' });
    expect(events.at(-1)).toMatchObject({ type: 'usage.recorded', data: { inputTokens: 5, outputTokens: 7 } });
  });

  it('stream as server-sent events, although Ollama streams lines', async () => {
    const answer = await streamed(CHAT, { messages: user('hi'), stream_options: { include_usage: true } });
    expect(answer.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const text = await answer.text();
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
    expect(dataOf(text)).toMatchObject([
      { choices: [{ delta: { role: 'assistant', content: '' } }] },
      { choices: [{ delta: { content: 'Hel' } }] },
      { choices: [{ delta: { content: 'lo' } }] },
      { choices: [{ delta: {}, finish_reason: 'stop' }] },
      { choices: [], usage: { total_tokens: 12 } },
    ]);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const chunks = events.filter(({ type }) => type === 'chunk.received').map(({ body }) => JSON.parse(String(body)));
    expect(chunks.map(({ message }) => message.content)).toEqual(['Hel', 'lo', '']);
  });

  it('return the recorded stream for the same idempotency key', async () => {
    const init = { headers: { 'idempotency-key': 'once' } };
    const first = await (await streamed(CHAT, { messages: user('hi') }, init)).text();
    const again = await (await streamed(CHAT, { messages: user('hi') }, init)).text();
    expect(again).toBe(first);
    expect(requests).toHaveLength(1);
  });
});

describe('a tool loop of two turns, with thinking', () => {
  const call = { function: { name: 'get_weather', arguments: { city: 'Paris', unit: 'celsius' } } };
  const calls = () =>
    says([{ thinking: 'Let me ' }, { thinking: 'look.' }, { tool_calls: [call] }], {
      thinking: 'Let me look.',
      tool_calls: [call],
    });
  const asks = { role: 'user', content: 'What is the weather in Paris?' };
  const tool = { type: 'function', function: weather };
  const secondTurn = () => bodies()[1].messages;
  const turns = (id: unknown) => [
    asks,
    {
      role: 'assistant',
      content: '',
      thinking: 'Let me look.',
      tool_calls: [{ id, function: { index: 0, ...call.function } }],
    },
    { role: 'tool', content: '18 degrees', tool_name: 'get_weather', tool_call_id: id },
  ];

  it.each([false, true])('works in chat completions (stream: %s)', async (stream) => {
    calls();
    const body = { model, messages: [asks], tools: [tool], reasoning_effort: 'high', stream };
    const answer = await gateway.post(CHAT, body);
    const message = { role: 'assistant', content: '', reasoning_content: '', tool_calls: [] as { id: string }[] };
    for (const { choices } of stream ? dataOf(await answer.text()) : [await json(answer)]) {
      const said = choices[0]?.delta ?? choices[0]?.message ?? {};
      message.reasoning_content += said.reasoning_content ?? '';
      message.tool_calls.push(...(said.tool_calls ?? []));
    }
    const [{ id } = { id: '' }] = message.tool_calls;
    expect(id).toMatch(/^call_/);
    says([{ content: 'It is 18 degrees.' }], { content: 'It is 18 degrees.' });
    const result = { role: 'tool', tool_call_id: id, content: '18 degrees' };
    const second = await gateway.post(CHAT, { ...body, messages: [asks, message, result] });
    expect(await second.text()).toContain('It is 18 degrees.');
    expect(bodies()[0]).toMatchObject({ think: 'high', tools: [tool] });
    expect(secondTurn()).toEqual(turns(id));
  });

  it.each([false, true])('works in responses, chained by id (stream: %s)', async (stream) => {
    calls();
    const body = {
      model,
      tools: [{ type: 'function', strict: true, ...weather }],
      reasoning: { effort: 'low' },
      stream,
    };
    const respond = async (more: object) => {
      const answer = await gateway.post(RESPONSES, { ...body, ...more });
      return stream ? checkStream(dataOf(await answer.text())) : checkResponse(await json(answer));
    };
    const first = await respond({ input: [asks] });
    expect(first.output.map(({ type }) => type)).toEqual(['reasoning', 'function_call']);
    const made = first.output.find((item) => item.type === 'function_call');
    says([{ content: 'It is 18 degrees.' }], { content: 'It is 18 degrees.' });
    const output = { type: 'function_call_output', call_id: made?.call_id, output: '18 degrees' };
    const second = await respond({ previous_response_id: first.id, input: [output] });
    expect(second.output).toMatchObject([{ content: [{ text: 'It is 18 degrees.' }] }]);
    expect(second.usage).toMatchObject({ input_tokens: 5, output_tokens: 7 });
    expect(secondTurn()).toEqual(turns(made?.call_id));
  });
});

describe('embeddings of Ollama', () => {
  const embeds = () =>
    answers(() => ({ headers: JSON_TYPE, body: '{"model":"e","embeddings":[[0.5,-1],[2,0]],"prompt_eval_count":6}' }));

  it('are requested from its own API', async () => {
    embeds();
    const answer = await gateway.post('/v1/embeddings', { model: 'ollama/e', input: ['a', 'b'], dimensions: 2 });
    expect(await json(answer)).toEqual({
      object: 'list',
      data: [
        { object: 'embedding', index: 0, embedding: [0.5, -1] },
        { object: 'embedding', index: 1, embedding: [2, 0] },
      ],
      model: 'e',
      usage: { prompt_tokens: 6, total_tokens: 6 },
    });
    expect(requests.map(({ path }) => path)).toEqual(['/api/embed']);
    expect(bodies()).toEqual([{ model: 'e', input: ['a', 'b'], truncate: false, dimensions: 2 }]);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.at(-1)).toMatchObject({ type: 'usage.recorded', data: { inputTokens: 6 } });
  });

  it('are returned as base64 on request', async () => {
    embeds();
    const body = { model: 'ollama/e', input: ['a', 'b'], encoding_format: 'base64' };
    const { data } = await json(await gateway.post('/v1/embeddings', body));
    expect(Buffer.from(data[0].embedding, 'base64').readFloatLE(4)).toBe(-1);
  });

  it('do not accept tokens as input', async () => {
    const error = await errorOf(await gateway.post('/v1/embeddings', { model: 'ollama/e', input: [1, 2] }), 400);
    expect(error).toMatchObject({ param: 'input', code: 'unsupported_value' });
    expect(requests).toEqual([]);
  });

  it('that are missing from the answer are a provider error', async () => {
    says([], {});
    const error = await errorOf(await gateway.post('/v1/embeddings', { model: 'ollama/e', input: 'a' }), 502);
    expect(error).toMatchObject({ code: 'bad_provider_answer', provider: 'ollama' });
  });
});

describe('a failure of Ollama', () => {
  const ask = { model, messages: user('hi') };

  it('is returned in the envelope', async () => {
    answers(() => ({ status: 404, headers: JSON_TYPE, body: '{"error":"model \'m\' not found"}' }));
    const error = await errorOf(await gateway.post(CHAT, ask), 404);
    expect(error).toMatchObject({ type: 'not_found_error', message: "model 'm' not found", provider: 'ollama' });
  });

  it('in mid-stream ends the stream with an error', async () => {
    answers(() => ({
      headers: NDJSON,
      body: `${JSON.stringify(line({ content: 'Hel' }))}\n{"error":"out of memory"}\n`,
    }));
    const text = await (await streamed(CHAT, { messages: user('hi') })).text();
    expect(dataOf(text).at(-1)).toMatchObject({
      error: { type: 'provider_error', message: 'out of memory', provider: 'ollama' },
    });
    expect(text).not.toContain('[DONE]');
  });

  it('before the first word is an error like any other', async () => {
    answers(() => ({ headers: NDJSON, body: '{"error":"out of memory"}\n' }));
    expect(await errorOf(await gateway.post(CHAT, { ...ask, stream: true }), 502)).toMatchObject({
      message: 'out of memory',
    });
  });

  it.each([false, true])('to finish its stream is an error (broken connection: %s)', async (cut) => {
    answers(() => ({ headers: NDJSON, body: `${JSON.stringify(line({ content: 'Hel' }))}\n`, cut }));
    const text = await (await streamed(CHAT, { messages: user('hi') })).text();
    expect(dataOf(text).at(-1)).toMatchObject({ error: { code: 'stream_incomplete' } });
    const last = dataOf(await (await streamed(RESPONSES, { input: 'hi' })).text()).at(-1);
    expect(last).toMatchObject({ type: 'response.failed', response: { output: [{ content: [{ text: 'Hel' }] }] } });
  });

  it('to support a parameter is an error before Ollama is called', async () => {
    const error = await errorOf(await gateway.post(CHAT, { ...ask, tool_choice: 'required' }), 400);
    expect(error).toMatchObject({ param: 'tool_choice', code: 'unsupported_parameter' });
    expect(requests).toEqual([]);
  });
});

describe('the models of Ollama', () => {
  it('are listed with its description of each, and its own API is reached from its root', async () => {
    const { data } = await json(await gateway.fetch('/v1/models'));
    expect(data).toContainEqual(
      expect.objectContaining({
        id: model,
        metadata: expect.objectContaining({ context_window: 4096, capabilities: { tools: true } }),
      }),
    );
    answers(({ path }) => ({ headers: JSON_TYPE, body: JSON.stringify({ path }) }));
    for (const path of ['/api/ps', '/v1/models/m']) {
      expect(await json(await gateway.fetch(`/p/ollama${path}`))).toEqual({ path });
    }
  });
});
