/** Values that a guardrail hides from providers, and restores for the client: every dialect, JSON and streams. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../../infra/simulated-provider/server.ts';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
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
