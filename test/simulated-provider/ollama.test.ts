import { describe, expect, it } from 'vitest';
import { type Answered, user, weatherTool, withProvider } from './started-provider.ts';

const { json, post, get } = withProvider({ props: { contextWindow: 8192 } });
const absent = withProvider({ ollama: 'absent' });
const chat = '/api/chat';
const ask = (text: string, more: object = {}) => ({ model: 'm', messages: user(text), ...more });
const whole = (text: string, more: object = {}) => json(chat, ask(text, { stream: false, ...more }));

async function lines(body: object): Promise<Answered[]> {
  const response = await post(chat, body);
  expect(response.headers.get('content-type')).toBe('application/x-ndjson');
  return (await response.text())
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

describe("Ollama's chat", () => {
  it('has all members in one piece', async () => {
    expect(await whole('Reply with exactly: hello there')).toEqual({
      model: 'm',
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      message: { role: 'assistant', content: 'hello there' },
      done: true,
      done_reason: 'stop',
      total_duration: expect.any(Number),
      load_duration: expect.any(Number),
      prompt_eval_count: expect.any(Number),
      prompt_eval_duration: expect.any(Number),
      eval_count: 2,
      eval_duration: expect.any(Number),
    });
  });

  it('streams in lines by default, and counts in the last', async () => {
    const events = await lines(ask('Reply with exactly: one two'));
    expect(events.map(({ message, done }) => [message.content, done])).toEqual([
      ['one', false],
      [' two', false],
      ['', true],
    ]);
    expect(events.at(-1)).toMatchObject({ done_reason: 'stop', eval_count: 2, prompt_eval_count: expect.any(Number) });
  });

  it('has log probabilities on request, and alternatives only when there are some', async () => {
    const requestBody = { logprobs: true };
    const entry = { token: expect.any(String), logprob: expect.any(Number), bytes: expect.any(Array) };
    expect((await whole('Reply with exactly: one two', requestBody)).logprobs).toEqual([entry, entry]);
    const events = await lines(ask('Reply with exactly: one two', { ...requestBody, top_logprobs: 1 }));
    expect(events.map(({ logprobs }) => logprobs)).toEqual([
      [{ ...entry, token: 'one', top_logprobs: [entry] }],
      [{ ...entry, token: ' two', top_logprobs: [entry] }],
      undefined,
    ]);
  });

  it('takes its stop sequences as a list of texts only', async () => {
    for (const stop of ['x', [1]]) {
      const refused = await post(chat, ask('hi', { options: { stop } }));
      expect(refused.status).toBe(400);
      expect(await refused.json()).toEqual({ error: expect.stringContaining('option "stop"') });
    }
  });

  it('follows its options and its format', async () => {
    expect(await whole('Tell me something.', { options: { num_predict: 1 } })).toMatchObject({
      done_reason: 'length',
      eval_count: 1,
    });
    const stopped = await whole('Reply with exactly: one two', { options: { stop: [' two'], num_predict: -1 } });
    expect(stopped.message.content).toBe('one');
    const text = async (seed: number) => (await whole('Tell me something.', { options: { seed } })).message.content;
    expect(await text(1)).toBe(await text(1));
    expect(await text(1)).not.toBe(await text(2));
    const { parameters } = weatherTool.function;
    expect(JSON.parse((await whole('hi', { format: 'json' })).message.content)).toEqual(expect.any(Object));
    const instance = JSON.parse((await whole('hi', { format: parameters })).message.content);
    expect(Object.keys(instance)).toEqual(['city', 'unit']);
  });

  it('thinks with think: true, and chooses itself without the member', async () => {
    const thinking = async (more: object) => (await whole('Think hard.', more)).message.thinking;
    expect(await thinking({ think: true })).toEqual(expect.any(String));
    expect(await thinking({ think: 'low' })).toEqual(expect.any(String));
    expect(await thinking({})).toEqual(expect.any(String));
    expect(await thinking({ think: false })).toBeUndefined();
    const events = await lines(ask('hi', { think: true }));
    expect(events[0].message).toMatchObject({ content: '', thinking: expect.any(String) });
  });

  it('calls tools with an object, whole also in a stream, and answers to their results', async () => {
    const tools = [weatherTool];
    const { message, done_reason } = await whole('Weather in Paris?', { tools });
    expect(done_reason).toBe('stop');
    expect(message.tool_calls).toMatchObject([{ function: { name: 'get_weather', arguments: { city: 'Paris' } } }]);
    const events = await lines(ask('Weather in Paris?', { tools }));
    expect(events.flatMap((line) => line.message.tool_calls ?? [])).toMatchObject([
      { function: { arguments: { city: 'Paris' } } },
    ]);
    const messages = [
      ...user('Weather in Paris?'),
      message,
      { role: 'tool', tool_name: 'get_weather', content: 'rain' },
    ];
    expect((await json(chat, { model: 'm', messages, tools, stream: false })).message.content).toContain('rain');
  });

  it('loads a model when there is no message', async () => {
    expect(await json(chat, { model: 'm' })).toMatchObject({ done: true, done_reason: 'load' });
  });

  it.each([
    [{ messages: [{ role: 'developer', content: 'x' }] }, /invalid role/],
    [{ messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }] }] }, /cannot unmarshal array/],
    [{ messages: [{ role: 'user', content: 'x', images: ['data:image/png;base64,AA'] }] }, /illegal base64/],
    [
      { messages: [{ role: 'assistant', tool_calls: [{ function: { name: 'f', arguments: '{}' } }] }] },
      /cannot unmarshal string/,
    ],
    [ask('x', { think: 'hard' }), /invalid think value/],
    [ask('x', { format: 'yaml' }), /invalid format/],
  ])('refuses %j', async (body, message) => {
    const response = await post(chat, { model: 'm', ...body });
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({ error: expect.stringMatching(message) });
  });
});

describe("around Ollama's chat", () => {
  it('models are listed and shown with the length of their context', async () => {
    const { models } = await json('/api/tags');
    expect(models[0]).toMatchObject({ name: 'simulated-small', model: 'simulated-small', digest: expect.any(String) });
    const shown = await json('/api/show', { model: 'simulated-small' });
    expect(shown.model_info).toMatchObject({
      'general.architecture': 'simulated',
      'simulated.context_length': 8192,
    });
    expect(shown.capabilities).toEqual(expect.arrayContaining(['completion', 'tools']));
    expect((await json('/api/show', { model: 'simulated-embed' })).capabilities).toEqual(['embedding']);
    const unknown = await post('/api/show', { model: 'm' });
    expect(unknown.status).toBe(404);
    expect(await unknown.json()).toEqual({ error: "model 'm' not found" });
  });

  it('texts are embedded, one or many', async () => {
    const one = await json('/api/embed', { model: 'm', input: 'hello' });
    const many = await json('/api/embed', { model: 'm', input: ['hello', 'world'], dimensions: 8 });
    expect(one).toMatchObject({ model: 'm', embeddings: [expect.any(Array)], prompt_eval_count: 1 });
    expect(many.embeddings.map((each: number[]) => each.length)).toEqual([8, 8]);
    expect((await post('/api/embed', { model: 'm', input: [1] })).status).toBe(400);
  });

  it('the version and the status are served', async () => {
    expect(await json('/api/version')).toEqual({ version: expect.stringMatching(/^\d+\.\d+/) });
    expect(await (await get('/')).text()).toBe('Ollama is running');
    expect((await absent.get('/api/tags')).status).toBe(404);
  });
});

describe("faults of Ollama's chat", () => {
  it('are errors in its envelope, whole and in mid-stream', async () => {
    const refused = await post(chat, ask('hi', { simulate: { status: 503 } }));
    expect([refused.status, await refused.json()]).toEqual([503, { error: 'simulated error 503' }]);
    const events = await lines(ask('Tell me something.', { simulate: { errorInStream: 3, message: 'out of memory' } }));
    expect(events).toHaveLength(4);
    expect(events.at(-1)).toEqual({ error: 'out of memory' });
  });

  it('end, cut or garble a stream', async () => {
    const text = async (simulate: object) => (await post(chat, ask('Tell me something.', { simulate }))).text();
    expect(await text({ endWithoutFinish: true })).not.toContain('"done":true');
    expect(await text({ garbage: true })).toContain('not json at all\n');
    await expect(text({ cutAfterChunks: 2 })).rejects.toThrow();
    expect((await text({ oversizedBytes: 100_000 })).length).toBeGreaterThan(100_000);
    expect((await whole('hi', { simulate: { usage: false } })).eval_count).toBeUndefined();
  });

  it('frame it oddly without changing it', async () => {
    const contents = async (simulate: object) =>
      (await lines(ask('Reply with exactly: Grüße, 世界!', { simulate }))).map(({ message }) => message.content);
    const plain = await contents({});
    for (const simulate of [{ splitEvery: 7 }, { coalesce: true }]) expect(await contents(simulate)).toEqual(plain);
  });
});
