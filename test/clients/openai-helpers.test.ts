/** Helpers of OpenAI's client beyond single calls: parsing, running tools, assembling streams, retrying. */
import OpenAI from 'openai';
import { ResponsesToolRunner, runnerFunction } from 'openai/helpers/responses-tool-runner';
import { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import { toResponseInputItems } from 'openai/lib/responses/ResponseInputItems';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { both, native, translated, withBothKinds } from '../support/both-kinds.ts';
import { MASTER_KEY } from '../support/gateway.ts';

const { gateway, nativeProvider, learned } = withBothKinds({
  RETRY_MAX_RETRIES: '0',
  CIRCUIT_BREAKER_ENABLED: 'false',
});
beforeAll(learned);
const providerOf = (model: string) => (model === native ? nativeProvider : gateway.simulated);

let client: OpenAI;
beforeAll(() => {
  client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY, maxRetries: 0 });
});

const place = z.object({ city: z.string(), inhabitants: z.number().int() });
const where = z.object({ city: z.string() });
const aPlace = { city: expect.any(String), inhabitants: expect.any(Number) };

describe.each(both)("OpenAI's client, %s", (_kind, model) => {
  const weather = zodResponsesFunction({
    name: 'get_weather',
    parameters: where,
    function: ({ city }) => `sunny in ${city}`,
  });

  it('parses a chat answer by a zod schema, whole and from a stream', async () => {
    const requestBody = {
      model,
      messages: [{ role: 'user' as const, content: 'Tell me of Oslo' }],
      response_format: zodResponseFormat(place, 'place'),
    };
    const parsed = await client.chat.completions.parse(requestBody);
    expect(parsed.choices[0]?.message.parsed).toEqual(aPlace);
    const stream = client.chat.completions.stream(requestBody);
    const texts: string[] = [];
    stream.on('content.delta', ({ delta }) => void texts.push(delta));
    const final = await stream.finalChatCompletion();
    expect(final.choices[0]?.message.parsed).toEqual(parsed.choices[0]?.message.parsed);
    expect(texts.join('')).toBe(final.choices[0]?.message.content);
  });

  it('parses the arguments of a chat tool by a zod schema', async () => {
    const parsed = await client.chat.completions.parse({
      model,
      messages: [{ role: 'user', content: 'What is the weather in Paris?' }],
      tools: [zodFunction({ name: 'get_weather', parameters: where })],
    });
    const call = parsed.choices[0]?.message.tool_calls?.[0];
    expect(call?.type === 'function' && call.function.parsed_arguments).toEqual({ city: 'Paris' });
  });

  it('runs tools while a chat streams', async () => {
    const runner = client.chat.completions.runTools({
      model,
      stream: true,
      stream_options: { include_usage: true },
      messages: [{ role: 'user', content: 'What is the weather in Paris and Rome?' }],
      tools: [zodFunction({ name: 'get_weather', parameters: where, function: ({ city }) => `sunny in ${city}` })],
    });
    const events: string[] = [];
    runner.on('functionToolCallResult', (result) => void events.push(result));
    expect(await runner.finalContent()).toBe('The result is: sunny in Paris; sunny in Rome');
    expect(events).toEqual(['sunny in Paris', 'sunny in Rome']);
    expect((await runner.totalUsage()).total_tokens).toBeGreaterThan(0);
  });

  it('parses a response by a zod schema, whole and from a stream', async () => {
    const requestBody = { model, input: 'Tell me of Oslo', text: { format: zodTextFormat(place, 'place') } };
    const parsed = await client.responses.parse(requestBody);
    expect(parsed.output_parsed).toEqual(aPlace);
    const streamed = await client.responses.stream(requestBody).finalResponse();
    expect(streamed.output_parsed).toEqual(parsed.output_parsed);
  });

  it('parses the arguments of functions that a response calls', async () => {
    const requestBody = { model, input: 'What is the weather in Paris and Rome?', tools: [weather] };
    const whole = await client.responses.parse(requestBody);
    const streamed = await client.responses.stream(requestBody).finalResponse();
    for (const { output } of [whole, streamed]) {
      const parsed = output.map((item) => (item.type === 'function_call' ? item.parsed_arguments : item.type));
      expect(parsed).toEqual([{ city: 'Paris' }, { city: 'Rome' }]);
    }
  });

  it('receives the arguments of a call piece by piece', async () => {
    const snapshots: string[] = [];
    const stream = client.responses.stream({ model, input: 'What is the weather in Paris?', tools: [weather] });
    stream.on('response.function_call_arguments.delta', ({ snapshot }) => void snapshots.push(snapshot));
    const { output } = await stream.finalResponse();
    expect(output).toMatchObject([{ type: 'function_call', arguments: snapshots.at(-1) }]);
    expect(snapshots.length).toBeGreaterThan(1);
  });

  it.each([
    ['in one piece', {}],
    ['as a stream', { stream: true }],
    ['as a stream, eagerly', { stream: true, eager: true }],
  ])('runs the functions of responses to the end, %s', async (_how, options) => {
    const runner = new ResponsesToolRunner({ functions: [runnerFunction(weather)] });
    const input = 'Think: what is the weather in Paris and Rome?';
    const final = await runner.run(client, { model, input }, options);
    expect(final.output_text).toBe('The result is: sunny in Paris; sunny in Rome');
  });

  it('converts output into the form of input', async () => {
    const question = { role: 'user' as const, content: 'Think, and make up a secret.' };
    providerOf(model).control.next({ text: 'The secret is rosebud.' });
    const first = await client.responses.create({ model, input: [question], store: false });
    expect(first.output.map(({ type }) => type)).toEqual(['reasoning', 'message']);
    const input = [question, ...toResponseInputItems(first.output), { ...question, content: 'What is the secret?' }];
    const second = await client.responses.create({ model, input, store: false });
    expect(second.output_text).toBe('The secret is rosebud.');
  });

  it('shows the raw answer beside the parsed one', async () => {
    const { data, response, request_id } = await client.responses
      .create({ model, input: 'Reply with exactly: hello' })
      .withResponse();
    expect(data.output_text).toBe('hello');
    expect(response.headers.get('x-exchange-id')).toMatch(/./);
    expect(request_id).toBe(response.headers.get('x-request-id'));
    const raw = await client.responses.create({ model, input: 'Reply with exactly: hello', stream: true }).asResponse();
    expect(raw.headers.get('content-type')).toContain('text/event-stream');
    expect(await raw.text()).toContain('event: response.completed\n');
  });

  it('converts a stream into a ReadableStream and back', async () => {
    const stream = client.responses.stream({ model, input: 'Reply with exactly: hello' });
    const { ResponseStream } = await import('openai/lib/responses/ResponseStream');
    const again = ResponseStream.fromReadableStream(
      (await client.responses.create({ model, input: 'Reply with exactly: hello', stream: true })).toReadableStream(),
    );
    expect((await again.finalResponse()).output).toMatchObject([{ content: [{ text: 'hello' }] }]);
    expect((await stream.finalResponse()).output_text).toBe('hello');
  });

  it('ends the provider call at its own timeout', async () => {
    providerOf(model).control.next({ hang: true });
    const providerRequest = providerOf(model).nextRequest();
    const call = client.responses.create({ model, input: 'hi' }, { timeout: 200 });
    await expect(call).rejects.toBeInstanceOf(OpenAI.APIConnectionTimeoutError);
    expect(await (await providerRequest).ended).toBe('aborted');
  });

  it('ends the provider call when it is aborted', async () => {
    providerOf(model).control.next({ hang: true });
    const providerRequest = providerOf(model).nextRequest();
    const stop = new AbortController();
    const call = client.responses.create({ model, input: 'hi' }, { signal: stop.signal });
    call.catch(() => {});
    const request = await providerRequest;
    stop.abort();
    await expect(call).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    expect(await request.ended).toBe('aborted');
  });
});

describe('the retries of OpenAI’s client', () => {
  /** The statuses that a client with two retries receives. */
  async function statusesOf(ask: (client: OpenAI) => PromiseLike<unknown>): Promise<number[]> {
    const statuses: number[] = [];
    const patient = new OpenAI({
      baseURL: `${gateway.url}/v1`,
      apiKey: MASTER_KEY,
      maxRetries: 2,
      fetch: async (url, init) => {
        const answer = await fetch(url, init);
        statuses.push(answer.status);
        return answer;
      },
    });
    await Promise.resolve(ask(patient)).catch(() => {});
    return statuses;
  }
  const create = (model: string) => (patient: OpenAI) => patient.responses.create({ model, input: 'hi' });

  it.each([
    [429, 0, [429, 429, 429]],
    [503, 0, [503, 503, 503]],
    [500, undefined, [500, 500, 500]],
    [400, undefined, [400]],
    [401, undefined, [502, 502, 502]],
    [404, undefined, [404]],
    [422, undefined, [422]],
  ])("follow a provider's %i", async (status, retryAfter, seen) => {
    gateway.simulated.control.always({ status, ...(retryAfter === undefined ? {} : { retryAfter }) });
    expect(await statusesOf(create(translated))).toEqual(seen);
  });

  it('do not follow a final refusal of the gateway', async () => {
    expect(await statusesOf(create('nobody/x'))).toEqual([404]);
    expect(await statusesOf((patient) => patient.responses.create({ model: translated }))).toEqual([400]);
    expect(await statusesOf((patient) => patient.responses.retrieve('resp_none'))).toEqual([404]);
    expect(await statusesOf((patient) => patient.get('/responses/resp_none?provider=llamacpp'))).toEqual([501]);
    expect(await statusesOf((patient) => patient.post('/nothing/here'))).toEqual([404]);
  });
});
