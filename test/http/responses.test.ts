import { describe, expect, it } from 'vitest';
import { both, tools, withBothKinds } from '../support/both-kinds.ts';
import { errorOf, eventsOf, json } from '../support/with-gateway.ts';
import { checkResponse, checkStream, requiredMembers } from '../translate/openai-shape.ts';

const { gateway, nativeProvider, create, stream, retrieve } = withBothKinds();
const PATH = '/v1/responses';

describe.each(both)('a %s response', (kind, model) => {
  it('has all 31 members that clients expect, and usage in both vocabularies', async () => {
    const response = await create({ model, input: 'Reply with exactly: hello', metadata: { order: '66' } });
    expect(Object.keys(response)).toEqual(expect.arrayContaining(requiredMembers));
    expect(response).toMatchObject({ object: 'response', status: 'completed', error: null, metadata: { order: '66' } });
    expect(response.output).toMatchObject([
      {
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'hello', annotations: [] }],
      },
    ]);
    expect(response.usage).toMatchObject({
      input_tokens: expect.any(Number),
      output_tokens: 1,
      total_tokens: response.usage.input_tokens + 1,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    });
    if (kind === 'native') return;
    checkResponse(response);
    expect(response).toMatchObject({ model: 'simulated-small', provider: 'llamacpp' });
    expect(response.usage).toMatchObject({
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    });
  });

  it('is found at once, unchanged', async () => {
    for (let turn = 0; turn < 5; turn++) {
      const response = await create({ model, input: `Tell me of ${turn}.` });
      const found = await retrieve(response.id);
      expect(found.status).toBe(200);
      expect(await json(found)).toEqual(response);
    }
  });

  it('is found at once after its stream, equal to its terminal event', async () => {
    const { events } = await stream({ model, input: 'Tell me of streams.' });
    const last = events.at(-1);
    expect(last.type).toBe('response.completed');
    // A native stream is passed on unchanged, without the provider.
    const provider = model.split('/')[0];
    expect(await json(await retrieve(last.response.id))).toEqual({ ...last.response, provider });
  });

  it('streams every step in order, with the same ids throughout', async () => {
    const { text, events } = await stream({ model, input: 'Tell me something.' });
    if (kind === 'translated') checkStream(events);
    const deltas = events.filter(({ type }) => type === 'response.output_text.delta');
    expect(deltas.length).toBeGreaterThan(3);
    expect(events.map(({ type }) => type)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      ...deltas.map(() => 'response.output_text.delta'),
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ]);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    const all = eventsOf(text);
    expect(all.at(-1)?.data).toBe('[DONE]');
    for (const { event, data } of all.slice(0, -1)) expect(event).toBe(JSON.parse(data).type);
    const id = events[0].response.id;
    for (const { response } of events.filter(({ response }) => response !== undefined)) expect(response.id).toBe(id);
    expect(events.at(-1).response.output[0].content[0].text).toBe(deltas.map(({ delta }) => delta).join(''));
    expect(events.at(-1).response.usage.output_tokens).toBeGreaterThan(0);
  });

  it('is the same in a stream and without', async () => {
    const requestBody = { model, input: 'Think, and tell me something.', instructions: 'Be brief.' };
    const whole = await create(requestBody);
    const { events } = await stream(requestBody);
    const said = (response: {
      output: { type: string; content?: { text: string }[]; summary?: { text: string }[] }[];
    }) => response.output.map((item) => [item.type, (item.content ?? item.summary)?.map(({ text }) => text)]);
    expect(said(events.at(-1).response)).toEqual(said(whole));
    expect(said(whole).map(([type]) => type)).toEqual(['reasoning', 'message']);
    expect(events.at(-1).response.usage).toEqual(whole.usage);
  });

  it('calls functions, also several at once, and takes their results', async () => {
    const requestBody = { model, input: 'What is the weather in Paris and Rome?', tools };
    const response = await create(requestBody);
    expect(response.output).toMatchObject([
      { type: 'function_call', name: 'get_weather', status: 'completed', call_id: expect.any(String) },
      { type: 'function_call', name: 'get_weather', status: 'completed', call_id: expect.any(String) },
    ]);
    const cities = response.output.map((call: { arguments: string }) => JSON.parse(call.arguments).city);
    expect(cities).toEqual(['Paris', 'Rome']);
    const results = response.output.map((call: { call_id: string }, index: number) => ({
      type: 'function_call_output',
      call_id: call.call_id,
      output: `sunny ${index}`,
    }));
    const input = [{ role: 'user', content: requestBody.input }, ...response.output, ...results];
    const answered = await create({ model, input, tools });
    expect(answered.output[0].content[0].text).toBe('The result is: sunny 0; sunny 1');

    const chained = await create({ model, input: results, tools, previous_response_id: response.id });
    expect(chained.output[0].content[0].text).toBe('The result is: sunny 0; sunny 1');
    expect(chained.previous_response_id).toBe(response.id);
  });

  it('streams the arguments of its function calls', async () => {
    const { events } = await stream({ model, input: 'What is the weather in Paris and Rome?', tools });
    if (kind === 'translated') checkStream(events);
    const { output } = events.at(-1).response;
    expect(output).toHaveLength(2);
    for (const [index, item] of output.entries()) {
      const deltas = events.filter(
        ({ type, output_index }) => type.endsWith('arguments.delta') && output_index === index,
      );
      expect(deltas.length).toBeGreaterThan(1);
      expect(deltas.map(({ delta }) => delta).join('')).toBe(item.arguments);
      expect(deltas.map(({ item_id }) => item_id)).toEqual(deltas.map(() => item.id));
    }
  });

  it('may call one function at a time, a certain one, or none', async () => {
    const input = 'What is the weather in Paris and Rome?';
    const one = await create({ model, input, tools, parallel_tool_calls: false });
    expect(one.output).toHaveLength(1);
    expect(one.parallel_tool_calls).toBe(false);
    const second = {
      type: 'function',
      name: 'other_thing',
      parameters: { type: 'object', properties: {} },
      strict: false,
    };
    const chosen = await create({
      model,
      input,
      tools: [...tools, second],
      tool_choice: { type: 'function', name: 'other_thing' },
    });
    expect(chosen.output[0]).toMatchObject({ type: 'function_call', name: 'other_thing' });
    const none = await create({ model, input, tools, tool_choice: 'none' });
    expect(none.output[0].type).toBe('message');
  });

  it('answers in the JSON that text.format describes', async () => {
    const schema = {
      type: 'object',
      properties: { city: { type: 'string' }, population: { type: 'integer' } },
      required: ['city', 'population'],
      additionalProperties: false,
    };
    const format = { type: 'json_schema', name: 'place', schema, strict: true };
    const response = await create({ model, input: 'Tell me about Oslo', text: { format } });
    const place = JSON.parse(response.output[0].content[0].text);
    expect(place).toEqual({ city: expect.any(String), population: expect.any(Number) });
    expect(response.text.format).toMatchObject(format);
  });

  it('that runs out of tokens is incomplete with the reason, and is stored so', async () => {
    const response = await create({ model, input: 'Write 50 words about rain.', max_output_tokens: 5 });
    expect(response).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
    expect((await json(await retrieve(response.id))).status).toBe('incomplete');
    const { events } = await stream({ model, input: 'Write 50 words about rain.', max_output_tokens: 5 });
    expect(events.at(-1)).toMatchObject({ type: 'response.incomplete', response: { status: 'incomplete' } });
    expect((await json(await retrieve(events.at(-1).response.id))).status).toBe('incomplete');
  });

  it('follows earlier turns, streamed or not', async () => {
    const first = await create({ model, input: 'My name is Ada.' });
    const { events } = await stream({ model, input: 'I live by the sea.', previous_response_id: first.id });
    const second = events.at(-1).response;
    expect(events[0].response.previous_response_id).toBe(first.id);
    expect(second.previous_response_id).toBe(first.id);
    const third = await create({ model, input: 'What is my name?', previous_response_id: second.id });
    expect(third.output[0].content[0].text).toBe('Your name is Ada.');
    expect(third.previous_response_id).toBe(second.id);
    const again = await stream({ model, input: 'What is my name?', previous_response_id: third.id });
    expect(again.events.at(-1).response.output[0].content[0].text).toBe('Your name is Ada.');
  });

  it('lists its input as items, newest first, a page at a time', async () => {
    const input = [
      { role: 'developer', content: 'Be kind.' },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'What is the weather?' }] },
      { type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_1', output: 'sunny' },
      { role: 'user', content: 'Thanks.' },
    ];
    const { id } = await create({ model, input });
    const list = async (query: string) => json(await retrieve(id, `/input_items${query}`));
    const all = await list('');
    expect(all).toMatchObject({ object: 'list', has_more: false, first_id: all.data[0].id, last_id: all.data[4].id });
    expect(all.data.map(({ type }: { type: string }) => type)).toEqual([
      'message',
      'function_call_output',
      'function_call',
      'message',
      'message',
    ]);
    expect(all.data[0]).toMatchObject({ role: 'user', content: [{ type: 'input_text', text: 'Thanks.' }] });
    expect(new Set(all.data.map(({ id }: { id: string }) => id)).size).toBe(5);
    const forwards = await list('?order=asc&limit=2');
    expect(forwards).toMatchObject({ has_more: true, data: [all.data[4], all.data[3]] });
    const next = await list(`?order=asc&limit=2&after=${forwards.last_id}`);
    expect(next).toMatchObject({ has_more: true, data: [all.data[2], all.data[1]] });
    const rest = await list(`?order=asc&limit=2&after=${next.last_id}`);
    expect(rest).toMatchObject({ has_more: false, data: [all.data[0]] });
    expect(await list(`?after=${all.last_id}`)).toMatchObject({ data: [], has_more: false });
  });

  it.each([
    ['limit=x', 'limit'],
    ['limit=1.5', 'limit'],
    ['order=up', 'order'],
  ])('refuses to list its input by %s', async (query, param) => {
    const { id } = await create({ model, input: 'hi' });
    expect(await errorOf(await retrieve(id, `/input_items?${query}`), 400)).toMatchObject({ param });
  });

  it('lists as many input items as the limit says, and twenty by default', async () => {
    const input = Array.from({ length: 130 }, (_, index) => ({ role: 'user', content: `number ${index}` }));
    const { id } = await create({ model, input });
    const count = async (query: string) => (await json(await retrieve(id, `/input_items${query}`))).data.length;
    expect(await count('')).toBe(20);
    expect(await count('?limit=100')).toBe(100);
  });

  it('is not found after its deletion', async () => {
    const { id } = await create({ model, input: 'hi' });
    const deleted = await gateway.fetch(`${PATH}/${id}`, { method: 'DELETE' });
    expect(deleted.status).toBe(200);
    expect(await json(deleted)).toEqual({ id, object: 'response', deleted: true });
    expect(await errorOf(await retrieve(id), 404)).toMatchObject({ type: 'not_found_error' });
    expect(await errorOf(await retrieve(id, '/input_items'), 404)).toMatchObject({ type: 'not_found_error' });
    expect(await errorOf(await gateway.fetch(`${PATH}/${id}`, { method: 'DELETE' }), 404)).toMatchObject({
      type: 'not_found_error',
    });
  });

  it('is deleted also when the client sends a content type with an empty body', async () => {
    const { id } = await create({ model, input: 'hi' });
    const headers = { 'content-type': 'application/json' };
    expect((await gateway.fetch(`${PATH}/${id}`, { method: 'DELETE', headers })).status).toBe(200);
  });

  it('with store: false is not stored', async () => {
    const whole = await create({ model, input: 'hi', store: false });
    expect(whole.store).toBe(false);
    const { events } = await stream({ model, input: 'hi', store: false });
    for (const id of [whole.id, events.at(-1).response.id]) {
      expect(await errorOf(await retrieve(id), 404)).toMatchObject({ type: 'not_found_error', param: null });
    }
  });

  it.each([
    ['a missing input', {}],
    ['a null input', { input: null }],
  ])('is refused for %s before any provider is called', async (_what, body) => {
    const before = gateway.simulated.requests.length + nativeProvider.requests.length;
    for (const more of [{}, { stream: true }]) {
      expect(await errorOf(await gateway.post(PATH, { model, ...body, ...more }), 400)).toEqual({
        code: 'missing_required_parameter',
        message: "Missing required parameter: 'input'.",
        param: 'input',
        type: 'invalid_request_error',
      });
    }
    expect(gateway.simulated.requests.length + nativeProvider.requests.length).toBe(before);
  });

  it('accepts every optional member as null or empty', async () => {
    const nothing = Object.fromEntries(
      'include truncation previous_response_id metadata tools tool_choice temperature top_p max_output_tokens conversation store background stream stream_options parallel_tool_calls service_tier prompt safety_identifier top_logprobs prompt_cache_key'
        .split(' ')
        .map((name) => [name, null]),
    );
    const response = await create({
      model,
      input: 'hi',
      ...nothing,
      reasoning: {},
      text: {},
      instructions: '',
      user: '',
    });
    expect(response.status).toBe('completed');
  });

  it('accepts a reference to an item of an earlier response in place of the item', async () => {
    const first = await create({ model, input: 'Reply with exactly: The code is 4711' });
    const [message] = first.output;
    const input = [
      { role: 'user', content: 'Reply with exactly: The code is 4711' },
      { type: 'item_reference', id: message.id },
      { role: 'user', content: 'What is the code?' },
    ];
    const second = await create({ model, input });
    expect(second.output[0].content[0].text).toBe('The code is 4711.');
  });
});
