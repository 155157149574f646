import { describe, expect, it } from 'vitest';
import { errorOf, eventsOfExchange, exchangeOf, json, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway();
const PATH = '/v1/embeddings';
const model = 'llamacpp/simulated-embed';

const embed = async (body: object) => json(await gateway.post(PATH, { model, ...body }));

describe('embeddings', () => {
  it.each([
    ['a text', 'hello world', 1],
    ['several texts', ['hello', 'world', ''], 3],
    ['tokens', [101, 7592, 102], 1],
    ['several lists of tokens', [[101, 102], [103]], 2],
  ])('are created from %s', async (_form, input, count) => {
    const { object, data, usage } = await embed({ input });
    expect(object).toBe('list');
    expect(data.map(({ index }: { index: number }) => index)).toEqual(
      Array.from({ length: count }, (_, index) => index),
    );
    for (const { embedding } of data) expect(embedding).toHaveLength(64);
    expect(usage).toMatchObject({ prompt_tokens: expect.any(Number), total_tokens: usage.prompt_tokens });
    expect(JSON.parse(gateway.lastProviderRequest().body)).toEqual({ model: 'simulated-embed', input });
  });

  it('are returned as base64 on request, with the same numbers', async () => {
    const floats = (await embed({ input: 'hello' })).data[0].embedding;
    const base64 = (await embed({ input: 'hello', encoding_format: 'base64' })).data[0].embedding;
    const bytes = Buffer.from(base64, 'base64');
    const decoded = floats.map((_: number, index: number) => bytes.readFloatLE(index * 4));
    expect(decoded).toEqual(floats.map(Math.fround));
  });

  it('have the requested number of dimensions', async () => {
    expect((await embed({ input: 'hello', dimensions: 8 })).data[0].embedding).toHaveLength(8);
  });

  it('are routed to any model of the provider, whatever its category', async () => {
    expect((await embed({ model: 'llamacpp/simulated-small', input: 'hello' })).data).toHaveLength(1);
  });

  it('reach the provider with unknown members, and are returned byte for byte', async () => {
    const body = `{"input":"hi", "x":1.50,"provider":"llamacpp","model":"${model}"}`;
    const answer = await gateway.post(PATH, body);
    expect(gateway.lastProviderRequest().body).toBe('{"input":"hi", "x":1.50,"model":"simulated-embed"}');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(await answer.text()).toBe(events.find(({ type }) => type === 'chunk.received')?.body);
    expect(events.at(-1)).toMatchObject({ type: 'usage.recorded', data: { endpoint: PATH, inputTokens: 1 } });
  });

  it.each([
    ['no input', {}, 'input', 'missing_required_parameter'],
    ['null', { input: null }, 'input', 'missing_required_parameter'],
    ['an empty text', { input: '' }, 'input', 'invalid_value'],
    ['an empty list', { input: [] }, 'input', 'invalid_value'],
    ['a number', { input: 42 }, 'input', 'invalid_type'],
    ['an object', { input: {} }, 'input', 'invalid_type'],
  ])('are refused for %s, naming the member', async (_what, body, param, code) => {
    expect(await errorOf(await gateway.post(PATH, { model, ...body }), 400)).toMatchObject({
      type: 'invalid_request_error',
      param,
      code,
    });
  });

  it("are refused in the provider's own words when the provider refuses", async () => {
    const answer = await gateway.post(PATH, { model, input: 'hello', dimensions: 0 });
    expect(await errorOf(answer, 400)).toMatchObject({
      type: 'invalid_request_error',
      param: 'dimensions',
      provider: 'llamacpp',
      message: expect.stringContaining('4096'),
    });
  });

  it('are not streamed, and a `stream` member has no effect', async () => {
    const answer = await gateway.post(PATH, { model, input: 'hello', stream: true });
    expect(answer.status).toBe(200);
    expect((await json(answer)).data).toHaveLength(1);
  });
});
