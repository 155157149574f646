/** Tools of the gateway's MCP servers on `POST /v1/responses`, run in the gateway, for models that have none. */
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { functionName } from '../../src/commands/responses/gateway-tools.ts';
import type { Answered } from '../support/answered.ts';
import { both, native, tools as own, translated, withBothKinds } from '../support/both-kinds.ts';
import { newKey } from '../support/managed-keys.ts';
import { openSocket } from '../support/response-socket.ts';
import { startToolServer } from '../support/tool-server.ts';
import { errorOf, eventsUntil, exchangeOf, json, type LoggedEvent } from '../support/with-gateway.ts';

const server = await startToolServer();
const second = await startToolServer();
const twin = await startToolServer();
/** With the label `x` it is the function of another label's tool. */
const taken = functionName('x__b', 'get_weather').replace('x__', '');
twin.list(...['b__get_weather', taken].map((name) => ({ name, inputSchema: { type: 'object' } })));
const servers = [
  { name: 'Weather', slug: 'weather', url: server.url },
  { name: 'Second', slug: 'second', url: second.url },
  { name: 'Twin', slug: 'twin', url: twin.url },
  { name: 'Hidden', slug: 'hidden', url: server.url, user_paths: ['/other'] },
  { name: 'Gone', slug: 'gone', url: 'http://127.0.0.1:9/mcp' },
];
const { gateway, nativeProvider, create, stream, retrieve } = withBothKinds({
  MCP_SERVERS: JSON.stringify(servers),
  RETRY_MAX_RETRIES: '0',
});
beforeEach(() => {
  server.calls.length = 0;
});
afterAll(() => Promise.all([server, second, twin].map((one) => one.close())));

const PATH = '/v1/responses';
const mcp = (more: object = {}) => ({
  type: 'mcp',
  server_label: 'sky',
  server_url: 'gateway://weather',
  require_approval: 'never',
  ...more,
});
const input = 'What is the weather in Paris?';
const request = (model: string, more: object = {}) => ({ model, input, tools: [mcp()], ...more });
const kinds = ({ output }: Answered) => output.map(({ type }: Answered) => type);
const textOf = ({ output }: Answered) => output.at(-1).content[0].text;
const RESULT = 'The result is: sunny in Paris';

/** What the provider behind a model got last. */
const sent = (model: string): Answered => {
  const { requests } = model === native ? nativeProvider : gateway.simulated;
  return JSON.parse(requests.findLast(({ path }) => /responses$|completions$/.test(path))?.body ?? '');
};
/** The exchanges that call the model, and calls of tools, in the order of their first events. */
async function caused(exchange: string): Promise<LoggedEvent[]> {
  const events = await eventsUntil(
    gateway,
    'types=request.received,tool.called,exchange.completed,exchange.failed,usage.recorded',
    ({ stream: of, type }) => of === `exchange-${exchange}` && /exchange\.(completed|failed)/.test(type),
  );
  return events.filter(({ causationId: cause }) => cause === exchange);
}

describe.each(both)('a model that is %s', (_kind, model) => {
  it('calls a tool of the gateway in a stream, and answers with its result', async () => {
    const { events, text } = await stream(request(model));
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_event, at) => at));
    const types = events.map(({ type }) => type).filter((type) => !/delta|content_part|text/.test(type));
    expect(types).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.mcp_list_tools.in_progress',
      'response.mcp_list_tools.completed',
      'response.output_item.done',
      'response.output_item.added',
      'response.mcp_call_arguments.done',
      'response.mcp_call.in_progress',
      'response.mcp_call.completed',
      'response.output_item.done',
      'response.output_item.added',
      'response.output_item.done',
      'response.completed',
    ]);
    const { response } = events.at(-1);
    expect(kinds(response)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
    const [list, call] = response.output;
    expect(list).toMatchObject({ server_label: 'sky', error: null });
    expect(list.tools.map(({ name }: Answered) => name)).toEqual(['get_weather', 'set_alarm']);
    expect(list.tools[0]).toMatchObject({ input_schema: { type: 'object' }, annotations: { readOnlyHint: true } });
    expect(call).toMatchObject({ server_label: 'sky', name: 'get_weather', output: 'sunny in Paris', error: null });
    expect(JSON.parse(call.arguments)).toMatchObject({ city: 'Paris' });
    expect(textOf(response)).toBe(RESULT);
    expect(server.calls).toMatchObject([{ name: 'get_weather', arguments: { city: 'Paris' } }]);
    const deltas = events.filter(({ type }) => type === 'response.mcp_call_arguments.delta');
    expect(deltas.map(({ delta }) => delta).join('')).toBe(call.arguments);
    for (const event of events) {
      if (event.item_id !== undefined) expect(event.item_id).toBe(response.output[event.output_index].id);
    }
    expect(JSON.stringify(sent(model).tools)).toContain('sky__get_weather');
  });

  it('answers in one piece, is stored, and is continued', async () => {
    const first = await create(request(model));
    expect(kinds(first)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
    expect(first).toMatchObject({ status: 'completed', tools: [{ type: 'mcp', server_url: 'gateway://weather' }] });
    expect(await json(await retrieve(first.id))).toEqual(first);
    const second = await create(request(model, { input: 'Reply with exactly: hello', previous_response_id: first.id }));
    // The tools are listed once in a chain.
    expect(kinds(second)).toEqual(['message']);
    expect(second.previous_response_id).toBe(first.id);
    const body = JSON.stringify(sent(model));
    for (const part of ['sunny in Paris', 'sky__get_weather', RESULT]) expect(body).toContain(part);
    expect(body).not.toContain('mcp_call');
    const plain = await create({ model, input: 'Reply with exactly: bye', previous_response_id: second.id });
    expect(textOf(plain)).toBe('bye');
    expect(JSON.stringify(sent(model))).toContain('sunny in Paris');
    expect(server.calls).toHaveLength(1);
  });

  it('waits for an approval, makes the call once, and not without it', async () => {
    const tools = [mcp({ require_approval: undefined })];
    const { events } = await stream(request(model, { tools }));
    const { response: asked } = events.at(-1);
    expect(kinds(asked)).toEqual(['mcp_list_tools', 'mcp_approval_request']);
    expect(server.calls).toHaveLength(0);
    const [, wanted] = asked.output;
    expect(wanted).toMatchObject({ server_label: 'sky', name: 'get_weather' });
    const answer = (approve: boolean) => ({
      ...{ model, tools, previous_response_id: asked.id },
      input: [{ type: 'mcp_approval_response', approval_request_id: wanted.id, approve, reason: 'Not today.' }],
    });
    const approved = await create(answer(true));
    expect(kinds(approved)).toEqual(['mcp_call', 'message']);
    expect(approved.output[0]).toMatchObject({ approval_request_id: wanted.id, output: 'sunny in Paris' });
    expect(textOf(approved)).toBe(RESULT);
    expect(await errorOf(await gateway.post(PATH, answer(true)), 409)).toMatchObject({ code: 'approval_already_used' });
    expect(server.calls).toHaveLength(1);
    const next = await create({ model, tools, input: 'Reply with exactly: ok', previous_response_id: approved.id });
    expect(textOf(next)).toBe('ok');
    expect(server.calls).toHaveLength(1);
  });

  it('never makes a call that was not approved', async () => {
    const tools = [mcp({ require_approval: undefined })];
    const asked = await create(request(model, { tools }));
    const answer = (approve: unknown) => ({
      ...{ model, tools, previous_response_id: asked.id },
      input: [
        {
          ...{ type: 'mcp_approval_response', approval_request_id: asked.output[1].id },
          ...{ approve, reason: 'Not today.' },
        },
      ],
    });
    const malformed = await errorOf(await gateway.post(PATH, answer('true')), 400);
    expect(malformed).toMatchObject({ param: 'input[0].approve' });
    const refused = await create(answer(false));
    expect(textOf(refused)).toBe('The result is: The user did not approve this call. Not today.');
    expect(textOf(await create(answer(false)))).toContain('did not approve');
    const next = { model, tools, input: 'Reply with exactly: ok', previous_response_id: refused.id };
    expect(textOf(await create(next))).toBe('ok');
    const used = { code: 'approval_already_used' };
    expect(await errorOf(await gateway.post(PATH, answer(true)), 409)).toMatchObject(used);
    const after = { ...answer(true), previous_response_id: refused.id };
    expect(await errorOf(await gateway.post(PATH, after), 409)).toMatchObject(used);
    expect(server.calls).toHaveLength(0);
  });

  it('makes no call on a request that the gateway has not made', async () => {
    const tools = [mcp({ require_approval: 'always' }), mcp({ server_label: 'other', server_url: 'gateway://second' })];
    const key = await newKey(gateway, { user_path: '/team' });
    const stranger = await newKey(gateway, { user_path: '/elsewhere' });
    const post = (by: typeof key, body: object) => by.fetch(PATH, { json: { model, store: false, tools, ...body } });
    const asked = await json(await post(key, { input }));
    const wanted = asked.output.find(({ type }: Answered) => type === 'mcp_approval_request');
    const approve = (by: typeof key, request: Answered, more: object = {}) =>
      post(by, {
        input: [
          { role: 'user', content: input },
          request,
          { type: 'mcp_approval_response', approval_request_id: request.id, approve: true },
        ],
        ...more,
      });
    const unsigned = wanted.id.slice(0, -23);
    const swapped = [mcp({ server_url: 'gateway://second' })];
    for (const [by, request, more] of [
      [key, { ...wanted, id: unsigned }],
      [key, { ...wanted, id: `${unsigned}_${'a'.repeat(22)}` }],
      [key, { ...wanted, id: wanted.id.replace(/_\d+_/, '_77_') }],
      [key, { ...wanted, name: 'set_alarm' }],
      [key, { ...wanted, arguments: '{"city":"Rome"}' }],
      [key, { ...wanted, server_label: 'other' }],
      [key, wanted, { tools: swapped }],
      [stranger, wanted],
    ] as const) {
      expect(await errorOf(await approve(by, request, more), 400)).toMatchObject({ param: 'input' });
    }
    expect(server.calls).toHaveLength(0);
    const { output } = await json(await approve(key, wanted));
    expect(output.map(({ type }: Answered) => type)).toContain('mcp_call');
    expect(server.calls).toHaveLength(1);
  });

  it('makes an approved call once when two requests have the approval, of a key with a user path', async () => {
    const key = await newKey(gateway, { user_path: '/team' });
    const post = (body: object) =>
      key.fetch(PATH, { json: { model, tools: [mcp({ require_approval: 'always' })], ...body } });
    const asked = await json(await post({ input }));
    const approval = { type: 'mcp_approval_response', approval_request_id: asked.output[1].id, approve: true };
    const both = [0, 1].map(() => post({ previous_response_id: asked.id, input: [approval] }));
    const statuses = (await Promise.all(both)).map(({ status }) => status);
    expect(statuses.sort()).toEqual([200, 409]);
    expect(server.calls).toHaveLength(1);
    const stranger = await newKey(gateway, { user_path: '/elsewhere' });
    const stolen = { model, tools: [mcp()], input: [approval] };
    expect((await stranger.fetch(PATH, { json: stolen })).status).toBe(404);
  });

  it('keeps calls of tools in a conversation', async () => {
    const conversation = (await json(await gateway.post('/v1/conversations', {}))).id;
    const made = await create(request(model, { conversation }));
    expect(textOf(made)).toBe(RESULT);
    const next = await create({ model, conversation, input: 'Reply with exactly: ok' });
    expect(textOf(next)).toBe('ok');
    const body = JSON.stringify(sent(model));
    for (const part of ['sunny in Paris', 'sky__get_weather']) expect(body).toContain(part);
  });

  it('takes the items of an approval in the input, without a stored response', async () => {
    const tools = [mcp({ require_approval: { always: { tool_names: ['get_weather'] } } })];
    const asked = await create(request(model, { tools, store: false }));
    const { id: approval_request_id } = asked.output[1];
    const turns = [
      { role: 'user', content: input },
      ...asked.output,
      { type: 'mcp_approval_response', approval_request_id, approve: true },
    ];
    const approved = await create({ model, tools, store: false, input: turns });
    expect(kinds(approved)).toEqual(['mcp_call', 'message']);
    const later = [...turns, ...approved.output, { role: 'user', content: 'Reply with exactly: fine' }];
    expect(textOf(await create({ model, tools, store: false, input: later }))).toBe('fine');
    expect(server.calls).toHaveLength(1);
  });

  it('makes its calls beside those of the client, which end the response', async () => {
    const ask = {
      input: 'Call both tools for the weather in Paris',
      tools: [mcp({ allowed_tools: ['get_weather'] }), ...own],
    };
    const made = await create(request(model, ask));
    expect(made.status).toBe('completed');
    expect(kinds(made).sort()).toEqual(['function_call', 'mcp_call', 'mcp_list_tools']);
    const { call_id } = made.output.find(({ type }: Answered) => type === 'function_call');
    const output = { type: 'function_call_output', call_id, output: 'rain' };
    const last = await create(request(model, { ...ask, previous_response_id: made.id, input: [output] }));
    expect(textOf(last)).toContain('rain');
    expect(server.calls).toHaveLength(1);
  });

  it('runs in the background, and over a WebSocket', async () => {
    const queued = await create(request(model, { background: true }));
    expect(queued.status).toBe('queued');
    await (await retrieve(queued.id, '?stream=true')).text();
    const made = await json(await retrieve(queued.id));
    expect(kinds(made)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
    const socket = await openSocket(gateway.url);
    const last = await socket.turn({ ...request(model), store: false });
    expect(last).toMatchObject({ type: 'response.completed' });
    expect(textOf(last.response)).toBe(RESULT);
    const next = { model, store: false, previous_response_id: last.response.id, input: 'Reply with exactly: bye' };
    expect(textOf((await socket.turn(next)).response)).toBe('bye');
    socket.socket.close();
    expect(server.calls).toHaveLength(2);
  });

  it('is called in exchanges of their own, which are charged once', async () => {
    const answer = await gateway.post(PATH, request(model));
    const made = await json(answer);
    const exchange = exchangeOf(answer);
    const events = await caused(exchange);
    const received = events.filter(({ type }) => type === 'request.received');
    expect(received.map(({ data }) => data.origin ?? data.dialect)).toEqual(['tools', 'mcp', 'tools']);
    const usage = await eventsUntil(
      gateway,
      'types=usage.recorded',
      ({ stream: of }) => of === received.at(-1)?.stream,
    );
    const charged = usage.filter(
      ({ stream: of }) => of === `exchange-${exchange}` || received.some((one) => one.stream === of),
    );
    expect(charged).toHaveLength(2);
    const sum = charged.reduce((tokens, { data }) => tokens + data.totalTokens, 0);
    expect(made.usage.total_tokens).toBe(sum);
  });

  it('is not called again for the same idempotency key', async () => {
    const headers = { 'idempotency-key': `once-${model}` };
    const first = await gateway.post(PATH, request(model, { stream: true }), { headers });
    const text = await first.text();
    const second = await gateway.post(PATH, request(model, { stream: true }), { headers });
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect(await second.text()).toBe(text);
    expect(server.calls).toHaveLength(1);
  });
});

describe('tools of the gateway', () => {
  it('fail as items, which the model gets as results', async () => {
    server.answer(() => ({ content: [{ type: 'text', text: 'no such city' }], isError: true }));
    const { events } = await stream(request(translated));
    server.answer();
    expect(events.map(({ type }) => type)).toContain('response.mcp_call.failed');
    const { response } = events.at(-1);
    expect(response.output[1]).toMatchObject({
      type: 'mcp_call',
      status: 'failed',
      error: 'no such city',
      output: null,
    });
    expect(textOf(response)).toBe('The result is: no such city');
  });

  it('of a server that cannot be reached are missing, and its item says why', async () => {
    const tools = [mcp({ server_label: 'gone', server_url: 'gateway://gone' }), mcp()];
    const { events } = await stream(request(translated, { tools }));
    expect(events.map(({ type }) => type)).toContain('response.mcp_list_tools.failed');
    const { response } = events.at(-1);
    expect(response.output[0]).toMatchObject({ type: 'mcp_list_tools', tools: [], error: expect.stringMatching(/./) });
    expect(textOf(response)).toBe(RESULT);
  });

  it('are called at most max_tool_calls times', async () => {
    const made = await create(
      request(translated, { max_tool_calls: 1, input: 'What is the weather in Paris, London and Rome?' }),
    );
    const calls = made.output.filter(({ type }: Answered) => type === 'mcp_call');
    expect(server.calls).toHaveLength(1);
    for (const { error } of calls.slice(1)) expect(error).toContain('at most 1');
    expect(made.status).toBe('completed');
  });

  it('are chosen by name, and that choice holds for the first call', async () => {
    const tool_choice = { type: 'mcp', server_label: 'sky', name: 'set_alarm' };
    const made = await create(request(translated, { tool_choice }));
    expect(made.output[1]).toMatchObject({ type: 'mcp_call', name: 'set_alarm' });
    expect(textOf(made)).toBe(RESULT);
  });

  it('need no approval where a filter says so', async () => {
    const tools = [mcp({ require_approval: { never: { read_only: true } } })];
    expect(kinds(await create(request(translated, { tools })))).toContain('mcp_call');
    const tool_choice = { type: 'mcp', server_label: 'sky', name: 'set_alarm' };
    expect(kinds(await create(request(translated, { tools, tool_choice })))).toContain('mcp_approval_request');
    expect(server.calls).toHaveLength(1);
  });

  it.each([
    ['an unknown server', { server_url: 'gateway://nowhere' }, 404, 'tools[0].server_url'],
    ['a malformed address', { server_url: 'gateway://Not a slug' }, 400, 'tools[0].server_url'],
    ['no label', { server_label: undefined }, 400, 'tools[0].server_label'],
    ['credentials', { headers: { authorization: 'Bearer x' } }, 400, 'tools[0].headers'],
    ['a malformed approval', { require_approval: 'sometimes' }, 400, 'tools[0].require_approval'],
  ])('with %s are refused before the model is called', async (_what, more, status, param) => {
    const before = gateway.simulated.requests.length;
    const answer = await gateway.post(PATH, request(translated, { tools: [mcp(more)] }));
    expect(await errorOf(answer, status)).toMatchObject({ param });
    expect(gateway.simulated.requests).toHaveLength(before);
  });

  it('of servers for other user paths are not found', async () => {
    const key = await newKey(gateway, { user_path: '/team' });
    const tools = [mcp({ server_url: 'gateway://hidden' })];
    const answer = await key.fetch(PATH, { json: request(translated, { tools }) });
    expect(await errorOf(answer, 404)).toMatchObject({ code: 'mcp_server_not_found' });
    const other = await newKey(gateway, { user_path: '/other' });
    expect((await other.fetch(PATH, { json: request(translated, { tools }) })).status).toBe(200);
  });

  it('of other servers need a provider with its own Responses API', async () => {
    const tools = [mcp(), mcp({ server_label: 'web', server_url: 'https://a.test/mcp' })];
    await create(request(translated));
    const error = await errorOf(await gateway.post(PATH, request(translated, { tools })), 400);
    expect(error).toMatchObject({ code: 'unsupported_value', param: 'tools[1].type' });
    expect(error.message).toContain('gateway://');
    expect((await gateway.post(PATH, request(native, { tools }))).status).toBe(200);
    expect(sent(native).tools).toContainEqual(tools[1]);
  });

  it('are called beside tools that the client allows to drop', async () => {
    const tools = [{ type: 'web_search' }, mcp()];
    const headers = { 'x-gateway-unsupported-tools': 'drop' };
    const made = await json(await gateway.post(PATH, request(translated, { tools }), { headers }));
    expect(textOf(made)).toBe(RESULT);
    expect(made.metadata.gateway_unsupported_tools).toContain("'web_search'");
    expect(made.tools).toEqual([mcp()]);
  });

  it('have names that no function of the client has', async () => {
    const tools = [mcp(), { ...own[0], name: 'sky__get_weather' }];
    const error = await errorOf(await gateway.post(PATH, request(translated, { tools })), 400);
    expect(error).toMatchObject({ code: 'invalid_value', param: 'tools' });
  });

  it('have names that differ where label and name together are equal', async () => {
    const tools = (...allowed_tools: readonly string[]) => [
      mcp({ server_label: 'x', server_url: 'gateway://twin', allowed_tools }),
      mcp({ server_label: 'x__b', server_url: 'gateway://second', allowed_tools: ['get_weather'] }),
    ];
    await create(request(translated, { tools: tools('b__get_weather') }));
    const functions: string[] = sent(translated).tools.map((tool: Answered) => tool.function.name);
    expect(functions).toEqual(['x__b__get_weather', functionName('x__b', 'get_weather')]);
    expect(functions[1]).toMatch(/^x__b__get_weather_[0-9a-f]{8}$/);
    const error = await errorOf(await gateway.post(PATH, request(translated, { tools: tools(taken) })), 400);
    expect(error).toMatchObject({ param: 'tools', message: expect.stringContaining("of 'x__b'") });
  });

  it.each([
    ['custom tool', { type: 'custom', name: 'sky__get_weather' }],
    ['namespace', { type: 'namespace', name: 'sky', description: 'The sky', tools: [{ ...own[0] }] }],
  ])('have names that no %s of the client has', async (_what, tool) => {
    const answer = await gateway.post(PATH, request(translated, { tools: [mcp(), tool] }));
    expect(await errorOf(answer, 400)).toMatchObject({ param: 'tools' });
  });

  it('are not limited to fewer than no calls', async () => {
    const answer = await gateway.post(PATH, request(translated, { max_tool_calls: -1 }));
    expect(await errorOf(answer, 400)).toMatchObject({ param: 'max_tool_calls' });
  });

  it('are called with the limits of the key, which count each call of the model', async () => {
    const { value } = await newKey(gateway, { user_path: '/limited' });
    const limit = { user_path: '/limited', limit_key: { period: 'hour' }, max_requests: 2 };
    const saved = await gateway.fetch('/admin/rate-limits', { method: 'PUT', json: limit });
    expect(saved.status, await saved.text()).toBeLessThan(300);
    const headers = { authorization: `Bearer ${value}` };
    const answer = await gateway.post(PATH, request(translated, { stream: true }), { headers });
    const text = await answer.text();
    expect(text).toContain('response.failed');
    expect(text).toContain('rate_limit');
    expect(text).toContain('sunny in Paris');
  });

  // The provider's pause holds afterwards.
  it('are not called when the model cannot be: its error is the answer', async () => {
    gateway.simulated.control.next({ status: 429, retryAfter: 7 }, { path: '/v1/chat/completions' });
    const answer = await gateway.post(PATH, request(translated, { stream: true }));
    expect(answer.headers.get('retry-after')).toBe('7');
    await errorOf(answer, 429);
    expect(server.calls).toHaveLength(0);
  });
});
