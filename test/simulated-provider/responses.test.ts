import { describe, expect, it } from 'vitest';
import { dataOf, eventsOf, weatherTool, withProvider } from './started-provider.ts';

const { json, events, get, post } = withProvider();
const absent = withProvider({ responses: 'absent' });
const responses = '/v1/responses';
const weather = { type: 'function', ...weatherTool.function };

const REQUIRED = [
  'id object created_at completed_at status incomplete_details model previous_response_id instructions output error tools',
  'tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs temperature',
  'reasoning usage max_output_tokens max_tool_calls store background service_tier metadata safety_identifier prompt_cache_key',
].flatMap((line) => line.split(' '));

describe('a response', () => {
  it('has all 31 members that Open Responses requires', async () => {
    const response = await json(responses, { model: 'm', input: 'hi' });
    expect(REQUIRED).toHaveLength(31);
    expect(Object.keys(response)).toEqual(expect.arrayContaining(REQUIRED));
    expect(response).toMatchObject({
      object: 'response',
      status: 'completed',
      usage: { input_tokens_details: { cached_tokens: 0 } },
    });
    expect(response.output[0]).toMatchObject({
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', annotations: [], text: expect.any(String) }],
    });
  });

  it('is incomplete when the tokens run out', async () => {
    const response = await json(responses, { model: 'm', input: 'hi', max_output_tokens: 1 });
    expect(response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      completed_at: null,
    });
    expect(response.output.at(-1).status).toBe('incomplete');
  });

  it('follows instructions and roles in its input', async () => {
    const input = [
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'input_text', text: 'Reply with exactly: yes' }] },
    ];
    expect((await json(responses, { model: 'm', input })).output[0].content[0].text).toBe('yes');
  });

  it('calls functions, reasons first on request, and answers to results', async () => {
    const called = await json(responses, {
      model: 'm',
      input: 'Weather in Paris?',
      tools: [weather],
      reasoning: { effort: 'low' },
    });
    expect(called.output.map((item: { type: string }) => item.type)).toEqual(['reasoning', 'function_call']);
    const call = called.output[1];
    expect(call).toMatchObject({ status: 'completed', call_id: expect.any(String), name: 'get_weather' });
    expect(JSON.parse(call.arguments)).toMatchObject({ city: 'Paris' });
    const result = { type: 'function_call_output', call_id: call.call_id, output: 'rain' };
    const answered = await json(responses, {
      model: 'm',
      previous_response_id: called.id,
      input: [result],
      tools: [weather],
    });
    expect(answered.output[0].content[0].text).toContain('rain');
  });

  it('is an instance of the schema in text.format', async () => {
    const schema = { type: 'object', properties: { size: { type: 'integer' } }, required: ['size'] };
    const { output } = await json(responses, {
      model: 'm',
      input: 'hi',
      text: { format: { type: 'json_schema', name: 's', schema } },
    });
    expect(JSON.parse(output[0].content[0].text)).toEqual({ size: expect.any(Number) });
  });

  it.each([{ model: 'm' }, { model: 'm', input: 42 }, { model: 'm', input: [42] }])('refuses %j', async (body) => {
    const response = await post(responses, body);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param: 'input' } });
  });
});

describe('a stored response', () => {
  it('can be fetched, and is continued with previous_response_id', async () => {
    const first = await json(responses, { model: 'm', input: 'My name is Ada.' });
    expect(await json(`${responses}/${first.id}`)).toEqual(first);
    const second = await json(responses, { model: 'm', input: 'What is my name?', previous_response_id: first.id });
    expect(second.output[0].content[0].text).toContain('Ada');
    expect(second.previous_response_id).toBe(first.id);
    const third = await json(responses, { model: 'm', input: 'What is my name?', previous_response_id: second.id });
    expect(third.output[0].content[0].text).toContain('Ada');
  });

  it('lists its input items, newest first by default, in pages', async () => {
    const input = ['one', 'two', 'three'].map((content) => ({ role: 'user', content }));
    const { id } = await json(responses, { model: 'm', input });
    const newest = await json(`${responses}/${id}/input_items?limit=2`);
    expect(newest).toMatchObject({ object: 'list', has_more: true, data: [{ content: 'three' }, { content: 'two' }] });
    const rest = await json(`${responses}/${id}/input_items?limit=2&after=${newest.last_id}`);
    expect(rest).toMatchObject({ has_more: false, data: [{ content: 'one' }] });
    const oldest = await json(`${responses}/${id}/input_items?order=asc`);
    expect(oldest.data.map((item: { content: string }) => item.content)).toEqual(['one', 'two', 'three']);
  });

  it('is taken by reference to its items', async () => {
    const first = await json(responses, { model: 'm', input: 'Reply with exactly: The code is 4711' });
    const input = [
      { type: 'item_reference', id: first.output[0].id },
      { role: 'user', content: 'What is the code?' },
    ];
    expect((await json(responses, { model: 'm', input })).output[0].content[0].text).toContain('4711');
    expect((await post(responses, { model: 'm', input: [{ type: 'item_reference', id: 'msg_no' }] })).status).toBe(404);
  });

  it('is removed once deleted, and never stored with store: false', async () => {
    const { id } = await json(responses, { model: 'm', input: 'hi' });
    const gone = await fetch(new URL(`${responses}/${id}`, (await get('/health')).url), { method: 'DELETE' });
    expect(await gone.json()).toEqual({ id, object: 'response', deleted: true });
    expect((await get(`${responses}/${id}`)).status).toBe(404);
    const unstored = await json(responses, { model: 'm', input: 'hi', store: false });
    expect((await get(`${responses}/${unstored.id}`)).status).toBe(404);
    const chained = await post(responses, { model: 'm', input: 'hi', previous_response_id: unstored.id });
    expect(await chained.json()).toMatchObject({ error: { code: 'previous_response_not_found' } });
  });

  it('in the background is queued, then completed', async () => {
    const queued = await json(responses, { model: 'm', input: 'hi', background: true });
    expect(queued).toMatchObject({ status: 'queued', output: [], usage: null });
    await expect.poll(async () => (await json(`${responses}/${queued.id}`)).status).toBe('completed');
  });

  it('in the background can be cancelled while it is queued, and others cannot', async () => {
    const queued = await json(responses, { model: 'm', input: 'hi', background: true });
    expect(await (await post(`${responses}/${queued.id}/cancel`, '')).json()).toMatchObject({
      id: queued.id,
      status: 'cancelled',
    });
    expect(await json(`${responses}/${queued.id}`)).toMatchObject({ status: 'cancelled' });
    const done = await json(responses, { model: 'm', input: 'hi' });
    expect((await post(`${responses}/${done.id}/cancel`, '')).status).toBe(400);
  });

  it('can be counted and compacted', async () => {
    const counted = await json(`${responses}/input_tokens`, { model: 'm', input: 'hello there' });
    const answered = await json(responses, { model: 'm', input: 'hello there' });
    expect(counted).toEqual({ object: 'response.input_tokens', input_tokens: answered.usage.input_tokens });
    const compacted = await json(`${responses}/compact`, { model: 'm', input: 'hello there' });
    expect(compacted).toMatchObject({
      object: 'response.compaction',
      output: [{ role: 'user' }, { type: 'compaction' }],
    });
    expect((await post(`${responses}/compact`, { input: 'hi' })).status).toBe(400);
  });
});

describe('a response stream', () => {
  const types = async (body: object) =>
    (await events(responses, { model: 'm', stream: true, ...body })).map((event) => event.event);

  it('has the events of a message in order, and ends in [DONE]', async () => {
    const all = await events(responses, { model: 'm', input: 'Reply with exactly: one two', stream: true });
    expect(all.map((event) => event.event)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
      undefined,
    ]);
    const data = dataOf(all);
    expect(data.map((event) => event.sequence_number)).toEqual(data.map((_, i) => i));
    expect(data.every((event, i) => event.type === all[i]?.event)).toBe(true);
    expect(all.at(-1)?.data).toBe('[DONE]');
  });

  it('keeps the ids of response and items from first to last', async () => {
    const data = dataOf(await events(responses, { model: 'm', input: 'hi', stream: true }));
    const completed = data.at(-1).response;
    expect(new Set(data.flatMap((event) => event.response?.id ?? [])).size).toBe(1);
    expect(new Set(data.flatMap((event) => event.item_id ?? event.item?.id ?? []))).toEqual(
      new Set([completed.output[0].id]),
    );
    expect(await json(`${responses}/${completed.id}`)).toEqual(completed);
  });

  it('has the events of reasoning and function calls', async () => {
    expect(
      new Set(await types({ input: 'Weather in Paris?', tools: [weather], reasoning: { effort: 'low' } })),
    ).toEqual(
      new Set([
        'response.created',
        'response.in_progress',
        'response.output_item.added',
        'response.reasoning_summary_part.added',
        'response.reasoning_summary_text.delta',
        'response.reasoning_summary_text.done',
        'response.reasoning_summary_part.done',
        'response.output_item.done',
        'response.function_call_arguments.delta',
        'response.function_call_arguments.done',
        'response.completed',
        undefined,
      ]),
    );
  });

  it('ends incomplete when the tokens run out', async () => {
    expect(await types({ input: 'hi', max_output_tokens: 1 })).toContain('response.incomplete');
  });

  it('can be replayed, whole or from an event on', async () => {
    const live = dataOf(await events(responses, { model: 'm', input: 'hi', stream: true }));
    const { id } = live.at(-1).response;
    const replay = async (query: string) =>
      dataOf(eventsOf(await (await get(`${responses}/${id}?stream=true${query}`)).text()));
    expect(await replay('')).toEqual(live);
    expect(await replay('&starting_after=4')).toEqual(live.slice(5));
  });
});

it('without native responses the whole of /v1/responses is the 404 of llama.cpp', async () => {
  for (const response of [
    await absent.post(responses, { model: 'm', input: 'hi' }),
    await absent.get(`${responses}/resp_1`),
  ]) {
    expect(response.status).toBe(404);
    expect(await response.json()).toEqual({ error: { code: 404, message: 'File Not Found', type: 'not_found_error' } });
  }
});
