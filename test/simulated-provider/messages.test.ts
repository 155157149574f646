import { describe, expect, it } from 'vitest';
import type { Fault } from '../../infra/simulated-provider/fault.ts';
import { type Answered, dataOf, eventsOf, user, weatherTool, withProvider } from './started-provider.ts';

const started = withProvider();
const path = '/v1/messages';
const version = { 'anthropic-version': '2023-06-01' };
const weather = { name: 'get_weather', input_schema: weatherTool.function.parameters };

function send(body: object, headers: Record<string, string> = version, where = path) {
  return fetch(new URL(where, started.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'm', max_tokens: 4096, ...body }),
  });
}

async function answer(body: object): Promise<Answered> {
  return (await send(body)).json();
}

async function stream(body: object) {
  return eventsOf(await (await send({ stream: true, ...body })).text());
}

const said = (text: string) => ({ messages: user(text) });

describe('a message', () => {
  it('has all members that Anthropic gives it', async () => {
    expect(await answer(said('Reply with exactly: hello there'))).toEqual({
      id: expect.stringMatching(/^msg_/),
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [{ type: 'text', text: 'hello there' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: expect.objectContaining({
        input_tokens: expect.any(Number),
        output_tokens: 2,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
      }),
    });
  });

  it('is the same answer as in chat, for a system text as a string or in blocks', async () => {
    const chat = await started.json('/v1/chat/completions', {
      model: 'm',
      messages: [{ role: 'system', content: 'Be kind.' }, ...user('Tell me something.')],
    });
    for (const system of ['Be kind.', [{ type: 'text', text: 'Be kind.' }]]) {
      const { content, usage } = await answer({ ...said('Tell me something.'), system });
      expect(content[0].text).toBe(chat.choices[0].message.content);
      expect(usage.input_tokens).toBe(chat.usage.prompt_tokens);
    }
  });

  it('stops at its token limit, and at a stop sequence, which it names', async () => {
    expect(await answer({ ...said('Tell me something.'), max_tokens: 1 })).toMatchObject({
      stop_reason: 'max_tokens',
      stop_sequence: null,
      usage: { output_tokens: 1 },
    });
    const stopped = await answer({ ...said('Reply with exactly: one two three'), stop_sequences: ['x', ' three'] });
    expect(stopped).toMatchObject({
      content: [{ type: 'text', text: 'one two' }],
      stop_reason: 'stop_sequence',
      stop_sequence: ' three',
    });
  });

  it('continues the text that the client has begun', async () => {
    const messages = [...user('Reply with exactly: one two three'), { role: 'assistant', content: 'one' }];
    expect((await answer({ messages })).content).toEqual([{ type: 'text', text: ' two three' }]);
  });

  it('has signed thinking before its text when thinking is enabled', async () => {
    const thinking = { type: 'enabled', budget_tokens: 1024 };
    const { content } = await answer({ ...said('Tell me something.'), thinking });
    expect(content).toEqual([
      { type: 'thinking', thinking: expect.stringMatching(/.{10}/), signature: expect.stringMatching(/.{4}/) },
      { type: 'text', text: expect.any(String) },
    ]);
    const omitted = await answer({ ...said('hi'), thinking: { type: 'adaptive', display: 'omitted' } });
    expect(omitted.content[0]).toMatchObject({ type: 'thinking', thinking: '', signature: expect.stringMatching(/./) });
    expect((await answer(said('Think hard.'))).content.map((block: Answered) => block.type)).toEqual(['text']);
    const again = [...user('hi'), { role: 'assistant', content }, ...user('Reply with exactly: fine')];
    expect((await answer({ messages: again })).content).toEqual([{ type: 'text', text: 'fine' }]);
  });

  it('calls tools as tool_choice requires, and answers to their results', async () => {
    const ask = { ...said('What is the weather in Paris and Rome?'), tools: [weather] };
    const called = await answer(ask);
    expect(called.stop_reason).toBe('tool_use');
    expect(called.content).toEqual(
      ['Paris', 'Rome'].map((city) => ({
        type: 'tool_use',
        id: expect.stringMatching(/^toolu_/),
        name: 'get_weather',
        input: expect.objectContaining({ city }),
      })),
    );
    const single = await answer({ ...ask, tool_choice: { type: 'any', disable_parallel_tool_use: true } });
    expect(single.content).toHaveLength(1);
    expect((await answer({ ...ask, tool_choice: { type: 'tool', name: 'get_weather' } })).stop_reason).toBe('tool_use');
    expect((await answer({ ...ask, tool_choice: { type: 'none' } })).stop_reason).toBe('end_turn');
    const results = called.content.map((call: Answered, i: number) => ({
      type: 'tool_result',
      tool_use_id: call.id,
      content: i === 0 ? 'rain' : [{ type: 'text', text: 'sun' }],
    }));
    const messages = [
      ...ask.messages,
      { role: 'assistant', content: called.content },
      { role: 'user', content: results },
    ];
    expect((await answer({ ...ask, messages })).content[0].text).toContain('rain; sun');
  });

  it('accepts images', async () => {
    const source = { type: 'base64', media_type: 'image/png', data: 'AAAA' };
    const content = [
      { type: 'image', source },
      { type: 'text', text: 'Reply with exactly: seen' },
    ];
    expect((await answer({ messages: [{ role: 'user', content }] })).content[0].text).toBe('seen');
  });

  it('writes marked blocks into the cache once, and reads them from then on', async () => {
    const system = [{ type: 'text', text: 'A long text.', cache_control: { type: 'ephemeral' } }];
    const first = (await answer({ ...said('hi'), system })).usage;
    const second = (await answer({ ...said('hi'), system })).usage;
    expect(first).toMatchObject({ cache_creation_input_tokens: 4, cache_read_input_tokens: 0 });
    expect(second).toMatchObject({ cache_creation_input_tokens: 0, cache_read_input_tokens: 4 });
    expect(second.input_tokens).toBe(first.input_tokens);
  });
});

describe('a message that is refused', () => {
  it.each([
    [{ max_tokens: undefined }, 'max_tokens: Field required'],
    [{ max_tokens: 0 }, /^max_tokens: /],
    [{ model: undefined }, 'model: Field required'],
    [{ messages: undefined }, 'messages: Field required'],
    [{ messages: [] }, /at least one message/],
    [{ messages: [{ role: 'system', content: 'x' }] }, /^messages\.0\.role: /],
    [{ messages: [{ role: 'user', content: [{ type: 'text', text: '' }] }] }, /non-empty/],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, /Input tag 'image_url'/],
    [{ frequency_penalty: 1 }, 'frequency_penalty: Extra inputs are not permitted'],
    [{ temperature: 1.5 }, /^temperature: range/],
    [{ tool_choice: { type: 'any' } }, /^tool_choice: /],
    [{ tools: [{ type: 'function', function: { name: 'f' } }] }, /^tools\.0/],
    [{ thinking: { type: 'enabled' } }, /budget_tokens: Field required/],
    [{ thinking: { type: 'enabled', budget_tokens: 8000 } }, /greater than/],
    [{ thinking: { type: 'adaptive' }, temperature: 0 }, /temperature/],
    [{ thinking: { type: 'adaptive' }, tools: [weather], tool_choice: { type: 'any' } }, /Thinking may not/],
    [{ messages: [...user('hi'), toolUse('t1'), ...user('and?')] }, /without `tool_result` blocks .* t1$/],
    [{ messages: [...user('hi'), toolResult('t2')] }, /unexpected `tool_use_id` .* t2$/],
  ])('%j', async (body, message) => {
    const response = await send({ ...said('hi'), ...body });
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({
      type: 'error',
      error: { type: 'invalid_request_error', message: expect.stringMatching(message) },
      request_id: expect.any(String),
    });
    expect(response.headers.get('request-id')).toEqual(expect.any(String));
  });

  it('when it names no version of the API', async () => {
    const response = await send(said('hi'), {});
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { message: 'anthropic-version: header is required' } });
  });
});

describe('a message in a stream', () => {
  it('comes in order, block by block', async () => {
    const events = await stream(said('Reply with exactly: one two'));
    expect(events.map((event) => event.event)).toEqual([
      'message_start',
      'content_block_start',
      'ping',
      'content_block_delta',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    const data = dataOf(events);
    expect(data.map((event) => event.type)).toEqual(events.map((event) => event.event));
    expect(data[0].message).toMatchObject({ content: [], stop_reason: null, usage: { output_tokens: 1 } });
    expect(data[1]).toEqual({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } });
    expect(data.at(-2)).toMatchObject({
      delta: { stop_reason: 'end_turn', stop_sequence: null },
      usage: { output_tokens: 2 },
    });
  });

  it('adds up to the message that comes without one', async () => {
    const asks = [
      { ...said('Tell me something.'), thinking: { type: 'adaptive' } },
      { ...said('What is the weather in Paris and Rome?'), tools: [weather] },
    ];
    for (const ask of asks) {
      const whole = await answer(ask);
      const blocks = addedUp(dataOf(await stream(ask)));
      const withoutIds = (content: Answered[]) => content.map((block) => ({ ...block, id: undefined }));
      expect(withoutIds(blocks)).toEqual(withoutIds(whole.content));
    }
  });
});

describe('around messages', () => {
  it('tokens are counted as they are charged, and need no max_tokens', async () => {
    const response = await send({ ...said('hello there'), max_tokens: undefined }, version, `${path}/count_tokens`);
    const { usage } = await answer(said('hello there'));
    expect(await response.json()).toEqual({ input_tokens: usage.input_tokens });
  });

  it("models are listed in Anthropic's shape for clients that send its version", async () => {
    const list = async (query: string) =>
      (await fetch(new URL(`/v1/models${query}`, started.url), { headers: version })).json();
    expect(await list('?limit=2')).toEqual({
      data: ['simulated-small', 'simulated-large'].map((id) => ({
        type: 'model',
        id,
        display_name: id,
        created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      })),
      has_more: true,
      first_id: 'simulated-small',
      last_id: 'simulated-large',
    });
    expect(await list('?after_id=simulated-large')).toMatchObject({ has_more: false, first_id: 'simulated-embed' });
    expect(await list('/simulated-small')).toMatchObject({ type: 'model', id: 'simulated-small' });
    expect(await started.json('/v1/models')).toMatchObject({ object: 'list' });
    expect(await started.json('/v1/models/simulated-small')).toMatchObject({ object: 'model' });
  });
});

describe('faults of messages', () => {
  const fault = (simulate: Fault) => send({ ...said('Tell me something.'), simulate });
  const faultyStream = (simulate: Fault) => send({ ...said('Tell me something.'), stream: true, simulate });

  it.each([
    [400, 'invalid_request_error'],
    [401, 'authentication_error'],
    [403, 'permission_error'],
    [404, 'not_found_error'],
    [413, 'request_too_large'],
    [429, 'rate_limit_error'],
    [500, 'api_error'],
    [529, 'overloaded_error'],
  ])('a %d is an error of type %s', async (status, type) => {
    const response = await fault({ status, retryAfter: 3 });
    expect(response.status).toBe(status);
    expect(response.headers.get('retry-after')).toBe('3');
    expect(await response.json()).toMatchObject({ type: 'error', error: { type, message: expect.any(String) } });
  });

  it('an error in mid-stream is an event of its own', async () => {
    const events = eventsOf(await (await faultyStream({ errorInStream: 4 })).text());
    expect(events).toHaveLength(5);
    expect(events.at(-1)?.event).toBe('error');
    expect(dataOf(events).at(-1)).toEqual({
      type: 'error',
      error: { type: 'overloaded_error', message: expect.any(String) },
    });
  });

  it('a stream can end too early, be cut, or lack its usage', async () => {
    const names = async (simulate: Fault) =>
      eventsOf(await (await faultyStream(simulate)).text()).map((event) => event.event);
    expect((await names({ endWithoutDone: true })).at(-1)).toBe('message_delta');
    expect(await names({ endWithoutFinish: true })).not.toContain('message_delta');
    await expect((await faultyStream({ cutAfterChunks: 3 })).text()).rejects.toThrow();
    expect(await (await fault({ usage: false })).json()).not.toHaveProperty('usage');
    expect(await (await fault({ emptyChoices: true })).json()).toMatchObject({ content: [] });
  });

  it('a stream is the same however it is framed', async () => {
    const plain = addedUp(dataOf(await stream(said('Tell me something.'))));
    for (const simulate of [{ splitEvery: 7 }, { coalesce: true }, { crlf: true }, { comments: true }]) {
      const framed = eventsOf(await (await faultyStream(simulate)).text());
      expect(addedUp(dataOf(framed))).toEqual(plain);
    }
  });
});

describe('a strict provider', () => {
  const strict = withProvider({ apiKey: 'sk-right', strictModels: true });
  const absent = withProvider({ messages: 'absent' });
  const ask = async (headers: Record<string, string>, model: string) => {
    const body = JSON.stringify({ model, max_tokens: 9, ...said('hi') });
    const response = await fetch(new URL(path, strict.url), {
      method: 'POST',
      headers: { ...version, ...headers },
      body,
    });
    return [response.status, ((await response.json()) as Answered).error?.type];
  };

  it('takes its key in either header, and serves only its models', async () => {
    expect(await ask({}, 'simulated-small')).toEqual([401, 'authentication_error']);
    expect(await ask({ 'x-api-key': 'sk-right' }, 'simulated-small')).toEqual([200, undefined]);
    expect(await ask({ authorization: 'Bearer sk-right' }, 'simulated-small')).toEqual([200, undefined]);
    expect(await ask({ 'x-api-key': 'sk-right' }, 'm')).toEqual([404, 'not_found_error']);
  });

  it('can do without messages', async () => {
    expect((await absent.post(path, said('hi'))).status).toBe(404);
  });
});

function toolUse(id: string) {
  return { role: 'assistant', content: [{ type: 'tool_use', id, name: 'f', input: {} }] };
}

function toolResult(tool_use_id: string) {
  return { role: 'user', content: [{ type: 'tool_result', tool_use_id, content: 'x' }] };
}

/** The blocks of a message, put together from its events. */
function addedUp(events: readonly Answered[]): Answered[] {
  const blocks: Answered[] = [];
  const inputs: string[] = [];
  for (const { type, index, content_block, delta } of events) {
    if (type === 'content_block_start') blocks[index] = { ...content_block };
    if (type !== 'content_block_delta') continue;
    const { type: kind, ...added } = delta;
    if (kind === 'input_json_delta') {
      inputs[index] = (inputs[index] ?? '') + added.partial_json;
      continue;
    }
    for (const [member, piece] of Object.entries(added)) blocks[index][member] += piece;
  }
  return blocks.map((block, i) => (inputs[i] === undefined ? block : { ...block, input: JSON.parse(inputs[i]) }));
}
