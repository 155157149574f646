import { describe, expect, it } from 'vitest';
import { ANTHROPIC_KEY, native, translated, weatherTool, withMessageKinds } from '../support/message-kinds.ts';
import { eventsOf, eventsOfExchange, exchangeOf, json, user } from '../support/with-gateway.ts';

const { gateway, anthropic, post, create, stream } = withMessageKinds();
const hello = user('Reply with exactly: hello');
const lastProviderRequest = () => {
  const providerRequest = anthropic.requests.findLast(({ method }) => method === 'POST');
  if (providerRequest === undefined) throw new Error('the provider was not asked anything');
  return providerRequest;
};

describe('a native message', () => {
  it('is passed on byte for byte, as is the request except for the model', async () => {
    const body = `{ "max_tokens": 20, "model":"${native}","messages":[{"role":"user","content":"hi"}], "metadata":{"user_id":"u"}}`;
    const answer = await gateway.post('/v1/messages', body);
    expect(lastProviderRequest()).toMatchObject({
      path: '/v1/messages',
      body: body.replace(native, 'simulated-small'),
    });
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(await answer.text()).toBe(events.find(({ type }) => type === 'chunk.received')?.body);
  });

  it('is streamed unchanged', async () => {
    const { text, exchange } = await stream({ model: native, messages: user('Think, and tell me something.') });
    const events = await eventsOfExchange(gateway, exchange);
    const chunks = events.filter(({ type }) => type === 'chunk.received');
    expect(chunks.map(({ body }) => body)).toEqual(text.match(/.+?\n\n/gs));
    expect(text).toContain('event: ping');
  });

  it("reaches the provider with the gateway's key, and with the version and the betas of the client", async () => {
    const betas = 'context-1m-2025-08-07,interleaved-thinking-2025-05-14';
    await post({ model: native, max_tokens: 10, messages: hello }, { 'anthropic-beta': betas, 'x-custom': 'no' });
    const { headers } = lastProviderRequest();
    expect(headers).toMatchObject({
      'x-api-key': ANTHROPIC_KEY,
      'anthropic-version': '2023-06-01',
      'anthropic-beta': betas,
    });
    expect(headers['authorization']).toBeUndefined();
    expect(headers['x-custom']).toBeUndefined();
  });

  it('has a version even when the client sends none', async () => {
    await gateway.post('/v1/messages', { model: native, max_tokens: 10, messages: hello });
    expect(lastProviderRequest().headers['anthropic-version']).toBe('2023-06-01');
    expect(lastProviderRequest().headers['anthropic-beta']).toBeUndefined();
  });

  it('follows the routing hint, which the provider does not receive', async () => {
    await create({ model: 'simulated-small', provider: 'anthropic', messages: hello });
    expect(JSON.parse(lastProviderRequest().body)).toEqual({
      model: 'simulated-small',
      max_tokens: 1000,
      messages: hello,
    });
  });

  it('continues a conversation that began with another provider', async () => {
    const requestBody = { messages: user('Think: what is the weather in Paris?'), tools: [weatherTool] };
    const thinking = { type: 'enabled', budget_tokens: 2000 };
    const first = await create({ ...requestBody, model: translated, max_tokens: 4000, thinking });
    expect(first.content.map(({ type }: { type: string }) => type)).toEqual(['thinking', 'tool_use']);
    const result = { type: 'tool_result', tool_use_id: first.content[1].id, content: 'sunny' };
    const messages = [
      ...requestBody.messages,
      { role: 'assistant', content: first.content },
      { role: 'user', content: [result] },
    ];
    expect(await create({ ...requestBody, model: native, messages })).toMatchObject({ stop_reason: 'end_turn' });
    expect(JSON.parse(lastProviderRequest().body).messages[1].content).toEqual([first.content[1]]);
  });

  it('includes cached tokens in the recorded usage', async () => {
    const system = [{ type: 'text', text: 'Be brief. '.repeat(1000), cache_control: { type: 'ephemeral' } }];
    await create({ model: native, system, messages: hello });
    const answer = await post({ model: native, max_tokens: 10, system, messages: hello });
    const { usage } = await json(answer);
    expect(usage.cache_read_input_tokens).toBeGreaterThan(0);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const { cache_read_input_tokens: read, cache_creation_input_tokens: written, input_tokens: rest } = usage;
    expect(events.find(({ type }) => type === 'usage.recorded')?.data).toMatchObject({
      inputTokens: rest + read + written,
      cachedInputTokens: read,
      outputTokens: usage.output_tokens,
    });
  });
});

describe("a native provider's failure", () => {
  it('in mid-stream reaches the client in its own words, once', async () => {
    anthropic.control.next({ errorInStream: 4, message: 'too many of you', type: 'overloaded_error' });
    const { text, exchange } = await stream({ model: native, messages: user('Tell me something.') });
    const errors = eventsOf(text).filter(({ event }) => event === 'error');
    expect(errors).toHaveLength(1);
    expect(JSON.parse(errors[0]?.data ?? '')).toMatchObject({ type: 'error', error: { message: 'too many of you' } });
    const events = await eventsOfExchange(gateway, exchange);
    expect(events.find(({ type }) => type === 'exchange.failed')?.data).toMatchObject({
      reason: 'stream_broken',
      message: 'too many of you',
    });
  });

  it('to finish its stream is an error', async () => {
    anthropic.control.next({ cutAfterChunks: 4 });
    const { text } = await stream({ model: native, messages: user('Tell me something.') });
    expect(JSON.parse(eventsOf(text).at(-1)?.data ?? '')).toMatchObject({
      type: 'error',
      error: { type: 'api_error', details: { error_code: 'stream_incomplete', provider: 'anthropic' } },
    });
  });
});
