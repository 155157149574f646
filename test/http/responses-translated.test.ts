import { describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { native, tools, translated, withBothKinds } from '../support/both-kinds.ts';
import { startTestGateway } from '../support/gateway.ts';
import { saved } from '../support/several-providers.ts';
import {
  dataOf,
  errorOf,
  eventsOf,
  eventsOfExchange,
  exchangeOf,
  json,
  type LoggedEvent,
} from '../support/with-gateway.ts';
import { checkStream } from '../translate/openai-shape.ts';

const { gateway, nativeProvider, create, stream, retrieve } = withBothKinds();
const PATH = '/v1/responses';
const lastChat = () => JSON.parse(gateway.lastProviderRequest().body);
const types = (events: readonly LoggedEvent[]) => events.map(({ type }) => type);

describe('a provider without /v1/responses', () => {
  it('is probed once, and receives chat completions from then on', async () => {
    const other = createSimulatedProvider({ responses: 'absent' });
    const url = await other.listen();
    const own = await startTestGateway({ simulated: false, env: { LLAMACPP_BASE_URL: url } });
    try {
      const answers = [];
      for (let turn = 0; turn < 3; turn++) {
        answers.push(await own.fetch(PATH, { json: { model: 'llamacpp/simulated-small', input: 'hi' } }));
      }
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
      const posts = other.requests.filter(({ method }) => method === 'POST').map(({ path }) => path);
      expect(posts).toEqual(['/v1/responses', '/v1/chat/completions', '/v1/chat/completions', '/v1/chat/completions']);
      const events = await eventsOfExchange(own, exchangeOf(answers[0] as Response));
      expect(
        events
          .filter(({ type }) => type.startsWith('attempt.'))
          .map(({ type, data }) => [type, data.kind, data.dialect]),
      ).toEqual([
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

describe('a tool that only a native Responses API has', () => {
  const input = 'What is the weather in Paris?';
  const mixed = [tools[0], { type: 'web_search' }, { type: 'mcp', server_label: 'a', server_url: 'https://a.test' }];
  const dropping = { headers: { 'x-gateway-unsupported-tools': 'drop' } };
  const warning = {
    topic: 'weather',
    gateway_unsupported_tools: "Not sent to the model: 'web_search', 'mcp'. Its provider has no such tools.",
  };
  const posted = () => gateway.simulated.requests.filter(({ path }) => path === '/v1/chat/completions').length;

  it.each([
    ['', {}],
    [' of a stream', { stream: true }],
    [' of a background response', { background: true }],
    [' with the choice auto', { tool_choice: 'auto' }],
    [' with the choice none', { tool_choice: 'none' }],
  ])('is refused, and no provider is called%s', async (_what, more) => {
    const before = posted();
    const answer = await gateway.post(PATH, { model: translated, input, tools: mixed, ...more });
    const error = await errorOf(answer, 400);
    expect(error).toMatchObject({
      type: 'invalid_request_error',
      code: 'unsupported_value',
      param: 'tools[1].type',
      message: expect.stringContaining("'web_search'"),
    });
    expect(error.message).toContain("'function', 'custom', 'namespace'");
    expect(error.message).toContain('x-gateway-unsupported-tools: drop');
    expect(posted()).toBe(before);
  });

  it('is not sent where the client allows it, and the response says so, also when it is fetched', async () => {
    const body = { model: translated, input, tools: mixed, metadata: { topic: 'weather' } };
    const answer = await gateway.post(PATH, body, dropping);
    expect(answer.status).toBe(200);
    const response = await json(answer);
    expect(lastChat().tools).toHaveLength(1);
    expect(response.output[0]).toMatchObject({ type: 'function_call', name: 'get_weather' });
    expect(response.metadata).toEqual(warning);
    expect(response.tools).toMatchObject([{ type: 'function', name: 'get_weather' }]);
    expect(await json(await retrieve(response.id))).toEqual(response);
  });

  it('is not sent with a stream either; its record gives the same bytes again', async () => {
    const body = { model: translated, input, tools: mixed, metadata: { topic: 'weather' }, stream: true };
    const answer = await gateway.post(PATH, body, dropping);
    const text = await answer.text();
    const events = dataOf(text);
    expect(events[0].response).toMatchObject({ metadata: warning, tools: [{ name: 'get_weather' }] });
    expect(events.at(-1).response).toMatchObject({ metadata: warning, tools: [{ name: 'get_weather' }] });
    expect(await (await retrieve(events[0].response.id, '?stream=true')).text()).toBe(text);
  });

  it('is not sent with a background response, which has the warning from its first snapshot on', async () => {
    const body = { model: translated, input, tools: mixed, metadata: { topic: 'weather' }, background: true };
    const queued = await json(await gateway.post(PATH, body, dropping));
    expect(queued).toMatchObject({ status: 'queued', metadata: warning, tools: [{ name: 'get_weather' }] });
    const ended = dataOf(await (await retrieve(queued.id, '?stream=true')).text()).at(-1).response;
    expect(ended).toMatchObject({ status: 'completed', metadata: warning, tools: [{ name: 'get_weather' }] });
  });

  it('is refused without the header when an equal request with it was answered from the response cache', async () => {
    const own = await startTestGateway({
      simulated: { responses: 'absent' },
      env: { RESPONSE_CACHE_ENABLED: 'true' },
    });
    try {
      const body = { model: translated, input: 'Reply with exactly: hello', tools: mixed.slice(1) };
      const post = (headers: Record<string, string>) => own.fetch(PATH, { json: body, headers });
      await (await own.fetch(PATH, { json: { model: translated, input: 'hi' } })).text();
      await (await post(dropping.headers)).text();
      const again = await post(dropping.headers);
      expect(again.headers.get('x-cache')).toBe('HIT (exact)');
      expect((await json(again)).metadata).toHaveProperty('gateway_unsupported_tools');
      expect(await errorOf(await post({}), 400)).toMatchObject({ param: 'tools[0].type' });
    } finally {
      await own.close();
    }
  });

  it('is still refused when tool_choice demands it', async () => {
    const body = { model: translated, input, tools: mixed, tool_choice: { type: 'web_search' } };
    expect(await errorOf(await gateway.post(PATH, body, dropping), 400)).toMatchObject({ param: 'tool_choice' });
  });

  it('reaches a provider with a native Responses API, with the header too', async () => {
    const body = { model: native, input: 'hi', tools: mixed };
    const response = await json(await gateway.post(PATH, body, dropping));
    expect(response.metadata).toEqual({});
    const sent = nativeProvider.requests.findLast(({ path }) => path === PATH);
    expect(JSON.parse(sent?.body ?? '').tools).toEqual(mixed);
  });

  it('is not sent when the next target of a virtual model has none, or that target is refused', async () => {
    await saved(gateway, {
      source: 'searching',
      targets: [{ model: native }, { model: translated }],
      strategy: 'failover',
    });
    const body = { model: 'searching', input, tools: mixed };
    nativeProvider.control.next({ status: 500 });
    const dropped = await json(await gateway.post(PATH, body, dropping));
    expect(dropped).toMatchObject({
      provider: 'llamacpp',
      metadata: { gateway_unsupported_tools: expect.any(String) },
    });
    const before = posted();
    nativeProvider.control.next({ status: 500 });
    expect(await errorOf(await gateway.post(PATH, body), 500)).toMatchObject({ provider: 'openai' });
    expect(posted()).toBe(before);
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
    const { path, body } = gateway.lastProviderRequest();
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

  it('keeps numbers beyond the precision of JavaScript', async () => {
    const schema = '{"type":"object","properties":{"id":{"type":"integer","maximum":9223372036854775807}}}';
    const body =
      `{"model":"${translated}","input":"hi","seed":9007199254740993,` +
      `"tools":[{"type":"function","name":"f","parameters":${schema}}]}`;
    expect((await gateway.post(PATH, body)).status).toBe(200);
    expect(gateway.lastProviderRequest().body).toContain('"seed":9007199254740993');
    expect(gateway.lastProviderRequest().body).toContain('"maximum":9223372036854775807');
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

  it('cannot follow a response that was not stored or was deleted', async () => {
    const unstored = await create({ input: 'hi', store: false });
    const deleted = await create({ input: 'hi' });
    const continued = await create({ input: 'on', previous_response_id: deleted.id });
    await gateway.fetch(`${PATH}/${deleted.id}`, { method: 'DELETE' });
    for (const { id } of [unstored, deleted, continued]) {
      const answer = await gateway.post(PATH, { model: translated, input: 'hi', previous_response_id: id });
      expect(await errorOf(answer, 404)).toMatchObject({ code: 'previous_response_not_found' });
    }
  });

  it('can follow one of a native provider, and the other way round', async () => {
    const elsewhere = await create({ model: native, input: 'My name is Ada.' });
    const here = await create({ input: 'What is my name?', previous_response_id: elsewhere.id });
    expect(here.output[0].content[0].text).toBe('Your name is Ada.');
    const back = await create({ model: native, input: 'What is my name?', previous_response_id: here.id });
    expect(back.output[0].content[0].text).toBe('Your name is Ada.');
  });

  it('carries its reasoning there and back for a client that keeps the conversation itself', async () => {
    const requestBody = { type: 'message', role: 'user', content: 'Tell me something.' };
    const include = ['reasoning.encrypted_content'];
    const request = { store: false, include, reasoning: { effort: 'low' } };
    const first = await create({ ...request, input: [requestBody] });
    const [reasoning, message] = first.output;
    expect(reasoning.encrypted_content).toEqual(expect.any(String));
    const kept = [{ type: 'reasoning', summary: [], encrypted_content: reasoning.encrypted_content }, message];
    const next = { role: 'user', content: 'And now?' };
    await create({ ...request, input: [requestBody, ...kept, next] });
    expect(lastChat().messages[1]).toMatchObject({
      role: 'assistant',
      content: message.content[0].text,
      reasoning_content: reasoning.summary[0].text,
    });
    await create({ ...request, model: native, input: [requestBody, ...kept, next] });
    const sent = nativeProvider.requests.findLast(({ path }) => path === PATH);
    expect(JSON.parse(sent?.body ?? '').input).toMatchObject([requestBody, { type: 'message' }, next]);
  });

  it('accepts all that a coding agent sends with its turns, namespaced tools included, hosted ones with the header', async () => {
    const request = {
      instructions: null,
      tools: [
        ...tools,
        { type: 'namespace', name: 'agents', description: 'Agents', tools: [{ type: 'function', name: 'spawn' }] },
        { type: 'custom', name: 'apply_patch', format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' } },
        { type: 'web_search', external_web_access: false },
        { type: 'local_shell' },
      ],
      tool_choice: 'auto',
      parallel_tool_calls: true,
      reasoning: { effort: 'xhigh', summary: 'auto' },
      text: { verbosity: 'medium' },
      store: false,
      include: ['reasoning.encrypted_content'],
      prompt_cache_key: 'thread-1',
      service_tier: 'auto',
      client_metadata: { turn: '1' },
    };
    const agentTurn = async (turn: object) => {
      const headers = { 'x-gateway-unsupported-tools': 'drop' };
      const answer = await gateway.post(PATH, { model: translated, stream: true, ...turn }, { headers });
      return dataOf(await answer.text());
    };
    const input: object[] = [
      { type: 'message', id: 'msg_1', role: 'developer', content: [{ type: 'input_text', text: 'You are an agent.' }] },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'What is the weather in Paris?' }] },
    ];
    const first = checkStream(await agentTurn({ ...request, input }));
    const call = first.output.find((item) => item.type === 'function_call');
    const sent = lastChat();
    expect(sent.tools.map((tool: { function: { name: string } }) => tool.function.name)).toEqual([
      'get_weather',
      'agents__spawn',
      'apply_patch',
    ]);
    expect(Object.keys(sent).sort()).toEqual(
      'messages model parallel_tool_calls reasoning_effort stream stream_options tool_choice tools'.split(' '),
    );
    expect(sent.reasoning_effort).toBe('high');
    input.push(...first.output, { type: 'function_call_output', call_id: call?.call_id, output: '21 degrees' });
    const second = checkStream(await agentTurn({ ...request, input }));
    expect(second.output.at(-1)).toMatchObject({ type: 'message', status: 'completed' });
    const roles = lastChat().messages.map(({ role }: { role: string }) => role);
    expect(roles).toEqual(['system', 'user', 'assistant', 'tool']);
    expect(lastChat().messages[2]).toMatchObject({ tool_calls: [{ id: call?.call_id }] });
  });

  it('includes its reasoning as raw text when the client requests it', async () => {
    const { events } = await stream({
      input: 'Tell me something.',
      reasoning: { effort: 'low' },
      include: ['reasoning.content'],
    });
    const [reasoning] = checkStream(events).output;
    expect(reasoning).toMatchObject({ type: 'reasoning', summary: [], content: [{ type: 'reasoning_text' }] });
    expect(events.map(({ type }) => type)).toContain('response.reasoning_text.delta');
  });

  it('whose stream the provider cuts off fails, and is stored as failed', async () => {
    gateway.simulated.control.next({ cutAfterChunks: 5 });
    const { text, events, exchange } = await stream({ input: 'Tell me something.' });
    checkStream(events);
    const last = events.at(-1);
    expect(last).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', incomplete_details: null, error: { code: 'stream_incomplete' } },
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

  it.each([['before its finish reason', { endWithoutFinish: true, endWithoutDone: true }]])(
    'whose stream the provider ends %s fails',
    async (_what, fault) => {
      gateway.simulated.control.next(fault);
      const { events } = await stream({ input: 'Tell me something.' });
      expect(checkStream(events)).toMatchObject({ status: 'failed', error: { code: 'stream_incomplete' } });
    },
  );

  it('whose provider omits only its end marker is complete', async () => {
    gateway.simulated.control.next({ endWithoutDone: true });
    const { text, events } = await stream({ input: 'Tell me something.' });
    expect(checkStream(events).status).toBe('completed');
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
  });

  it('whose provider reports an error in mid-stream fails for every client, and is stored as failed', async () => {
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

  it('handles odd but valid streams of its provider', async () => {
    for (const fault of [{ splitEvery: 3 }, { coalesce: true }, { crlf: true, comments: true }]) {
      gateway.simulated.control.next({ ...fault, words: 5 });
      const { events } = await stream({ input: 'Tell me something.' });
      expect(checkStream(events).status).toBe('completed');
    }
  });

  it('fails when its provider streams an event that is not JSON', async () => {
    gateway.simulated.control.next({ garbage: true, words: 5 });
    const { events } = await stream({ input: 'Tell me something.' });
    expect(checkStream(events).status).toBe('failed');
  });

  it('that its client abandons is stored with its output so far', async () => {
    gateway.simulated.control.next({ holdAfterChunks: 5 });
    const client = new AbortController();
    const body = { model: translated, input: 'Tell me something.', stream: true };
    const answer = await gateway.post(PATH, body, { signal: client.signal });
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    let text = '';
    while (!text.includes('output_text.delta')) text += Buffer.from((await reader.read()).value ?? []).toString();
    const providerRequest = gateway.lastProviderRequest();
    client.abort();
    expect(await providerRequest.ended).toBe('aborted');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(types(events).slice(-2)).toEqual(['client.disconnected', 'usage.recorded']);
    const { id } = dataOf(`${text}\n\n`)[0].response;
    expect(await json(await retrieve(id))).toMatchObject({ id, status: 'cancelled' });
  });

  it('sends the reasoning effort in the form of the provider, and returns reasoning as a summary', async () => {
    const { events } = await stream({ input: 'Tell me something.', reasoning: { effort: 'low' } });
    const final = checkStream(events);
    expect(final.output.map(({ type }) => type)).toEqual(['reasoning', 'message']);
    expect(final.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);
    expect(final.usage?.completion_tokens_details.reasoning_tokens).toBe(
      final.usage?.output_tokens_details.reasoning_tokens,
    );
    expect(final.reasoning).toMatchObject({ effort: 'low' });
  });

  it('refuses a reference to an unknown item', async () => {
    const answer = await gateway.post(PATH, {
      model: translated,
      input: [{ type: 'item_reference', id: 'msg_nobody' }],
    });
    expect(await errorOf(answer, 404)).toMatchObject({ type: 'not_found_error', param: 'input[0].id' });
  });

  it('is looked up by id, with any provider or include parameter', async () => {
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

  it('that is not stored is a 501 at a provider that stores none', async () => {
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
