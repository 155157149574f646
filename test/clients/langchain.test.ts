/** LangChain's OpenAI package, unchanged, against a gateway: on chat completions and on the Responses API. */
import {
  type AIMessage,
  type AIMessageChunk,
  HumanMessage,
  SystemMessage,
  type ToolMessage,
} from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { both, native, withBothKinds } from '../support/both-kinds.ts';
import { MASTER_KEY } from '../support/gateway.ts';

const { gateway, nativeProvider, learned } = withBothKinds({
  RETRY_MAX_RETRIES: '0',
  CIRCUIT_BREAKER_ENABLED: 'false',
});
beforeAll(learned);

const doors = both.flatMap(([kind, model]) => [
  [`chat completions, ${kind}`, model, false] as const,
  [`the Responses API, ${kind}`, model, true] as const,
]);
const providerOf = (model: string) => (model === native ? nativeProvider : gateway.simulated);

function chat(model: string, useResponsesApi: boolean, more: ConstructorParameters<typeof ChatOpenAI>[0] = {}) {
  const configuration = { baseURL: `${gateway.url}/v1` };
  return new ChatOpenAI({ model, useResponsesApi, apiKey: MASTER_KEY, configuration, maxRetries: 0, ...more });
}

const getWeather = tool(({ city }) => `sunny in ${city}`, {
  name: 'get_weather',
  description: 'The weather in a city',
  schema: z.object({ city: z.string(), unit: z.enum(['celsius', 'fahrenheit']) }),
});

/** All chunks as one. */
async function added(stream: AsyncIterable<AIMessageChunk>): Promise<AIMessageChunk> {
  let whole: AIMessageChunk | undefined;
  for await (const chunk of stream) whole = whole === undefined ? chunk : whole.concat(chunk);
  if (whole === undefined) throw new Error('the stream was empty');
  return whole;
}

describe.each(doors)('ChatOpenAI on %s', (_door, id, useResponsesApi) => {
  it('is invoked', async () => {
    const said = await chat(id, useResponsesApi).invoke([
      new SystemMessage('Obey.'),
      new HumanMessage('Reply with exactly: hello'),
    ]);
    expect(said.text).toBe('hello');
    expect(said.usage_metadata).toMatchObject({ input_tokens: expect.any(Number), output_tokens: 1 });
  });

  it('streams, with its usage', async () => {
    const model = chat(id, useResponsesApi);
    const texts: string[] = [];
    for await (const chunk of await model.stream('Tell me something.')) if (chunk.text !== '') texts.push(chunk.text);
    expect(texts.length).toBeGreaterThan(3);
    const whole = await added(await model.stream('Tell me something.'));
    expect(whole.text).toBe(texts.join(''));
    expect(whole.usage_metadata?.output_tokens).toBeGreaterThan(3);
    expect(whole.usage_metadata?.total_tokens).toBe(
      (whole.usage_metadata?.input_tokens ?? 0) + (whole.usage_metadata?.output_tokens ?? 0),
    );
  });

  it('answers a batch', async () => {
    const answers = await chat(id, useResponsesApi).batch(['Reply with exactly: one', 'Reply with exactly: two']);
    expect(answers.map(({ text }) => text)).toEqual(['one', 'two']);
  });

  it.each([
    ['in one piece', false],
    ['as a stream', true],
  ] as const)('calls the tools it is bound to, and uses their results, %s', async (_how, stream) => {
    const model = chat(id, useResponsesApi).bindTools([getWeather]);
    const ask = async (messages: (HumanMessage | AIMessage | ToolMessage)[]): Promise<AIMessage | AIMessageChunk> =>
      stream ? added(await model.stream(messages)) : model.invoke(messages);
    const messages: (HumanMessage | AIMessage | ToolMessage)[] = [
      new HumanMessage('Think: what is the weather in Paris and Rome?'),
    ];
    const called = await ask(messages);
    expect(called.tool_calls).toMatchObject([
      { name: 'get_weather', args: { city: 'Paris' } },
      { name: 'get_weather', args: { city: 'Rome' } },
    ]);
    expect(called.invalid_tool_calls ?? []).toEqual([]);
    messages.push(called);
    for (const call of called.tool_calls ?? []) messages.push(await getWeather.invoke({ ...call, type: 'tool_call' }));
    const done = await ask(messages);
    expect(done.text).toBe('The result is: sunny in Paris; sunny in Rome');
  });

  it('follows a tool choice', async () => {
    const bound = chat(id, useResponsesApi).bindTools([getWeather], { tool_choice: 'get_weather' });
    expect((await bound.invoke('Reply with exactly: hello')).tool_calls).toHaveLength(1);
    const never = chat(id, useResponsesApi).bindTools([getWeather], { tool_choice: 'none' });
    expect((await never.invoke('Reply with exactly: hello')).text).toBe('hello');
  });

  it.each(['jsonSchema', 'functionCalling', 'jsonMode'] as const)('structures its output by %s', async (method) => {
    const place = z.object({ city: z.string(), inhabitants: z.number().int() });
    const answer = z.object({ answer: z.string() });
    const model = chat(id, useResponsesApi);
    if (method === 'jsonMode') {
      const { answer: said } = await model.withStructuredOutput(answer, { method }).invoke('Reply with JSON.');
      expect(said).toMatch(/\w/);
      return;
    }
    const structured = model.withStructuredOutput(place, { method, name: 'place' });
    expect(await structured.invoke('Tell me of Oslo')).toEqual({
      city: expect.any(String),
      inhabitants: expect.any(Number),
    });
  });

  it('sends back the words of the model', async () => {
    const model = chat(id, useResponsesApi);
    const question = new HumanMessage('Make up a secret.');
    providerOf(id).control.next({ text: 'The secret is rosebud.' });
    const first = await model.invoke([question]);
    const second = await model.invoke([question, first, new HumanMessage('What is the secret?')]);
    expect(second.text).toBe('The secret is rosebud.');
  });

  it("fails with a provider's error, whole or in mid-stream", async () => {
    const model = chat(id, useResponsesApi);
    providerOf(id).control.next({ status: 404, message: 'no luck', code: 'unlucky' });
    await expect(model.invoke('hi')).rejects.toMatchObject({
      status: 404,
      code: 'unlucky',
      message: expect.stringContaining('no luck'),
    });
    providerOf(id).control.next({ errorInStream: 5, message: 'out of memory' });
    await expect(added(await model.stream('Tell me something.'))).rejects.toThrow(/out of memory/);
  });

  it('stops when it is aborted, and so does the provider', async () => {
    providerOf(id).control.next({ holdAfterChunks: 6 });
    const stop = new AbortController();
    const read = async () => {
      for await (const { text } of await chat(id, useResponsesApi).stream('Tell me something.', {
        signal: stop.signal,
      }))
        if (text !== '') stop.abort();
    };
    await expect(read()).rejects.toThrow(/abort/i);
    expect(await providerOf(id).requests.at(-1)?.ended).toBe('aborted');
  });
});

describe.each(both)('ChatOpenAI and stored responses, %s', (_kind, id) => {
  it('continues from a response by its id', async () => {
    const model = chat(id, true);
    const first = await model.invoke('My name is Ada.');
    const previous = String(first.response_metadata['id']);
    expect(previous).toMatch(/^resp_/);
    const second = await model.invoke('What is my name?', { previous_response_id: previous });
    expect(second.text).toBe('Your name is Ada.');
  });

  it('sends everything back, with reasoning, when nothing is stored', async () => {
    const model = chat(id, true, { zdrEnabled: true });
    const question = new HumanMessage('Think, and make up a secret.');
    providerOf(id).control.next({ text: 'The secret is rosebud.' });
    const first = await model.invoke([question]);
    const second = await model.invoke([question, first, new HumanMessage('What is the secret?')]);
    expect(second.text).toBe('The secret is rosebud.');
  });
});

describe('OpenAIEmbeddings', () => {
  it('are vectors, one for each document, in order', async () => {
    const embeddings = new OpenAIEmbeddings({
      model: 'llamacpp/simulated-embed',
      apiKey: MASTER_KEY,
      configuration: { baseURL: `${gateway.url}/v1` },
      batchSize: 2,
      maxRetries: 0,
    });
    const one = await embeddings.embedQuery('b');
    expect(Math.hypot(...one)).toBeCloseTo(1, 5);
    const many = await embeddings.embedDocuments(['a', 'b', 'c']);
    expect(many).toHaveLength(3);
    expect(many[1]).toEqual(one);
  });
});
