/** Values that a guardrail hides from providers, and restores for the client: every dialect, JSON and streams. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../../infra/simulated-provider/server.ts';
import { MASTER_KEY } from '../../support/gateway.ts';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
import { openSocket } from '../../support/response-socket.ts';
import { dataOf, eventsOfExchange, exchangeOf, json, user, withGateway } from '../../support/with-gateway.ts';

const EMAIL = 'bob.miller@example.com';
const TASK = `Reply with exactly: Write to ${EMAIL}, please.`;
const ANSWER = `Write to ${EMAIL}, please.`;

const native = createSimulatedProvider({ apiKey: 'sk-native' });
const gateway = withGateway(async () => {
  const url = await native.listen();
  return {
    simulated: { responses: 'absent' },
    register: (own) => ({
      ...{ LLAMACPP_BASE_URL: own, OPENAI_BASE_URL: url, OPENAI_API_KEY: 'sk-native' },
      ...{ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'sk-native' },
    }),
    env: withGuardrails,
  };
});
afterEach(() => native.control.clear());
afterAll(() => native.close());

beforeAll(async () => {
  await saveGuardrail(gateway, { name: 'personal-data', type: 'pii' });
  await guard(gateway, '/hidden', [{ ref: 'personal-data' }]);
});

const headers = { 'x-gateway-user-path': '/hidden', 'anthropic-version': '2023-06-01' };
const ask = (path: string, body: object) => gateway.fetch(path, { json: body, headers });
const sent = () =>
  [...gateway.simulated.requests, ...native.requests]
    .filter(({ method }) => method === 'POST')
    .map(({ body }) => body)
    .join('\n');

const models = ['llamacpp/simulated-small', 'openai/simulated-small', 'anthropic/simulated-small'];

/** The text of a stream, from the deltas that a client would join. */
function textOf(events: ReturnType<typeof dataOf>): string {
  return events
    .map((event) => event.choices?.[0]?.delta?.content ?? event.choices?.[0]?.text ?? deltaOf(event) ?? '')
    .join('');
}

function deltaOf(event: ReturnType<typeof dataOf>[number]): string | undefined {
  if (event.type === 'response.output_text.delta') return event.delta;
  return event.delta?.text;
}

describe.each(models)('a value in a request to %s', (model) => {
  it('is restored in a chat completion', async () => {
    const answer = await ask('/v1/chat/completions', { model, messages: user(TASK) });
    expect(answer.status, await answer.clone().text()).toBe(200);
    expect((await json(answer)).choices[0].message.content).toBe(ANSWER);
    expect(sent()).not.toContain(EMAIL);
    expect(sent()).toContain('<EMAIL_1>');
  });

  it('is restored in a chat stream', async () => {
    const answer = await ask('/v1/chat/completions', { model, messages: user(TASK), stream: true });
    const text = await answer.text();
    expect(textOf(dataOf(text))).toBe(ANSWER);
    expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true);
    expect(sent()).not.toContain(EMAIL);
  });

  it('is restored in each turn over a WebSocket, and stays hidden in those that are not stored', async () => {
    const socket = await openSocket(gateway.url, MASTER_KEY, { headers });
    const first = await socket.turn({ model, store: false, input: TASK });
    expect(first.response?.output[0].content[0].text).toBe(ANSWER);
    const input = `Reply with exactly: ${EMAIL} and carl@example.com`;
    const second = await socket.turn({ model, store: false, previous_response_id: first.response.id, input });
    expect(second.response?.output[0].content[0].text).toBe(`${EMAIL} and carl@example.com`);
    expect(sent()).not.toContain(EMAIL);
    expect(sent()).toContain('<EMAIL_1> and <EMAIL_2>');
    socket.socket.close();
  });

  it('is restored in a response, which is stored as the client got it', async () => {
    const answer = await ask('/v1/responses', { model, input: TASK });
    const body = await json(answer);
    expect(body.output[0].content[0].text, JSON.stringify(body)).toBe(ANSWER);
    const stored = await json(await gateway.fetch(`/v1/responses/${body.id}`, { headers }));
    expect(stored.output[0].content[0].text).toBe(ANSWER);
    const items = await json(await gateway.fetch(`/v1/responses/${body.id}/input_items`, { headers }));
    expect(JSON.stringify(items)).toContain(EMAIL);
    expect(sent()).not.toContain(EMAIL);
  });

  it('is restored in a stream of a response, in all its events', async () => {
    const answer = await ask('/v1/responses', { model, input: TASK, stream: true });
    const events = dataOf(await answer.text());
    expect(textOf(events)).toBe(ANSWER);
    const last = events.at(-1);
    expect(last.type).toBe('response.completed');
    expect(last.response.output[0].content[0].text).toBe(ANSWER);
    expect(JSON.stringify(events)).not.toContain('EMAIL_');
    const stored = await json(await gateway.fetch(`/v1/responses/${last.response.id}`, { headers }));
    expect(stored.output[0].content[0].text).toBe(ANSWER);
    expect(sent()).not.toContain(EMAIL);
  });

  it('is restored in a message, and in its stream', async () => {
    const body = { model, max_tokens: 100, messages: user(TASK) };
    expect((await json(await ask('/v1/messages', body))).content[0].text).toBe(ANSWER);
    const text = await (await ask('/v1/messages', { ...body, stream: true })).text();
    expect(textOf(dataOf(text))).toBe(ANSWER);
    expect(dataOf(text).at(-1).type).toBe('message_stop');
    expect(sent()).not.toContain(EMAIL);
  });
});

describe('a value that is divided', () => {
  const card = '4111 1111 1111 1111';
  const pieces = (type: string) =>
    ['Reply with exactly: 4111 11', '11 1111', ' 1111', ' jane.do', 'e@exam', 'ple.com'].map((text) => ({
      type,
      text,
    }));
  const text = pieces('text');
  const answered = `${card} jane.doe@example.com`;
  const tool = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } };
  const called = [
    { role: 'user', content: 'x' },
    { role: 'assistant', content: null, tool_calls: [tool] },
  ];
  const used = [
    { role: 'user', content: 'x' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'f', input: {} }] },
  ];
  const functionCall = { type: 'function_call', call_id: 'x', name: 'f', arguments: '{}' };
  const places: [string, string, object][] = [
    ['a message', '/v1/chat/completions', { messages: [{ role: 'user', content: text }] }],
    ['a system message', '/v1/chat/completions', { messages: [{ role: 'system', content: text }, ...user('x')] }],
    [
      'a tool result',
      '/v1/chat/completions',
      { messages: [...called, { role: 'tool', tool_call_id: 'call_1', content: text }] },
    ],
    [
      'two messages',
      '/v1/chat/completions',
      { messages: text.map(({ text: content }) => ({ role: 'user', content })) },
    ],
    ['a prediction', '/v1/chat/completions', { messages: user('x'), prediction: { type: 'content', content: text } }],
    [
      'content of the Messages dialect',
      '/v1/messages',
      { max_tokens: 100, messages: [{ role: 'user', content: text }] },
    ],
    ['the system text of the Messages dialect', '/v1/messages', { max_tokens: 100, system: text, messages: user('x') }],
    [
      'a tool result of the Messages dialect',
      '/v1/messages',
      {
        max_tokens: 100,
        messages: [...used, { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: text }] }],
      },
    ],
    ['an input item', '/v1/responses', { input: [{ role: 'user', content: pieces('input_text') }] }],
    [
      'an output of a function',
      '/v1/responses',
      {
        input: [
          { role: 'user', content: 'x' },
          functionCall,
          { type: 'function_call_output', call_id: 'x', output: pieces('input_text') },
        ],
      },
    ],
  ];

  // Anthropic has no predictions.
  const hasPlace = (model: string, place: string) => place !== 'a prediction' || !model.startsWith('anthropic/');

  it.each(
    places.flatMap((place) =>
      models.filter((model) => hasPlace(model, place[0])).map((model) => [model, ...place] as const),
    ),
  )('reaches no provider: %s, %s', async (model, _, path, body) => {
    const answer = await ask(path, { model, ...body });
    expect(answer.status, await answer.clone().text()).toBe(200);
    const bodies = sent();
    expect(bodies).toContain('<CARD_NUMBER_1>');
    expect(bodies).toContain('<EMAIL_1>');
    for (const piece of ['4111', 'jane.do', 'ple.com']) expect(bodies).not.toContain(piece);
  });

  it.each(models)('is restored in the answer: %s', async (model) => {
    const answer = await json(
      await ask('/v1/chat/completions', { model, messages: [{ role: 'user', content: text }] }),
    );
    // The simulated provider repeats the first line, or the first text.
    expect(answered.startsWith(answer.choices[0].message.content.trim())).toBe(true);
    expect(answer.choices[0].message.content).toContain(card);
  });

  it('is hidden when tokens are counted, and in the items of a conversation', async () => {
    await ask('/v1/messages/count_tokens', { model: models[2], messages: [{ role: 'user', content: text }] });
    const items = [{ type: 'message', role: 'user', content: pieces('input_text') }];
    const { id } = await json(await ask('/v1/conversations', { items }));
    const answer = await ask('/v1/responses', { model: models[2], conversation: id, input: 'x' });
    expect(answer.status, await answer.clone().text()).toBe(200);
    expect(sent()).toContain('<EMAIL_1>');
    for (const piece of ['4111', 'jane.do', 'ple.com']) expect(sent()).not.toContain(piece);
  });

  it('keeps a value that is whole within its part, and the texts around it', async () => {
    const content = [`Reply with exactly: ${EMAIL}`, 'Please.'].map((one) => ({ type: 'text', text: one }));
    await ask('/v1/chat/completions', { model: models[1], messages: [{ role: 'user', content }] });
    expect(sent()).toContain('"text":"Reply with exactly: <EMAIL_1>"');
    expect(sent()).toContain('"text":"Please."');
  });

  it('is hidden where it is a number with an exponent', async () => {
    const call = { ...tool, function: { name: 'f', arguments: '{"card":4.111111111111111e15}' } };
    for (const model of models) {
      const messages = [
        ...user('x'),
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'call_1', content: 'x' },
      ];
      await ask('/v1/chat/completions', { model, messages });
    }
    expect(sent()).toContain('<CARD_NUMBER_1>');
    expect(sent()).not.toMatch(/4\.?1{15}/);
  });
});

describe('values that are written with other characters', () => {
  const hidden = ['jane＠exam\u00adple。com', '４１１１ １１１１\n１１１１ １１１１'];
  const text = `Write to ${hidden[0]} about ${hidden[1]}, ½ of it.`;

  it.each(models)('reach no provider, and are restored as they were: %s', async (model) => {
    const messages = user(`Reply with exactly: ${text}`);
    const whole = await json(await ask('/v1/chat/completions', { model, messages }));
    expect(whole.choices[0].message.content).toBe(text);
    const streamed = await (await ask('/v1/messages', { model, max_tokens: 100, messages, stream: true })).text();
    expect(textOf(dataOf(streamed))).toBe(text);
    const response = await json(await ask('/v1/responses', { model, input: messages }));
    expect(response.output[0].content[0].text).toBe(text);
    for (const value of hidden) expect(sent()).not.toContain(JSON.stringify(value).slice(1, -1));
    expect(sent()).toContain('<CARD_NUMBER_1>');
  });
});

describe('a value in a request', () => {
  const model = 'llamacpp/simulated-small';

  it('is restored in a text completion, and in its stream', async () => {
    const body = { model, prompt: TASK };
    expect((await json(await ask('/v1/completions', body))).choices[0].text).toBe(ANSWER);
    const text = await (await ask('/v1/completions', { ...body, stream: true })).text();
    expect(textOf(dataOf(text))).toBe(ANSWER);
    expect(sent()).not.toContain(EMAIL);
  });

  it('is hidden in the text of embeddings, and of counted tokens', async () => {
    expect((await ask('/v1/embeddings', { model, input: EMAIL })).status).toBe(200);
    const counted = await ask('/v1/messages/count_tokens', {
      ...{ model: 'anthropic/simulated-small', messages: user(EMAIL) },
    });
    expect(counted.status).toBe(200);
    const tokens = await ask('/v1/responses/input_tokens', { model: 'openai/simulated-small', input: EMAIL });
    expect(tokens.status).toBe(200);
    expect(sent()).not.toContain(EMAIL);
  });

  it('is on record with its placeholder, the changed request, and the frames that the client got', async () => {
    const answer = await ask('/v1/chat/completions', { model, messages: user(TASK), stream: true });
    const text = await answer.text();
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const of = (type: string) => events.filter((event) => event.type === type);
    expect(of('guardrail.applied')[0]?.data).toMatchObject({
      ...{ phase: 'prompt', verdict: 'allow', edited: true },
      runs: [{ guardrail: 'personal-data', type: 'pii', findings: { EMAIL: 1 } }],
    });
    expect(JSON.stringify(of('guardrail.applied'))).not.toContain(EMAIL);
    expect(of('placeholders.assigned')[0]?.data).toEqual({ count: 1 });
    expect(of('attempt.started')[0]?.data).toMatchObject({ guarded: true });
    expect(of('frame.delivered').length).toBeGreaterThan(0);
    expect(text).toContain('data: [DONE]');
    expect(of('exchange.completed')).toHaveLength(1);
  });

  it('is hidden again in the next turn, and in a turn after a restart', async () => {
    const first = await json(await ask('/v1/responses', { model, input: TASK }));
    const second = await json(
      await ask('/v1/responses', {
        ...{ model, previous_response_id: first.id, input: `Reply with exactly: again ${EMAIL}` },
      }),
    );
    expect(second.output[0].content[0].text).toBe(`again ${EMAIL}`);
    expect(second.previous_response_id).toBe(first.id);
    expect(sent()).not.toContain(EMAIL);
    expect(gateway.lastProviderRequest().body).toContain('<EMAIL_1>');
    expect(gateway.lastProviderRequest().body).not.toContain('<EMAIL_2>');
  });
});
