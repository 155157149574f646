import { describe, expect, it } from 'vitest';
import { type Answered, dataOf, user, weatherTool, withProvider } from './started-provider.ts';

const { json, events, post } = withProvider();
const path = '/v1/chat/completions';
const ask = (text: string, more: object = {}) => ({ model: 'm', messages: user(text), ...more });
const choice = async (text: string, more: object = {}): Promise<Answered> =>
  (await json(path, ask(text, more))).choices[0];
const deltas = async (text: string, more: object = {}): Promise<Answered[]> =>
  dataOf(await events(path, ask(text, { stream: true, ...more }))).map((chunk) => chunk.choices[0].delta);

describe('a chat completion', () => {
  it('refuses on request, in a member of its own', async () => {
    expect(await choice('Refuse: No, thanks.', { logprobs: true })).toMatchObject({
      message: { content: null, refusal: 'No, thanks.' },
      logprobs: { content: null, refusal: expect.any(Array) },
      finish_reason: 'stop',
    });
    expect((await deltas('Refuse: No, thanks.')).map(({ refusal }) => refusal ?? '').join('')).toBe('No, thanks.');
  });

  it('ends with content_filter', async () => {
    expect(await choice('Filter: half a')).toMatchObject({
      message: { content: 'half a' },
      finish_reason: 'content_filter',
    });
  });

  it('cites its sources on request', async () => {
    const annotations = [{ type: 'url_citation', url_citation: expect.objectContaining({ start_index: 0 }) }];
    expect((await choice('Tell me something, and cite it.')).message).toMatchObject({ annotations });
    expect((await deltas('Tell me something, and cite it.')).flatMap((delta) => delta.annotations ?? [])).toEqual(
      annotations,
    );
  });

  it('calls custom tools with text', async () => {
    const tools = [{ type: 'custom', custom: { name: 'shell' } }];
    const { message } = await choice('List the files in Documents', { tools });
    expect(message.tool_calls).toMatchObject([{ type: 'custom', custom: { name: 'shell', input: 'Documents' } }]);
    const pieces = (await deltas('List the files in Documents', { tools })).flatMap((delta) => delta.tool_calls ?? []);
    expect(pieces.map(({ custom }) => custom.input).join('')).toBe('Documents');
    const messages = [
      ...user('List the files in Documents'),
      message,
      { role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'a.txt' },
    ];
    expect((await json(path, { model: 'm', messages, tools })).choices[0].message.content).toContain('a.txt');
  });

  it('calls only the tools that are allowed', async () => {
    const other = { type: 'function', function: { name: 'other' } };
    const allowed_tools = { mode: 'required', tools: [other] };
    const tool_choice = { type: 'allowed_tools', allowed_tools };
    const { message } = await choice('Weather in Paris?', { tools: [weatherTool, other], tool_choice });
    expect(message.tool_calls.map((call: Answered) => call.function.name)).toEqual(['other']);
  });
});

describe('a chat completion for conformance programs has', () => {
  it.each([{}, { stream: true }])('log probabilities, alternatives and n, with %j', async (more) => {
    const body = ask('Tell me something.', { logprobs: true, top_logprobs: 2, n: 2, ...more });
    const chunks = 'stream' in more ? dataOf(await events(path, body)) : [await json(path, body)];
    const choices = chunks.flatMap((chunk: Answered) => chunk.choices);
    expect(new Set(choices.map(({ index }: Answered) => index))).toEqual(new Set([0, 1]));
    const entries = choices.flatMap(({ logprobs }: Answered) => logprobs?.content ?? []);
    expect(entries[0]).toMatchObject({ token: expect.any(String), logprob: expect.any(Number) });
    expect(entries.every((entry: Answered) => entry.top_logprobs.length === 2)).toBe(true);
  });

  it('one token, and the finish reason length', async () => {
    expect(await choice('Tell me something.', { max_tokens: 1 })).toMatchObject({ finish_reason: 'length' });
    expect(await choice('Tell me something.', { max_completion_tokens: 1 })).toMatchObject({ finish_reason: 'length' });
  });

  it('JSON, of any shape or of the one in a schema', async () => {
    const content = async (response_format: object) =>
      JSON.parse((await choice('Paris', { response_format })).message.content);
    expect(await content({ type: 'json_object' })).toEqual(expect.any(Object));
    const schema = weatherTool.function.parameters;
    const json_schema = { name: 'weather', strict: true, schema };
    expect(await content({ type: 'json_schema', json_schema })).toEqual({
      city: expect.any(String),
      unit: expect.stringMatching(/celsius|fahrenheit/),
    });
  });

  it('no tools, one tool at a time, and a stop', async () => {
    const tools = [weatherTool];
    expect((await choice('Weather in Paris?', { tools, tool_choice: 'none' })).finish_reason).toBe('stop');
    const calls = async (more: object) =>
      (await choice('Weather in Paris and Rome?', { tools, ...more })).message.tool_calls;
    expect(await calls({})).toHaveLength(2);
    expect(await calls({ parallel_tool_calls: false })).toHaveLength(1);
    expect(await choice('Reply with exactly: one two', { stop: ' two' })).toMatchObject({
      message: { content: 'one' },
      finish_reason: 'stop',
    });
  });

  it('as many dimensions as requested', async () => {
    const { data } = await json('/v1/embeddings', { model: 'm', input: 'x', dimensions: 256 });
    expect(data[0].embedding).toHaveLength(256);
  });

  it('a clear refusal of malformed requests', async () => {
    for (const body of [{}, { model: 'm', messages: 'not-an-array' }, '[]', '']) {
      const response = await post(path, body);
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { message: expect.any(String) } });
    }
  });
});
