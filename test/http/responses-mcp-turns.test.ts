/** Responses whose tools the gateway runs, over several turns of a model, and with Anthropic's API. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { guard, saveGuardrail, withGuardrails } from '../support/guarded.ts';
import { newKey } from '../support/managed-keys.ts';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { startToolServer } from '../support/tool-server.ts';
import { dataOf, errorOf, eventsUntil, exchangeOf, json, readUntil, withGateway } from '../support/with-gateway.ts';

const server = await startToolServer();
const provider = await startScriptedProvider();
const everything = join(
  dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/package.json')),
  'dist/index.js',
);
const KEY = 'sk-ant-of-a-test';
const gateway = withGateway({
  simulated: { apiKey: KEY, models: ['claude-sonnet-4-6'] },
  register: (url) => ({ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: KEY }),
  env: {
    ...withGuardrails,
    RESPONSE_CACHE_ENABLED: 'true',
    DEEPSEEK_BASE_URL: provider.url,
    DEEPSEEK_API_KEY: 'sk-scripted',
    MCP_SERVERS: JSON.stringify([
      { name: 'Weather', slug: 'weather', url: server.url },
      { name: 'Everything', transport: 'stdio', command: process.execPath, args: [everything, 'stdio'] },
    ]),
    RETRY_MAX_RETRIES: '0',
    CIRCUIT_BREAKER_ENABLED: 'false',
  },
});
beforeEach(() => {
  server.calls.length = 0;
});
afterAll(async () => {
  await provider.close();
  await server.close();
});

const PATH = '/v1/responses';
const tools = [{ type: 'mcp', server_label: 'sky', server_url: 'gateway://weather', require_approval: 'never' }];
const request = (more: object = {}) => ({ model: 'deepseek/scripted', input: 'Hello?', tools, ...more });

/** A turn of the model: a text, or calls of `get_weather` for cities, after some reasoning. */
interface ScriptedTurn {
  readonly text?: string;
  readonly cities?: readonly string[];
  /** Calls of other tools. */
  readonly calls?: readonly { readonly name: string; readonly arguments: string }[];
  readonly reasoning?: string;
  readonly status?: number;
}

/** What the model is sent, turn by turn; each turn of the script has 10 tokens of input and 5 of output. */
function script(...turns: readonly ScriptedTurn[]): Answered[] {
  const sent: Answered[] = [];
  provider.script(({ body }, response) => {
    const { text = '', cities = [], calls, reasoning, status } = turns[sent.length] ?? turns.at(-1) ?? {};
    sent.push(JSON.parse(body.toString()));
    if (status !== undefined) {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: { message: 'no luck', code: 'unlucky' } }));
      return;
    }
    const made = calls ?? cities.map((city) => ({ name: 'sky__get_weather', arguments: JSON.stringify({ city }) }));
    const tool_calls = made.map((called, index) => ({
      ...{ index, id: `call_${sent.length}_${index}`, type: 'function', function: called },
    }));
    const delta = {
      ...{ role: 'assistant', content: text },
      ...(reasoning !== undefined && { reasoning_content: reasoning }),
      ...(tool_calls.length > 0 && { tool_calls }),
    };
    const finish_reason = tool_calls.length > 0 ? 'tool_calls' : 'stop';
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    const chunk = (members: object) => {
      const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'scripted' };
      return `data: ${JSON.stringify({ ...head, ...members })}\n\n`;
    };
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(chunk({ choices: [{ index: 0, delta, finish_reason: null }] }));
    response.write(chunk({ choices: [{ index: 0, delta: {}, finish_reason }], usage }));
    response.end('data: [DONE]\n\n');
  });
  return sent;
}

async function create(body: object): Promise<Answered> {
  const answer = await gateway.post(PATH, body);
  expect(answer.status, await answer.clone().text()).toBe(200);
  return json(answer);
}
const kinds = ({ output }: Answered) => output.map(({ type }: Answered) => type);

describe('a model that calls tools in several turns', () => {
  const turns = [
    { reasoning: 'Two cities first.', cities: ['Oslo', 'Rome'] },
    { text: 'One more.', cities: ['Lima'] },
    { text: 'All sunny.' },
  ];

  it('gets its own turns and the results back, in order', async () => {
    const sent = script(...turns);
    const made = await create(request());
    expect(kinds(made)).toEqual([
      ...['mcp_list_tools', 'reasoning', 'mcp_call', 'mcp_call', 'message', 'mcp_call', 'message'],
    ]);
    expect(server.calls.map(({ arguments: { city } }) => city)).toEqual(['Oslo', 'Rome', 'Lima']);
    expect(sent).toHaveLength(3);
    const roles = sent[2].messages.map(({ role }: Answered) => role);
    expect(roles).toEqual(['user', 'assistant', 'tool', 'tool', 'assistant', 'tool']);
    const [, first, oslo, rome, second] = sent[2].messages;
    expect(first.tool_calls.map(({ id }: Answered) => id)).toEqual([oslo.tool_call_id, rome.tool_call_id]);
    expect(first.reasoning_content).toBe('Two cities first.');
    expect([oslo.content, rome.content]).toEqual(['sunny in Oslo', 'sunny in Rome']);
    expect(second.content).toBe('One more.');
    expect(made.usage).toMatchObject({ input_tokens: 30, output_tokens: 15, total_tokens: 45 });
    expect(JSON.stringify(made)).not.toContain('encrypted_content');
  });

  it('has the same items in a stream, and in the stored response', async () => {
    script(...turns);
    const answer = await gateway.post(PATH, request({ stream: true }));
    const events = dataOf(await answer.text());
    const { response } = events.at(-1);
    const added = events.filter(({ type }) => type === 'response.output_item.added');
    const done = events.filter(({ type }) => type === 'response.output_item.done');
    expect(added.map(({ output_index: index }) => index)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(done.map(({ output_index: index, item }) => [index, item])).toEqual(
      expect.arrayContaining([...response.output.entries()]),
    );
    expect(done).toHaveLength(7);
    const stored = await json(await gateway.fetch(`${PATH}/${response.id}`));
    expect(stored.output).toEqual(response.output);
    const replayed = await (await gateway.fetch(`${PATH}/${response.id}?stream=true`)).text();
    expect(dataOf(replayed)).toEqual(events);
  });

  it('is called again for an equal request: its responses are not cached, and neither are its turns', async () => {
    const plain = { model: 'deepseek/scripted', input: 'Cached?', stream: true };
    script({ text: 'One.' });
    await (await gateway.post(PATH, plain)).text();
    expect((await gateway.post(PATH, plain)).headers.get('x-cache')).toMatch(/HIT/);
    for (const _time of [1, 2]) {
      const sent = script(...turns);
      const answer = await gateway.post(PATH, request({ input: 'Cached?' }));
      expect(answer.headers.get('x-cache')).toBeNull();
      expect(sent).toHaveLength(3);
    }
    expect(server.calls).toHaveLength(6);
  });

  it('is stopped by max_tool_calls and by max_output_tokens', async () => {
    const sent = script({ cities: ['Oslo'] });
    const limited = await create(request({ max_tool_calls: 2 }));
    expect(limited).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_tool_calls' } });
    expect(server.calls).toHaveLength(2);
    expect(sent.at(-1).tool_choice).toBe('none');
    const short = await create(request({ max_output_tokens: 23 }));
    expect(short).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
    expect(sent.at(-1).max_tokens).toBe(18);
  });

  it('fails with what it has when a later turn fails', async () => {
    script({ cities: ['Oslo'] }, { status: 500 });
    const made = await create(request());
    expect(made).toMatchObject({ status: 'failed', error: { code: 'unlucky' } });
    expect(made.output[1]).toMatchObject({ type: 'mcp_call', output: 'sunny in Oslo' });
    script({ cities: ['Oslo'] }, { status: 500 });
    const answer = await gateway.post(PATH, request({ stream: true }));
    const events = dataOf(await answer.text());
    expect(events.slice(-2).map(({ type }) => type)).toEqual(['error', 'response.failed']);
    script({ status: 500 });
    await errorOf(await gateway.post(PATH, request()), 500);
  });

  it('is not called again, and its tool is ended, when the client leaves', async () => {
    const sent = script({ cities: ['Oslo'] });
    const called = Promise.withResolvers<void>();
    server.answer(async () => {
      called.resolve();
      // A time: the call has to be ended before it returns.
      await sleep(60_000, undefined, { ref: false });
      return {};
    });
    const stop = new AbortController();
    const answer = await gateway.post(PATH, request({ stream: true }), { signal: stop.signal });
    await readUntil(answer, 'mcp_call.in_progress');
    await called.promise;
    stop.abort();
    const exchange = exchangeOf(answer);
    const isEnd = ({ type, causationId }: Answered) => type === 'client.disconnected' && causationId === exchange;
    const events = await eventsUntil(gateway, 'types=client.disconnected', isEnd);
    expect(events).not.toHaveLength(0);
    server.answer();
    expect(sent).toHaveLength(1);
  });

  it('gets results as guardrails have changed them, like its client', async () => {
    const config = { rules: 'sunny => rainy', roles: ['user', 'assistant', 'tool'] };
    await saveGuardrail(gateway, { name: 'weather', type: 'string_replace', config });
    await guard(gateway, '/guarded', [{ ref: 'weather', phase: 'response' }]);
    const key = await newKey(gateway, { user_path: '/guarded' });
    const sent = script({ cities: ['Oslo'] }, { text: 'It is sunny.' });
    const made = await json(await key.fetch(PATH, { json: request() }));
    expect(made.output[1]).toMatchObject({ type: 'mcp_call', output: 'rainy in Oslo' });
    expect(made.output[2].content[0].text).toBe('It is rainy.');
    expect(sent[1].messages.at(-1)).toMatchObject({ role: 'tool', content: 'rainy in Oslo' });
    const stored = await json(await key.fetch(`${PATH}/${made.id}`));
    expect(stored.output).toEqual(made.output);
    script({ cities: ['Oslo'] }, { text: 'It is sunny.' });
    const events = dataOf(await (await key.fetch(PATH, { json: request({ stream: true }) })).text());
    expect(JSON.stringify(events)).not.toContain('sunny');
    expect(kinds(events.at(-1).response)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
  });
});

it('the tools of a server that is a process are called, with images for the model', async () => {
  const calls = [
    { name: 'all__echo', arguments: '{"message":"hi"}' },
    { name: 'all__get-tiny-image', arguments: '{}' },
  ];
  const sent = script({ calls }, { text: 'Done.' });
  const all = [{ ...tools[0], server_label: 'all', server_url: 'gateway://everything' }];
  const made = await create(request({ tools: all }));
  expect(made.output[1]).toMatchObject({ name: 'echo', output: expect.stringContaining('hi'), error: null });
  expect(made.output[2]).toMatchObject({
    name: 'get-tiny-image',
    output: expect.stringContaining('[image image/png]'),
  });
  expect(JSON.stringify(sent[1].messages)).toContain('data:image/png;base64,');
});

it.each([
  ['in one piece', {}],
  ['as a stream', { stream: true }],
])("Anthropic's API: a tool of the gateway is called, %s", async (_how, more) => {
  const body = { ...request(more), model: 'anthropic/claude-sonnet-4-6', input: 'What is the weather in Paris?' };
  const text = await (await gateway.post(PATH, body)).text();
  const made = 'stream' in more ? dataOf(text).at(-1).response : JSON.parse(text);
  expect(kinds(made)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
  expect(made.output[2].content[0].text).toBe('The result is: sunny in Paris');
  expect(JSON.parse(gateway.lastProviderRequest().body).messages.at(-1).content[0]).toMatchObject({
    type: 'tool_result',
  });
});
