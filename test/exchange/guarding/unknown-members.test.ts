/** Values in members that the gateway does not know: a provider may read any of them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
import { type ScriptedProvider, startScriptedProvider } from '../../support/scripted-provider.ts';
import { errorOf, user, withGateway } from '../../support/with-gateway.ts';

const V = 'bob.miller@example.com';
let provider: ScriptedProvider;
const gateway = withGateway(async () => {
  provider = await startScriptedProvider();
  return {
    simulated: false,
    env: { ...withGuardrails, OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: 'sk-scripted', OPENAI_MODELS: 'scripted' },
  };
}, 1);
afterAll(() => provider.close());

const headers = { 'x-gateway-user-path': '/hidden' };
const model = 'openai/scripted';
const received: string[] = [];
let answer: { readonly type: string; readonly body: string };

beforeAll(async () => {
  provider.script((request, response) => {
    if (request.method === 'POST') received.push(request.body.toString());
    response.writeHead(200, { 'content-type': answer.type }).end(answer.body);
  });
  await saveGuardrail(gateway, { name: 'personal-data', type: 'pii' });
  await saveGuardrail(gateway, {
    ...{ name: 'secret', type: 'string_replace' },
    config: { rules: 'SECRETWORD => ******', roles: ['assistant', 'user', 'tool', 'system'] },
  });
  await guard(gateway, '/hidden', [{ ref: 'personal-data' }]);
  await guard(gateway, '/answers', [
    { ref: 'secret', phase: 'response' },
    { ref: 'secret', phase: 'stream' },
  ]);
});

const completion = (message: object, more: object = {}) => ({
  ...{ id: 'c', object: 'chat.completion', created: 1, model: 'scripted', ...more },
  choices: [{ index: 0, message: { role: 'assistant', content: 'ok', ...message }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});
const response = {
  ...{ id: 'resp_1', object: 'response', created_at: 1, status: 'completed', model: 'scripted' },
  output: [],
};
const whole = (body: object) => ({ type: 'application/json', body: JSON.stringify(body) });

const deep = (levels: number, inside: object): object =>
  Array.from({ length: levels }).reduce<object>((value) => ({ a: value }), inside);

describe('a value in a chat request', () => {
  const bodies: [string, object][] = [
    ['an unknown member', { documents: [{ title: 'About', text: `mail ${V}` }] }],
    ['a member of a template', { chat_template_kwargs: { greeting: V } }],
    ['a setting', { stop: [V] }],
    ['a key of a cache', { prompt_cache_key: V }],
    ['the name of a member', { metadata: { [V]: 'x' } }],
    ['the name of a tool', { tools: [{ type: 'function', function: { name: V, parameters: {} } }] }],
    ['an enum', { tools: [{ type: 'function', function: { name: 'f', parameters: { enum: [V] } } }] }],
    [
      'a property of a schema',
      { tools: [{ type: 'function', function: { name: 'f', parameters: { properties: { [V]: {} } } } }] },
    ],
    ['an unknown member of a message', { messages: [{ role: 'user', content: 'x', note: V }] }],
    ['a part of an unknown type', { messages: [{ role: 'user', content: [{ type: 'mystery', data: `to ${V}` }] }] }],
    [
      'the name of a file',
      { messages: [{ role: 'user', content: [{ type: 'file', file: { filename: V, file_data: 'x' } }] }] },
    ],
    [
      'arguments that are no JSON',
      {
        messages: [
          { role: 'user', content: 'x' },
          {
            role: 'assistant',
            content: null,
            tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: `{bad ${V}` } }],
          },
          { role: 'tool', tool_call_id: 'a', content: 'x' },
        ],
      },
    ],
    ['a long text without punctuation', { documents: [{ text: `${'words '.repeat(60)}4111111111111111` }] }],
    ['a number', { documents: [{ card: 4111111111111111 }] }],
    ['many levels', { documents: deep(150, { text: V }) }],
  ];

  it.each(bodies)('is hidden: %s', async (_where, body) => {
    answer = whole(completion({}));
    received.length = 0;
    const got = await gateway.post(
      '/v1/chat/completions',
      { model, messages: user(`hello ${V}`), ...body },
      { headers },
    );
    expect(got.status, await got.text()).toBe(200);
    expect(received).toHaveLength(1);
    expect(received[0]).not.toContain(V);
    expect(received[0]).not.toContain('4111111111111111');
    expect(received[0]).toMatch(/<(EMAIL|CARD_NUMBER)_1>/);
  });

  it('is refused where it is nested deeper than guardrails read, or in a member that a provider may mistake', async () => {
    received.length = 0;
    const send = (body: object) =>
      gateway.post('/v1/chat/completions', { model, messages: user('x'), ...body }, { headers });
    expect((await errorOf(await send({ documents: deep(300, { text: V }) }), 400)).code).toBe('nested_too_deeply');
    expect((await errorOf(await send({ Messages: user(V) }), 400)).code).toBe('repeated_member');
    expect((await errorOf(await send({ Tools: user(V) }), 400)).code).toBe('ambiguous_member');
    const inside = await send({ messages: [{ role: 'user', content: 'x', Content: V }] });
    expect((await errorOf(inside, 400)).param).toBe('messages.0.Content');
    const tool = { type: 'function', function: { name: 'f', parameters: { properties: { Name: {}, Content: {} } } } };
    expect((await send({ tools: [tool] })).status).toBe(200);
    expect(received).toHaveLength(1);
  });
});

describe('a value in a request for a response, or for embeddings', () => {
  it.each([
    ['instructions as a list', { input: 'x', instructions: [{ role: 'developer', content: V }] }],
    [
      'arguments that are no JSON',
      { input: [{ type: 'function_call', call_id: 'c', name: 'f', arguments: `{bad ${V}` }] },
    ],
    [
      'tools that were found',
      { input: [{ type: 'tool_search_output', tools: [{ type: 'function', name: 'a', description: V }] }] },
    ],
    ['the description of a server', { input: 'x', tools: [{ type: 'mcp', server_label: 'a', server_description: V }] }],
    ['an item of an unknown type', { input: [{ type: 'mystery', data: { x: [V] }, name: V }] }],
  ])('is hidden: %s', async (_where, body) => {
    answer = whole(response);
    received.length = 0;
    const got = await gateway.post('/v1/responses', { model, ...body }, { headers });
    expect(got.status, await got.text()).toBe(200);
    expect(received[0]).not.toContain(V);
    expect(received[0]).toContain('<EMAIL_1>');
  });

  it('is hidden: messages of an embedding', async () => {
    answer = whole({
      object: 'list',
      data: [{ embedding: [1] }],
      model: 'scripted',
      usage: { prompt_tokens: 1, total_tokens: 1 },
    });
    received.length = 0;
    const got = await gateway.post('/v1/embeddings', { model, input: 'x', messages: user(V) }, { headers });
    expect(got.status).toBe(200);
    expect(received[0]).not.toContain(V);
  });
});

describe('a text in an answer', () => {
  const at = { headers: { 'x-gateway-user-path': '/answers' } };
  const call = (text: string) => [{ id: 'a', type: 'function', function: { name: 'f', arguments: text } }];

  it.each([
    ['arguments that are no JSON', completion({ tool_calls: call('{bad SECRETWORD') })],
    ['an annotation', completion({ annotations: [{ type: 'url_citation', url_citation: { title: 'SECRETWORD' } }] })],
    ['a source', completion({}, { citations: [{ title: 'SECRETWORD' }] })],
  ])('is evaluated in a whole answer: %s', async (_where, body) => {
    answer = whole(body);
    const got = await gateway.post('/v1/chat/completions', { model, messages: user('x') }, at);
    expect(got.status).toBe(200);
    const text = await got.text();
    expect(text).not.toContain('SECRETWORD');
    expect(text).toContain('******');
  });

  const chunk = (choice: object, more: object = {}) =>
    `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'scripted', choices: [{ index: 0, finish_reason: null, ...choice }], ...more })}\n\n`;

  it.each([
    ['a list of parts', [{ delta: { content: [{ type: 'text', text: 'SECRETWORD' }] } }]],
    ['details of the reasoning', [{ delta: { reasoning_details: [{ type: 'reasoning.text', text: 'SECRETWORD' }] } }]],
    [
      'a function call, divided',
      [
        { delta: { function_call: { name: 'f', arguments: '{"a":"SECRET' } } },
        { delta: { function_call: { arguments: 'WORD"}' } } },
      ],
    ],
    [
      'a transcript, divided',
      [{ delta: { audio: { transcript: 'SECRET' } } }, { delta: { audio: { transcript: 'WORD' } } }],
    ],
    ['a message in a chunk', [{ delta: {}, message: { role: 'assistant', content: 'SECRETWORD' } }]],
    ['an unknown member', [{ delta: { note: 'SECRETWORD' } }]],
  ])('is evaluated in a stream: %s', async (_where, choices) => {
    const end = chunk({ delta: {}, finish_reason: 'stop' });
    answer = {
      type: 'text/event-stream',
      body: `${choices.map((choice) => chunk(choice)).join('')}${end}data: [DONE]\n\n`,
    };
    const got = await gateway.post('/v1/chat/completions', { model, messages: user('x'), stream: true }, at);
    const text = await got.text();
    expect(got.status, text).toBe(200);
    expect(text).not.toContain('SECRET');
    expect(text).toContain('******');
  });
});
