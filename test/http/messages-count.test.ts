import { describe, expect, it } from 'vitest';
import { ANTHROPIC_KEY, native, translated, weatherTool, withMessageKinds } from '../support/message-kinds.ts';
import { eventsUntil, exchangeOf, json, user } from '../support/with-gateway.ts';

const { gateway, anthropic, post } = withMessageKinds({ RETRY_MAX_RETRIES: '0' });
const PATH = '/v1/messages/count_tokens';
const short = user('What is the capital of France?');
const long = [...short, { role: 'assistant', content: 'Paris.' }, ...user('And of Italy?')];
const count = (body: object, more = {}) => post(body, more, PATH);
const posts = () =>
  [...gateway.simulated.requests, ...anthropic.requests].filter(({ method }) => method === 'POST').length;

describe('POST /v1/messages/count_tokens', () => {
  it('is answered by a provider that can count, and recorded', async () => {
    const answer = await count({ model: native, messages: short, tools: [weatherTool] }, { 'anthropic-beta': 'b1' });
    expect(await json(answer)).toEqual({ input_tokens: expect.any(Number) });
    expect(anthropic.requests.at(-1)).toMatchObject({
      path: PATH,
      headers: { 'x-api-key': ANTHROPIC_KEY, 'anthropic-version': '2023-06-01', 'anthropic-beta': 'b1' },
      body: JSON.stringify({ model: 'simulated-small', messages: short, tools: [weatherTool] }),
    });
    const stream = `stream=exchange-${exchangeOf(answer)}`;
    const events = await eventsUntil(gateway, stream, ({ type }) => type === 'exchange.completed');
    expect(events.map(({ type }) => type)).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      'chunk.received',
      'exchange.completed',
    ]);
  });

  it('returns an estimate for a provider that cannot count, without calling it', async () => {
    const before = posts();
    const [first, second] = [
      await json(await count({ model: translated, messages: short })),
      await json(await count({ model: translated, messages: long })),
    ];
    expect(first).toEqual({ input_tokens: expect.any(Number) });
    expect(second.input_tokens).toBeGreaterThan(first.input_tokens);
    expect(posts()).toBe(before);
  });

  it('estimates about the tokens of the message', async () => {
    const { input_tokens } = await json(await count({ model: translated, messages: short }));
    const { usage } = await json(await post({ model: translated, max_tokens: 5, messages: short }));
    expect(Math.abs(input_tokens - usage.input_tokens) / usage.input_tokens).toBeLessThan(0.2);
  });

  it.each([
    [{ messages: short }, 400, 'model'],
    [{ model: translated }, 400, 'messages'],
    [{ model: native, messages: [] }, 400, 'messages'],
    [{ model: 'nobody/x', messages: short }, 404, 'model'],
    [{ model: translated, messages: short, provider: 'nobody' }, 400, 'provider'],
  ])('refuses %j', async (body, status, param) => {
    const answer = await count(body);
    expect(answer.status).toBe(status);
    expect(await json(answer)).toMatchObject({
      type: 'error',
      error: { details: { param } },
      request_id: expect.any(String),
    });
  });

  it("returns a provider's refusal in Anthropic's form", async () => {
    anthropic.control.next({ status: 429, message: 'slow down' }, { path: PATH });
    const answer = await count({ model: native, messages: short });
    expect(answer.status).toBe(429);
    expect(await json(answer)).toMatchObject({ error: { type: 'rate_limit_error', message: 'slow down' } });
  });
});
