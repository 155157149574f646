/** Anthropic's own client, unchanged, against a gateway. */
import Anthropic from '@anthropic-ai/sdk';
import { beforeAll, describe, expect, it } from 'vitest';
import { MASTER_KEY } from '../support/gateway.ts';
import { both, native, translated, weatherTool, withMessageKinds } from '../support/message-kinds.ts';

const { gateway, anthropic } = withMessageKinds({ RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' });

let client: Anthropic;
beforeAll(() => {
  client = new Anthropic({ baseURL: gateway.url, apiKey: MASTER_KEY, maxRetries: 0 });
});

const hello: Anthropic.MessageParam[] = [{ role: 'user', content: 'Reply with exactly: hello' }];
const weatherIn = (cities: string): Anthropic.MessageParam[] => [
  { role: 'user', content: `What is the weather in ${cities}?` },
];

/** The error that a call must end with. */
async function errorOf(call: PromiseLike<unknown>): Promise<InstanceType<typeof Anthropic.APIError>> {
  try {
    await call;
  } catch (error) {
    if (error instanceof Anthropic.APIError) return error;
    throw error;
  }
  throw new Error('the call succeeded');
}

function resultsFor(message: Anthropic.Message): Anthropic.MessageParam {
  const calls = message.content.filter((block) => block.type === 'tool_use');
  return {
    role: 'user',
    content: calls.map(({ id, input }) => ({
      type: 'tool_result',
      tool_use_id: id,
      content: `sunny in ${Object(input).city}`,
    })),
  };
}

describe.each(both)("Anthropic's client with a provider that is %s", (_kind, model) => {
  const params = { model, max_tokens: 1000 };

  it('creates a message', async () => {
    const message = await client.messages.create({ ...params, messages: hello });
    expect(message).toMatchObject({ role: 'assistant', stop_reason: 'end_turn', content: [{ text: 'hello' }] });
    expect(message.usage.output_tokens).toBeGreaterThan(0);
    expect(message._request_id).toMatch(/./);
  });

  it('iterates over a stream', async () => {
    const types = new Set<string>();
    let text = '';
    for await (const event of await client.messages.create({ ...params, messages: hello, stream: true })) {
      types.add(event.type);
      if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text;
    }
    expect(text).toBe('hello');
    expect([...types]).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
  });

  it('assembles a stream, with reasoning, text and usage', async () => {
    const thoughts: string[] = [];
    const stream = client.messages.stream({
      ...params,
      max_tokens: 4000,
      thinking: { type: 'enabled', budget_tokens: 2000 },
      messages: [{ role: 'user', content: 'Tell me something.' }],
    });
    stream.on('thinking', (piece) => thoughts.push(piece));
    const message = await stream.finalMessage();
    expect(message.content.map(({ type }) => type)).toEqual(['thinking', 'text']);
    expect(message.content[0]).toMatchObject({ thinking: thoughts.join(''), signature: expect.stringMatching(/./) });
    expect(message.usage.input_tokens).toBeGreaterThan(0);
    expect(await stream.finalText()).toBe(Object(message.content[1]).text);
  });

  it('runs a tool loop, whole and streamed', async () => {
    for (const streamed of [false, true]) {
      const messages = weatherIn('Paris and Rome');
      const ask = () => {
        const body = { ...params, messages, tools: [weatherTool] };
        return streamed ? client.messages.stream(body).finalMessage() : client.messages.create(body);
      };
      const first = await ask();
      expect(first.stop_reason).toBe('tool_use');
      expect(first.content).toMatchObject([{ input: { city: 'Paris' } }, { input: { city: 'Rome' } }]);
      messages.push({ role: 'assistant', content: first.content }, resultsFor(first));
      const last = await ask();
      expect(last.content).toMatchObject([{ text: 'The result is: sunny in Paris; sunny in Rome' }]);
    }
  });

  it('demands a tool by name', async () => {
    const message = await client.messages.create({
      ...params,
      messages: hello,
      tools: [weatherTool],
      tool_choice: { type: 'tool', name: 'get_weather', disable_parallel_tool_use: true },
    });
    expect(message.content).toMatchObject([{ type: 'tool_use', name: 'get_weather' }]);
  });

  it('parses an answer by a schema', async () => {
    const schema = {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    };
    const message = await client.messages.parse({
      ...params,
      messages: [{ role: 'user', content: 'Tell me of Oslo' }],
      output_config: { format: { type: 'json_schema', schema } },
    });
    const [block] = message.content;
    expect(JSON.parse(block?.type === 'text' ? block.text : '')).toEqual({ city: expect.any(String) });
  });

  it('counts tokens', async () => {
    const few = await client.messages.countTokens({ model, messages: hello });
    const more = await client.messages.countTokens({
      model,
      messages: hello,
      system: 'Be brief.',
      tools: [weatherTool],
    });
    expect(more.input_tokens).toBeGreaterThan(few.input_tokens);
  });

  it('throws the error class of each status', async () => {
    const provider = model === native ? anthropic : gateway.simulated;
    const path = model === native ? '/v1/messages' : '/v1/chat/completions';
    for (const [status, type, kind] of [
      [400, 'invalid_request_error', Anthropic.BadRequestError],
      [429, 'rate_limit_error', Anthropic.RateLimitError],
      [500, 'api_error', Anthropic.InternalServerError],
      [529, 'overloaded_error', Anthropic.InternalServerError],
    ] as const) {
      provider.control.next({ status, message: 'no luck' }, { path });
      const error = await errorOf(client.messages.create({ ...params, messages: hello }));
      expect(error).toBeInstanceOf(kind);
      expect(error).toMatchObject({ status, type, message: expect.stringContaining('no luck') });
      expect(error.requestID).toMatch(/./);
    }
  });

  it('throws an error in the middle of a stream', async () => {
    const provider = model === native ? anthropic : gateway.simulated;
    provider.control.next({ errorInStream: 4, message: 'out of memory' });
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'Tell me something.' }];
    const error = await errorOf(client.messages.stream({ ...params, messages }).finalMessage());
    expect(error.message).toContain('out of memory');
  });

  it('retries when it should', async () => {
    const provider = model === native ? anthropic : gateway.simulated;
    const path = model === native ? '/v1/messages' : '/v1/chat/completions';
    provider.control.next({ status: 529, message: 'busy', retryAfter: 0 }, { path });
    const patient = client.withOptions({ maxRetries: 1 });
    expect(await patient.messages.create({ ...params, messages: hello })).toMatchObject({
      content: [{ text: 'hello' }],
    });
  });
});

describe("Anthropic's client", () => {
  it('runs tools by itself, sending everything back where no thread is stored', async () => {
    const cities: string[] = [];
    const runner = client.beta.messages.toolRunner({
      model: translated,
      max_tokens: 1000,
      messages: [{ role: 'user', content: 'What is the weather in Oslo?' }],
      tools: [
        {
          ...weatherTool,
          type: 'custom',
          parse: (input: unknown) => Object(input),
          run: ({ city }: { city: string }) => {
            cities.push(city);
            return `snow in ${city}`;
          },
        },
      ],
    });
    expect((await runner).content).toMatchObject([{ text: 'The result is: snow in Oslo' }]);
    expect(cities).toEqual(['Oslo']);
    expect(JSON.parse(gateway.lastProviderRequest().body).messages).toHaveLength(3);
  });

  it('lists and finds models', async () => {
    const ids: string[] = [];
    for await (const model of client.models.list({ limit: 2 })) ids.push(model.id);
    expect(ids).toEqual(expect.arrayContaining([translated, native]));
    expect(new Set(ids).size).toBe(ids.length);
    expect(await client.models.retrieve(native)).toMatchObject({ id: native, type: 'model' });
    expect(await errorOf(client.models.retrieve('nobody'))).toBeInstanceOf(Anthropic.NotFoundError);
  });

  it('throws an AuthenticationError for a wrong key', async () => {
    const stranger = client.withOptions({ apiKey: 'wrong' });
    const error = await errorOf(stranger.messages.create({ model: translated, max_tokens: 1, messages: hello }));
    expect(error).toBeInstanceOf(Anthropic.AuthenticationError);
    expect(error.type).toBe('authentication_error');
  });
});
