import { afterAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider, type SimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { checkResponse, checkStream, requiredMembers } from '../translate/openai-shape.ts';
import {
  dataOf,
  errorOf,
  eventsOf,
  eventsOfExchange,
  exchangeOf,
  json,
  type LoggedEvent,
  weather,
  withGateway,
} from '../support/with-gateway.ts';

let native: SimulatedProvider;
const gateway = withGateway(async () => {
  native = createSimulatedProvider({ apiKey: 'sk-native' });
  const url = await native.listen();
  return {
    simulated: { responses: 'absent' },
    register: (own) => ({ LLAMACPP_BASE_URL: own, OPENAI_BASE_URL: url, OPENAI_API_KEY: 'sk-native' }),
  };
});
afterAll(() => native.close());

const PATH = '/v1/responses';
const translated = 'llamacpp/simulated-small';
const nativeModel = 'openai/simulated-small';
const both = [
  ['translated', translated],
  ['native', nativeModel],
] as const;
const tools = [{ type: 'function', strict: true, ...weather }];

async function create(body: object) {
  const answer = await gateway.post(PATH, { model: translated, ...body });
  expect(answer.status, await answer.clone().text()).toBe(200);
  return json(answer);
}

async function stream(body: object) {
  const answer = await gateway.post(PATH, { model: translated, stream: true, ...body });
  expect(answer.status).toBe(200);
  const text = await answer.text();
  return { text, events: dataOf(text), exchange: exchangeOf(answer) };
}

const retrieve = (id: string, query = '') => gateway.fetch(`${PATH}/${id}${query}`);
const lastChat = () => JSON.parse(gateway.lastAsked().body);
const types = (events: readonly LoggedEvent[]) => events.map(({ type }) => type);

describe('a provider without /v1/responses', () => {
  it('is asked for it once, and spoken to in chat completions from then on', async () => {
    const other = createSimulatedProvider({ responses: 'absent' });
    const url = await other.listen();
    const { startTestGateway } = await import('../support/gateway.ts');
    const own = await startTestGateway({ simulated: false, env: { LLAMACPP_BASE_URL: url } });
    try {
      const answers = [];
      for (let turn = 0; turn < 3; turn++) {
        answers.push(await own.fetch(PATH, { json: { model: 'llamacpp/simulated-small', input: 'hi' } }));
      }
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
      const posts = other.requests.filter(({ method }) => method === 'POST').map(({ path }) => path);
      expect(posts).toEqual([
        '/v1/responses',
        '/v1/chat/completions',
        '/v1/chat/completions',
        '/v1/chat/completions',
      ]);
      const events = await eventsOfExchange(own, exchangeOf(answers[0] as Response));
      expect(events.filter(({ type }) => type.startsWith('attempt.')).map(({ type, data }) => [type, data.kind, data.dialect])).toEqual([
        ['attempt.started', 'primary', 'responses'],
        ['attempt.failed', undefined, undefined],
        ['attempt.started', 'translation', 'chat'],
      ]);
    } finally {
      await own.close();
      await other.close();
    }
  });
});

describe.each(both)('a %s response', (kind, model) => {
  it('has all 31 members that clients look for, and usage in both vocabularies', async () => {
    const response = await create({ model, input: 'Reply with exactly: hello', metadata: { order: '66' } });
    expect(Object.keys(response)).toEqual(expect.arrayContaining(requiredMembers));
    expect(response).toMatchObject({ object: 'response', status: 'completed', error: null, metadata: { order: '66' } });
    expect(response.output).toMatchObject([
      { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'hello', annotations: [] }] },
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
    expect(response).toMatchObject({ model, provider: 'llamacpp' });
    expect(response.usage).toMatchObject({
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    });
  });

  it('is found at once, as it was', async () => {
    for (let turn = 0; turn < 5; turn++) {
      const response = await create({ model, input: `Tell me of ${turn}.` });
      const found = await retrieve(response.id);
      expect(found.status).toBe(200);
      expect(await json(found)).toEqual(response);
    }
  });

  it('is found at once after its stream, as its terminal event told it', async () => {
    const { events } = await stream({ model, input: 'Tell me of streams.' });
    const last = events.at(-1);
    expect(last.type).toBe('response.completed');
    expect(await json(await retrieve(last.response.id))).toEqual(last.response);
  });

  it('in a stream tells every step in order, with the same ids throughout', async () => {
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

  it('says the same in a stream as in one piece', async () => {
    const asked = { model, input: 'Think, and tell me something.', instructions: 'Be brief.' };
    const whole = await create(asked);
    const { events } = await stream(asked);
    const said = (response: { output: { type: string; content?: { text: string }[]; summary?: { text: string }[] }[] }) =>
      response.output.map((item) => [item.type, (item.content ?? item.summary)?.map(({ text }) => text)]);
    expect(said(events.at(-1).response)).toEqual(said(whole));
    expect(said(whole).map(([type]) => type)).toEqual(['reasoning', 'message']);
    expect(events.at(-1).response.usage).toEqual(whole.usage);
  });

  it('calls functions, also several at once, and takes their results', async () => {
    const asked = { model, input: 'What is the weather in Paris and Rome?', tools };
    const response = await create(asked);
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
    const input = [{ role: 'user', content: asked.input }, ...response.output, ...results];
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
      const deltas = events.filter(({ type, output_index }) => type.endsWith('arguments.delta') && output_index === index);
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
    const second = { type: 'function', name: 'other_thing', parameters: { type: 'object', properties: {} }, strict: false };
    const chosen = await create({ model, input, tools: [...tools, second], tool_choice: { type: 'function', name: 'other_thing' } });
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

  it('that runs out of tokens is incomplete, says why, and is kept so', async () => {
    const response = await create({ model, input: 'Write 50 words about rain.', max_output_tokens: 5 });
    expect(response).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
    expect((await json(await retrieve(response.id))).status).toBe('incomplete');
    const { events } = await stream({ model, input: 'Write 50 words about rain.', max_output_tokens: 5 });
    expect(events.at(-1)).toMatchObject({ type: 'response.incomplete', response: { status: 'incomplete' } });
    expect((await json(await retrieve(events.at(-1).response.id))).status).toBe('incomplete');
  });

  it('remembers what was said before, over whole and streamed turns', async () => {
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

  it('lists its input in the form of items, newest first, a page at a time', async () => {
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

  it('lists no more than asked for, twenty when nothing is, a hundred at most', async () => {
    const input = Array.from({ length: 130 }, (_, index) => ({ role: 'user', content: `number ${index}` }));
    const { id } = await create({ model, input });
    const count = async (query: string) => (await json(await retrieve(id, `/input_items${query}`))).data.length;
    expect(await count('')).toBe(20);
    expect(await count('?limit=100')).toBe(100);
    expect(await count('?limit=1000')).toBe(100);
    expect(await count('?limit=0')).toBe(20);
  });

  it('is gone once it was deleted', async () => {
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

  it('with store: false is kept nowhere', async () => {
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
    const before = gateway.simulated.requests.length + native.requests.length;
    for (const more of [{}, { stream: true }]) {
      expect(await errorOf(await gateway.post(PATH, { model, ...body, ...more }), 400)).toEqual({
        code: 'missing_required_parameter',
        message: "Missing required parameter: 'input'.",
        param: 'input',
        type: 'invalid_request_error',
      });
    }
    expect(gateway.simulated.requests.length + native.requests.length).toBe(before);
  });

  it('takes every optional member as null or empty', async () => {
    const nothing = Object.fromEntries(
      'include truncation previous_response_id metadata tools tool_choice temperature top_p max_output_tokens conversation store background stream stream_options parallel_tool_calls service_tier prompt safety_identifier top_logprobs prompt_cache_key'
        .split(' ')
        .map((name) => [name, null]),
    );
    const response = await create({ model, input: 'hi', ...nothing, reasoning: {}, text: {}, instructions: '', user: '' });
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

describe('a translated response', () => {
  it('reaches the provider as chat messages', async () => {
    await create({
      instructions: 'Be brief.',
      input: [
        { role: 'developer', content: 'Speak English.' },
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'What is this?' },
            { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'low' },
          ],
        },
      ],
      max_output_tokens: 50,
      temperature: 0.5,
      x_unknown: { keep: true },
    });
    const { path, body } = gateway.lastAsked();
    expect(path).toBe('/v1/chat/completions');
    expect(JSON.parse(body)).toMatchObject({
      model: 'simulated-small',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'system', content: 'Speak English.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is this?' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } },
          ],
        },
      ],
      max_tokens: 50,
      temperature: 0.5,
      x_unknown: { keep: true },
    });
  });

  it('puts the whole chain in front of the new input, without the instructions of earlier turns', async () => {
    const first = await create({ input: 'Reply with exactly: one', instructions: 'Be the first.' });
    const second = await create({ input: 'Reply with exactly: two', previous_response_id: first.id });
    const answer = await gateway.post(PATH, {
      model: translated,
      input: [{ role: 'user', content: 'Reply with exactly: three' }],
      instructions: 'Be the third.',
      previous_response_id: second.id,
    });
    expect(answer.status).toBe(200);
    const text = (content: unknown) =>
      Array.isArray(content) ? content.map((part: { text: string }) => part.text).join('') : content;
    const { messages } = lastChat();
    expect(messages.map(({ role, content }: { role: string; content: unknown }) => [role, text(content)])).toEqual([
      ['system', 'Be the third.'],
      ['user', 'Reply with exactly: one'],
      ['assistant', 'one'],
      ['user', 'Reply with exactly: two'],
      ['assistant', 'two'],
      ['user', 'Reply with exactly: three'],
    ]);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.find(({ type }) => type === 'history.replayed')?.data).toMatchObject({
      responses: [first.id, second.id],
    });
    expect((await json(await retrieve((await json(answer)).id, '/input_items'))).data).toHaveLength(1);
  });

  it.each([['resp_0000000000000000000000000000000a'], ['nonsense'], ['../../etc/passwd']])(
    'cannot follow the unknown response %s',
    async (previous_response_id) => {
      for (const more of [{}, { stream: true }]) {
        const answer = await gateway.post(PATH, { model: translated, input: 'hi', previous_response_id, ...more });
        expect(await errorOf(answer, 404)).toMatchObject({
          type: 'not_found_error',
          code: 'previous_response_not_found',
          param: 'previous_response_id',
        });
      }
    },
  );

  it('cannot follow a response that was not stored, or was deleted', async () => {
    const unstored = await create({ input: 'hi', store: false });
    const deleted = await create({ input: 'hi' });
    await gateway.fetch(`${PATH}/${deleted.id}`, { method: 'DELETE' });
    for (const { id } of [unstored, deleted]) {
      const answer = await gateway.post(PATH, { model: translated, input: 'hi', previous_response_id: id });
      expect(await errorOf(answer, 404)).toMatchObject({ code: 'previous_response_not_found' });
    }
  });

  it('can follow one of a provider that keeps its own, and the other way round', async () => {
    const elsewhere = await create({ model: nativeModel, input: 'My name is Ada.' });
    const here = await create({ input: 'What is my name?', previous_response_id: elsewhere.id });
    expect(here.output[0].content[0].text).toBe('Your name is Ada.');
    const back = await create({ model: nativeModel, input: 'What is my name?', previous_response_id: here.id });
    expect(back.output[0].content[0].text).toBe('Your name is Ada.');
  });

  it('refuses what only a provider with its own Responses API can do', async () => {
    for (const [param, value] of [
      ['background', true],
      ['truncation', 'auto'],
      ['context_management', [{ type: 'compaction' }]],
    ] as const) {
      const answer = await gateway.post(PATH, { model: translated, input: 'hi', [param]: value });
      expect(await errorOf(answer, 400)).toMatchObject({ type: 'invalid_request_error', param });
    }
    const prompt = await gateway.post(PATH, { model: translated, prompt: { id: 'pmpt_1' } });
    expect(await errorOf(prompt, 400)).toMatchObject({ type: 'invalid_request_error', param: 'prompt' });
  });

  it('leaves the tools out that no chat provider can run', async () => {
    const hosted = [{ type: 'web_search' }, { type: 'namespace', name: 'ns', tools: [] }];
    const response = await create({ input: 'What is the weather in Paris?', tools: [...hosted, ...tools] });
    expect(response.output[0]).toMatchObject({ type: 'function_call', name: 'get_weather' });
    expect(response.tools).toHaveLength(3);
    expect(lastChat().tools).toHaveLength(1);
  });

  it('whose stream the provider cuts off ends as incomplete, and is kept so', async () => {
    gateway.simulated.control.next({ cutAfterChunks: 5 });
    const { text, events, exchange } = await stream({ input: 'Tell me something.' });
    checkStream(events);
    const last = events.at(-1);
    expect(last).toMatchObject({
      type: 'response.incomplete',
      response: { status: 'incomplete', incomplete_details: { reason: 'interrupted' } },
    });
    expect(last.response.output[0].content[0].text.length).toBeGreaterThan(0);
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
    expect(await json(await retrieve(last.response.id))).toEqual(last.response);
    const logged = await eventsOfExchange(gateway, exchange);
    expect(logged.find(({ type }) => type === 'exchange.failed')?.data).toMatchObject({
      status: 200,
      reason: 'stream_broken',
      responseId: last.response.id,
    });
    expect(types(logged).at(-1)).toBe('usage.recorded');
  });

  it.each([
    ['before its finish reason', { endWithoutFinish: true, endWithoutDone: true }],
  ])('whose stream the provider ends %s is incomplete', async (_what, fault) => {
    gateway.simulated.control.next(fault);
    const { events } = await stream({ input: 'Tell me something.' });
    expect(checkStream(events).incomplete_details).toEqual({ reason: 'interrupted' });
  });

  it('whose provider only forgets its end marker is complete', async () => {
    gateway.simulated.control.next({ endWithoutDone: true });
    const { text, events } = await stream({ input: 'Tell me something.' });
    expect(checkStream(events).status).toBe('completed');
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
  });

  it('whose provider reports an error in mid-stream fails, in words for every client, and is kept so', async () => {
    gateway.simulated.control.next({ errorInStream: 4, message: 'out of memory', code: 'oom' });
    const { text, events } = await stream({ input: 'Tell me something.' });
    const final = checkStream(events);
    const [error, failed] = events.slice(-2);
    expect(error).toMatchObject({
      type: 'error',
      code: 'oom',
      message: 'out of memory',
      param: null,
      error: { type: 'provider_error', code: 'oom', message: 'out of memory', param: null, provider: 'llamacpp' },
    });
    expect(failed).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'oom', message: 'out of memory' } },
    });
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
    expect(await json(await retrieve(final.id))).toEqual(final);
  });

  it('survives odd but lawful streams of its provider', async () => {
    for (const fault of [{ splitEvery: 3 }, { coalesce: true }, { crlf: true, comments: true }, { garbage: true }]) {
      gateway.simulated.control.next({ ...fault, words: 5 });
      const { events } = await stream({ input: 'Tell me something.' });
      expect(checkStream(events).status).toBe('completed');
    }
  });

  it('that its client leaves is kept as far as it came', async () => {
    gateway.simulated.control.next({ holdAfterChunks: 5 });
    const client = new AbortController();
    const body = { model: translated, input: 'Tell me something.', stream: true };
    const answer = await gateway.post(PATH, body, { signal: client.signal });
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    let text = '';
    while (!text.includes('output_text.delta')) text += Buffer.from((await reader.read()).value ?? []).toString();
    const asked = gateway.lastAsked();
    client.abort();
    expect(await asked.ended).toBe('aborted');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(types(events).slice(-2)).toEqual(['client.disconnected', 'usage.recorded']);
    const { id } = dataOf(`${text}\n\n`)[0].response;
    expect(await json(await retrieve(id))).toMatchObject({ id, status: 'incomplete' });
  });

  it('asks for reasoning in the words of the provider, and gives it as a summary', async () => {
    const { events } = await stream({ input: 'Tell me something.', reasoning: { effort: 'low' } });
    const final = checkStream(events);
    expect(final.output.map(({ type }) => type)).toEqual(['reasoning', 'message']);
    expect(final.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);
    expect(final.usage?.completion_tokens_details.reasoning_tokens).toBe(
      final.usage?.output_tokens_details.reasoning_tokens,
    );
    expect(final.reasoning).toMatchObject({ effort: 'low' });
  });

  it('refuses a reference to an item that nobody knows', async () => {
    const answer = await gateway.post(PATH, { model: translated, input: [{ type: 'item_reference', id: 'msg_nobody' }] });
    expect(await errorOf(answer, 404)).toMatchObject({ type: 'not_found_error', param: 'input[0].id' });
  });

  it('is looked up by id wherever it is asked for', async () => {
    const { id } = await create({ input: 'hi' });
    expect((await retrieve(id, '?provider=openai')).status).toBe(200);
    expect((await retrieve(id, '?include[]=reasoning.encrypted_content&include=x')).status).toBe(200);
    for (const [query, param] of [
      ['?starting_after=x', 'starting_after'],
      ['?include_obfuscation=maybe', 'include_obfuscation'],
      ['?stream=maybe', 'stream'],
    ] as const) {
      expect(await errorOf(await retrieve(id, query), 400)).toMatchObject({ param });
    }
  });

  it('that is not stored cannot be asked for at a provider that keeps none', async () => {
    const answer = await retrieve('resp_unknown', '?provider=llamacpp');
    expect(answer.headers.get('x-should-retry')).toBe('false');
    expect(await errorOf(answer, 501)).toMatchObject({
      type: 'invalid_request_error',
      code: 'unsupported_response_operation',
      param: null,
    });
    expect(await errorOf(await retrieve('resp_unknown', '?provider=nobody'), 400)).toMatchObject({ param: 'provider' });
    expect(await errorOf(await retrieve('resp_unknown'), 404)).toMatchObject({ type: 'not_found_error', code: null });
  });
});

describe('a native response', () => {
  it("is the very bytes the provider sent, and so is the client's request but for the model", async () => {
    const body = `{ "x":9007199254740993123, "model":"${nativeModel}","input":"hi" , "metadata":{"b":"1","a":"2"}}`;
    const answer = await gateway.post(PATH, body);
    const asked = native.requests.at(-1);
    expect(asked?.path).toBe('/v1/responses');
    expect(asked?.body).toBe(body.replace(nativeModel, 'simulated-small'));
    expect(asked?.headers.authorization).toBe('Bearer sk-native');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(await answer.text()).toBe(events.find(({ type }) => type === 'chunk.received')?.body);
  });

  it('is streamed as it came', async () => {
    const { text, exchange } = await stream({ model: nativeModel, input: 'Tell me something.' });
    const events = await eventsOfExchange(gateway, exchange);
    expect(text).toBe(
      events
        .filter(({ type }) => type === 'chunk.received')
        .map(({ body }) => body)
        .join(''),
    );
  });

  it('leaves it to the provider to follow its own responses', async () => {
    const first = await create({ model: nativeModel, input: 'hi' });
    await create({ model: nativeModel, input: 'and?', previous_response_id: first.id });
    expect(JSON.parse(native.requests.at(-1)?.body ?? '')).toMatchObject({ input: 'and?', previous_response_id: first.id });
    const unknown = await gateway.post(PATH, { model: nativeModel, input: 'hi', previous_response_id: 'resp_nobody' });
    expect(await errorOf(unknown, 400)).toMatchObject({
      code: 'previous_response_not_found',
      param: 'previous_response_id',
      provider: 'openai',
    });
  });

  it('that this gateway never saw is found at the provider', async () => {
    const url = `http://${native.requests.at(-1)?.headers.host}/v1/responses`;
    const headers = { authorization: 'Bearer sk-native', 'content-type': 'application/json' };
    const made = await fetch(url, { method: 'POST', headers, body: '{"model":"simulated-small","input":"hi"}' });
    const { id } = await json(made);
    for (const query of ['', '?provider=openai']) {
      const found = await retrieve(id, query);
      expect(found.status).toBe(200);
      expect((await json(found)).id).toBe(id);
      expect((await json(await retrieve(id, `/input_items${query}`))).data).toHaveLength(1);
    }
    const deleted = await gateway.fetch(`${PATH}/${id}?provider=openai`, { method: 'DELETE' });
    expect(await json(deleted)).toMatchObject({ id, deleted: true });
    expect(await errorOf(await retrieve(id), 404)).toMatchObject({ type: 'not_found_error' });
  });

  it('is deleted at the provider too', async () => {
    const { id } = await create({ model: nativeModel, input: 'hi' });
    await gateway.fetch(`${PATH}/${id}`, { method: 'DELETE' });
    expect(native.requests.at(-1)).toMatchObject({ method: 'DELETE', path: `/v1/responses/${id}` });
    expect((await retrieve(id, '?provider=openai')).status).toBe(404);
  });

  it('in the background is queued at first, and told as it is now each time it is asked for', async () => {
    const queued = await create({ model: nativeModel, input: 'Reply with exactly: done', background: true });
    expect(queued.status).toBe('queued');
    await expect
      .poll(async () => (await json(await retrieve(queued.id))).status, { timeout: 2000, interval: 20 })
      .toBe('completed');
    const calls = native.requests.length;
    expect((await json(await retrieve(queued.id))).output[0].content[0].text).toBe('done');
    expect(native.requests).toHaveLength(calls);
  });

  it('in the background stays what it was when the provider cannot be asked', async () => {
    const queued = await create({ model: nativeModel, input: 'hi', background: true });
    native.control.next({ status: 500 }, { path: `/v1/responses/${queued.id}` });
    expect(await json(await retrieve(queued.id))).toEqual(queued);
  });

  it('whose stream the provider cuts off ends as incomplete, and is kept so', async () => {
    native.control.next({ cutAfterChunks: 7 });
    const { text, events } = await stream({ model: nativeModel, input: 'Tell me something.' });
    const last = events.at(-1);
    expect(last).toMatchObject({
      type: 'response.incomplete',
      response: { status: 'incomplete', incomplete_details: { reason: 'interrupted' }, id: events[0].response.id },
    });
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
    expect(await json(await retrieve(last.response.id))).toEqual(last.response);
  });

  it('whose provider reports an error in mid-stream fails for every client, and is kept so', async () => {
    native.control.next({ errorInStream: 5, message: 'out of memory', code: 'oom' });
    const { events } = await stream({ model: nativeModel, input: 'Tell me something.' });
    const [error, failed] = events.slice(-2);
    expect(error).toMatchObject({ type: 'error', code: 'oom', message: 'out of memory' });
    expect(failed).toMatchObject({ type: 'response.failed', response: { status: 'failed', error: { code: 'oom' } } });
    expect(events.filter(({ type }) => type === 'error')).toHaveLength(1);
    expect((await json(await retrieve(failed.response.id))).status).toBe('failed');
  });
});
