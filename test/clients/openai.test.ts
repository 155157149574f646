/** OpenAI's own client, unchanged, against a gateway. */
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider, type SimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { MASTER_KEY } from '../support/gateway.ts';
import { eventsUntil, weather, withGateway } from '../support/with-gateway.ts';

let native: SimulatedProvider;
const gateway = withGateway(async () => {
  native = createSimulatedProvider({ apiKey: 'sk-native' });
  const url = await native.listen();
  return {
    simulated: { responses: 'absent' },
    register: (own) => ({ LLAMACPP_BASE_URL: own, OPENAI_BASE_URL: url, OPENAI_API_KEY: 'sk-native' }),
    env: { RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' },
  };
});
afterAll(() => native.close());

let client: OpenAI;
beforeAll(() => {
  client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY, maxRetries: 0 });
});

const kinds = [
  ['a translated provider', 'llamacpp/simulated-small'],
  ['a native provider', 'openai/simulated-small'],
] as const;
const hello = [{ role: 'user' as const, content: 'Reply with exactly: hello' }];
const posts = () =>
  [...gateway.simulated.requests, ...native.requests].filter(({ method }) => method === 'POST').length;

/** The error that a call must end with. */
async function errorOf(call: PromiseLike<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  try {
    await call;
  } catch (error) {
    if (error instanceof OpenAI.APIError) return error;
    throw error;
  }
  throw new Error('the call succeeded');
}

describe.each(kinds)("OpenAI's client with %s", (_kind, model) => {
  const tool = { type: 'function' as const, strict: true, ...weather };

  it('chats', async () => {
    const answer = await client.chat.completions.create({ model, messages: hello });
    expect(answer.choices[0]?.message.content).toBe('hello');
    expect(answer.usage?.total_tokens).toBeGreaterThan(0);
  });

  it('iterates over a chat stream, with its usage on request', async () => {
    const requestBody = { model, messages: hello, stream: true } as const;
    let text = '';
    for await (const chunk of await client.chat.completions.create(requestBody)) {
      expect(chunk.choices).toHaveLength(1);
      text += chunk.choices[0]?.delta.content ?? '';
    }
    expect(text).toBe('hello');
    const chunks = [];
    for await (const chunk of await client.chat.completions.create({
      ...requestBody,
      stream_options: { include_usage: true },
    })) {
      chunks.push(chunk);
    }
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } });
  });

  it('assembles a chat stream, with text and with tool calls', async () => {
    const said = await client.chat.completions.stream({ model, messages: hello }).finalChatCompletion();
    expect(said.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'hello' } });
    const called = await client.chat.completions
      .stream({
        model,
        messages: [{ role: 'user', content: 'What is the weather in Paris?' }],
        tools: [{ type: 'function', function: weather }],
      })
      .finalChatCompletion();
    const call = called.choices[0]?.message.tool_calls?.[0];
    expect(call?.type === 'function' && JSON.parse(call.function.arguments)).toMatchObject({ city: 'Paris' });
  });

  it('runs tools to the end', async () => {
    const requests: unknown[] = [];
    const runner = client.chat.completions.runTools({
      model,
      messages: [{ role: 'user', content: 'What is the weather in Paris and Rome?' }],
      tools: [
        {
          type: 'function',
          function: {
            ...weather,
            parse: JSON.parse,
            function: (given: { city: string }) => {
              requests.push(given.city);
              return `sunny in ${given.city}`;
            },
          },
        },
      ],
    });
    expect(await runner.finalContent()).toBe('The result is: sunny in Paris; sunny in Rome');
    expect(requests).toEqual(['Paris', 'Rome']);
  });

  it('creates a response and reads its text', async () => {
    const response = await client.responses.create({
      model,
      input: 'Reply with exactly: hello',
      instructions: 'Obey.',
    });
    expect(response.output_text).toBe('hello');
    expect(response.status).toBe('completed');
  });

  it('iterates over a response stream', async () => {
    const types: string[] = [];
    for await (const event of await client.responses.create({
      model,
      input: 'Reply with exactly: hello',
      stream: true,
    })) {
      types.push(event.type);
    }
    expect(types[0]).toBe('response.created');
    expect(types.at(-1)).toBe('response.completed');
  });

  it('assembles a response stream, with text, reasoning and function calls', async () => {
    const deltas: string[] = [];
    const stream = client.responses.stream({ model, input: 'Think, and tell me something.' });
    stream.on('response.output_text.delta', ({ delta }) => deltas.push(delta));
    const said = await stream.finalResponse();
    expect(said.output.map(({ type }) => type)).toEqual(['reasoning', 'message']);
    expect(deltas.join('')).toBe(said.output_text);
    expect(said.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);

    const input = 'What is the weather in Paris and Rome?';
    const called = await client.responses.stream({ model, input, tools: [tool] }).finalResponse();
    expect(called.output).toMatchObject([
      { type: 'function_call', name: 'get_weather', status: 'completed' },
      { type: 'function_call', name: 'get_weather', status: 'completed' },
    ]);
  });

  it('parses an answer by a schema', async () => {
    const schema = {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    };
    const format = { type: 'json_schema' as const, name: 'place', schema, strict: true };
    const parsed = await client.responses.parse({ model, input: 'Tell me of Oslo', text: { format } });
    expect(JSON.parse(parsed.output_text)).toEqual({ city: expect.any(String) });
  });

  it('retrieves, lists and deletes a response', async () => {
    const input = Array.from({ length: 45 }, (_, n) => ({ role: 'user' as const, content: `number ${n}` }));
    const created = await client.responses.create({ model, input });
    expect(await client.responses.retrieve(created.id)).toMatchObject({
      id: created.id,
      output_text: created.output_text,
    });
    const items = [];
    for await (const item of client.responses.inputItems.list(created.id, { order: 'asc', limit: 10 }))
      items.push(item);
    expect(items).toHaveLength(45);
    expect(new Set(items.map(({ id }) => id)).size).toBe(45);
    expect(items[44]).toMatchObject({ role: 'user', content: [{ type: 'input_text', text: 'number 44' }] });
    await client.responses.delete(created.id);
    expect(await errorOf(client.responses.retrieve(created.id))).toBeInstanceOf(OpenAI.NotFoundError);
  });

  it('continues a conversation by the id of its last response', async () => {
    const first = await client.responses.create({ model, input: 'My name is Ada.' });
    const second = await client.responses
      .stream({ model, input: 'I live by the sea.', previous_response_id: first.id })
      .finalResponse();
    const third = await client.responses.create({ model, input: 'What is my name?', previous_response_id: second.id });
    expect(third.output_text).toBe('Your name is Ada.');
  });

  it('continues a conversation by sending everything back', async () => {
    const question = { role: 'user' as const, content: 'Think: what is the weather in Paris?' };
    const first = await client.responses.create({ model, input: [question], tools: [tool] });
    // Output may be sent back as input, although the types of this release do not state it for all items.
    const said = first.output as OpenAI.Responses.ResponseInputItem[];
    const outputs = first.output.flatMap((item) =>
      item.type === 'function_call'
        ? [{ type: 'function_call_output' as const, call_id: item.call_id, output: 'sunny' }]
        : [],
    );
    const input = [question, ...said, ...outputs];
    const second = await client.responses.create({ model, input, tools: [tool] });
    expect(second.output_text).toBe('The result is: sunny');
  });
});

describe("OpenAI's client", () => {
  it('embeds, in base64 under the hood', async () => {
    const { data } = await client.embeddings.create({
      model: 'llamacpp/simulated-embed',
      input: ['a', 'b'],
      dimensions: 8,
    });
    expect(data.map(({ embedding }) => embedding.length)).toEqual([8, 8]);
    expect(Math.hypot(...(data[0]?.embedding ?? []))).toBeCloseTo(1, 5);
    expect(JSON.parse(gateway.lastProviderRequest().body).encoding_format).toBe('base64');
  });

  it('lists the models, and finds one by its id', async () => {
    const ids: string[] = [];
    for await (const { id } of client.models.list()) ids.push(id);
    expect(ids).toContain('llamacpp/simulated-small');
    expect(ids).toContain('openai/simulated-small');
    for (const id of ids) expect((await client.models.retrieve(id)).id).toBe(id);
    expect(await errorOf(client.models.retrieve('llamacpp/nothing'))).toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
  });

  it.each([
    [400, OpenAI.BadRequestError],
    [403, OpenAI.PermissionDeniedError],
    [404, OpenAI.NotFoundError],
    [409, OpenAI.ConflictError],
    [422, OpenAI.UnprocessableEntityError],
    [429, OpenAI.RateLimitError],
    [500, OpenAI.InternalServerError],
    [503, OpenAI.InternalServerError],
  ])("throws its own error for a provider's %i", async (status, kind) => {
    gateway.simulated.control.always({ status, code: 'unlucky', message: 'no luck' });
    for (const more of [{}, { stream: true as const }]) {
      const model = 'llamacpp/simulated-small';
      const error = await errorOf(client.chat.completions.create({ model, messages: hello, ...more }));
      expect(error).toBeInstanceOf(kind);
      expect(error).toMatchObject({ status, code: 'unlucky', requestID: expect.stringMatching(/./) });
      expect(error.message).toContain('no luck');
    }
  });

  it("throws an error about the provider for a provider's 401", async () => {
    gateway.simulated.control.always({ status: 401, code: 'invalid_api_key', message: 'no luck' });
    const model = 'llamacpp/simulated-small';
    const error = await errorOf(client.chat.completions.create({ model, messages: hello }));
    expect(error).toBeInstanceOf(OpenAI.InternalServerError);
    expect(error).toMatchObject({ status: 502, code: 'provider_credentials_refused' });
    expect(error.message).toContain('no luck');
  });

  it('throws its own errors for those of the gateway', async () => {
    const wrong = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'wrong', maxRetries: 0 });
    expect(await errorOf(wrong.models.list())).toBeInstanceOf(OpenAI.AuthenticationError);
    const unknown = await errorOf(client.chat.completions.create({ model: 'nobody/x', messages: hello }));
    expect(unknown).toBeInstanceOf(OpenAI.NotFoundError);
    expect(unknown).toMatchObject({ code: 'model_not_found', param: 'model', type: 'not_found_error' });
    const missing = await errorOf(client.responses.create({ model: 'llamacpp/simulated-small' }));
    expect(missing).toBeInstanceOf(OpenAI.BadRequestError);
    expect(missing).toMatchObject({ code: 'missing_required_parameter', param: 'input' });
    const previous = { model: 'llamacpp/simulated-small', input: 'hi', previous_response_id: 'resp_none' };
    expect(await errorOf(client.responses.create(previous))).toMatchObject({
      status: 404,
      code: 'previous_response_not_found',
      param: 'previous_response_id',
    });
  });

  it('throws when a stream reports an error', async () => {
    for (const ask of [
      () => client.chat.completions.create({ model: 'llamacpp/simulated-small', messages: hello, stream: true }),
      () => client.responses.create({ model: 'llamacpp/simulated-small', input: 'hi there', stream: true }),
    ]) {
      gateway.simulated.control.next({ errorInStream: 3, message: 'out of memory' });
      const read = async () => {
        for await (const _ of await ask());
      };
      await expect(read()).rejects.toThrow(/out of memory/);
    }
    gateway.simulated.control.next({ errorInStream: 3, message: 'out of memory' });
    const stream = client.responses.stream({ model: 'llamacpp/simulated-small', input: 'hi there' });
    await expect(stream.finalResponse()).rejects.toThrow(/out of memory/);
  });

  it('retries what may succeed the next time, and only that', async () => {
    const patient = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY, maxRetries: 1 });
    // A request of its own each time: an answer from a cache would hide the faults.
    const ask = () =>
      patient.chat.completions.create({
        model: 'llamacpp/simulated-small',
        messages: hello,
        user: crypto.randomUUID(),
      });
    gateway.simulated.control.next({ status: 429, retryAfter: 0 });
    const before = posts();
    expect((await ask()).choices[0]?.message.content).toBe('hello');
    expect(posts() - before).toBe(2);
    gateway.simulated.control.always({ status: 400 });
    expect(await errorOf(ask())).toBeInstanceOf(OpenAI.BadRequestError);
    expect(posts() - before).toBe(3);
  });

  it('does not retry what the gateway marks as not retryable', async () => {
    const calls: number[] = [];
    const counting = new OpenAI({
      baseURL: `${gateway.url}/v1`,
      apiKey: MASTER_KEY,
      maxRetries: 2,
      fetch: async (url, init) => {
        const answer = await fetch(url, init);
        calls.push(answer.status);
        return answer;
      },
    });
    await errorOf(counting.get('/responses/resp_none?provider=llamacpp'));
    expect(calls).toEqual([501]);
  });

  it('is recorded with its user agent', async () => {
    const answer = await client.chat.completions
      .create({ model: 'llamacpp/simulated-small', messages: hello })
      .withResponse();
    const id = answer.response.headers.get('x-exchange-id');
    const [received] = await eventsUntil(gateway, `stream=exchange-${id}`, ({ type }) => type === 'request.received');
    expect(received?.data.headers).toMatchObject({
      'user-agent': expect.stringContaining('OpenAI/JS'),
      'x-stainless-lang': 'js',
      authorization: '[REDACTED]',
    });
    expect(answer.request_id).toBe(received?.requestId);
  });
});
