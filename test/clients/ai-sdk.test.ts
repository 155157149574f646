/** The Vercel AI SDK, unchanged, against a gateway: each of its model interfaces, and embeddings. */
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import {
  APICallError,
  embed,
  embedMany,
  generateObject,
  generateText,
  isStepCount,
  type LanguageModel,
  type ModelMessage,
  Output,
  streamText,
  ToolLoopAgent,
  tool,
} from 'ai';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { both, native, translated, withBothKinds } from '../support/both-kinds.ts';
import { MASTER_KEY } from '../support/gateway.ts';

Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

const { gateway, nativeProvider, learned } = withBothKinds({
  RETRY_MAX_RETRIES: '0',
  CIRCUIT_BREAKER_ENABLED: 'false',
});
beforeAll(learned);

const settings = () => ({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY });
const openai = () => createOpenAI(settings());
const compatible = () =>
  createOpenAICompatible({ name: 'gateway', includeUsage: true, supportsStructuredOutputs: true, ...settings() });

const doors: readonly (readonly [string, string, (model: string) => LanguageModel])[] = both.flatMap(
  ([kind, model]) => [
    [`its Responses model, ${kind}`, model, (id: string) => openai().responses(id)] as const,
    [`its chat model, ${kind}`, model, (id: string) => openai().chat(id)] as const,
    [`its OpenAI-compatible model, ${kind}`, model, (id: string) => compatible()(id)] as const,
  ],
);

/** The provider that answers for a model. */
const providerOf = (model: string) => (model === native ? nativeProvider : gateway.simulated);

function weatherTool(cities: string[]) {
  return tool({
    description: 'The weather in a city',
    inputSchema: z.object({ city: z.string(), unit: z.enum(['celsius', 'fahrenheit']) }),
    execute: ({ city }) => {
      cities.push(city);
      return `sunny in ${city}`;
    },
  });
}

const place = z.object({ city: z.string(), inhabitants: z.number().int() });

describe.each(doors)('the AI SDK with %s', (door, id, modelOf) => {
  it('generates text, with usage and the reason it ended', async () => {
    const model = modelOf(id);
    const said = await generateText({ model, instructions: 'Obey.', prompt: 'Reply with exactly: hello' });
    expect(said.text).toBe('hello');
    expect(said.finishReason).toBe('stop');
    expect(said.usage.inputTokens).toBeGreaterThan(0);
    expect(said.usage.totalTokens).toBe((said.usage.inputTokens ?? 0) + (said.usage.outputTokens ?? 0));
    expect(said.warnings ?? []).toEqual([]);
    const cut = await generateText({ model, prompt: 'Write 120 words.', maxOutputTokens: 5 });
    expect(cut).toMatchObject({ finishReason: 'length', usage: { outputTokens: 5 } });
  });

  it('streams text', async () => {
    const deltas: string[] = [];
    const result = streamText({ model: modelOf(id), prompt: 'Tell me something.' });
    for await (const delta of result.textStream) deltas.push(delta);
    expect(deltas.length).toBeGreaterThan(3);
    expect(await result.text).toBe(deltas.join(''));
    expect(await result.finishReason).toBe('stop');
    expect((await result.usage).outputTokens).toBeGreaterThan(3);
  });

  it('generates an object by a schema, whole and in parts', async () => {
    const prompt = 'Tell me of Oslo';
    const output = Output.object({ schema: place });
    const whole = await generateText({ model: modelOf(id), output, prompt });
    expect(whole.output).toEqual({ city: expect.any(String), inhabitants: expect.any(Number) });
    const streamed = streamText({ model: modelOf(id), output, prompt });
    const parts: unknown[] = [];
    for await (const part of streamed.partialOutputStream) parts.push(part);
    expect(parts.length).toBeGreaterThan(1);
    expect(await streamed.output).toEqual(whole.output);
    const old = await generateObject({ model: modelOf(id), schema: place, prompt });
    expect(old.object).toEqual(whole.output);
  });

  it('runs tools, several at once, and uses their results', async () => {
    const cities: string[] = [];
    const done = await generateText({
      model: modelOf(id),
      tools: { get_weather: weatherTool(cities) },
      stopWhen: isStepCount(5),
      prompt: 'What is the weather in Paris and Rome?',
    });
    expect(cities).toEqual(['Paris', 'Rome']);
    expect(done.text).toBe('The result is: sunny in Paris; sunny in Rome');
    expect(done.steps.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop']);
  });

  it('runs tools while it streams', async () => {
    const cities: string[] = [];
    const result = streamText({
      model: modelOf(id),
      tools: { get_weather: weatherTool(cities) },
      stopWhen: isStepCount(5),
      prompt: 'What is the weather in Paris and Rome?',
    });
    const types = new Set<string>();
    for await (const { type } of result.fullStream) types.add(type);
    expect(cities).toEqual(['Paris', 'Rome']);
    expect(await result.text).toBe('The result is: sunny in Paris; sunny in Rome');
    for (const type of ['tool-input-start', 'tool-input-delta', 'tool-call', 'tool-result', 'text-delta', 'finish'])
      expect(types).toContain(type);
    expect(types).not.toContain('error');
  });

  it('follows a tool choice', async () => {
    const tools = { get_time: tool({ inputSchema: z.object({ city: z.string() }) }), get_weather: weatherTool([]) };
    const prompt = 'Reply with exactly: hello';
    const none = await generateText({ model: modelOf(id), tools, toolChoice: 'none', prompt });
    expect(none).toMatchObject({ text: 'hello', toolCalls: [] });
    const one = await generateText({
      model: modelOf(id),
      tools,
      toolChoice: { type: 'tool', toolName: 'get_time' },
      prompt,
    });
    expect(one.toolCalls).toMatchObject([{ toolName: 'get_time', input: { city: expect.any(String) } }]);
  });

  it('runs an agent through a conversation of three turns, each with its tools', async () => {
    const cities: string[] = [];
    const agent = new ToolLoopAgent({ model: modelOf(id), tools: { get_weather: weatherTool(cities) } });
    const messages: ModelMessage[] = [];
    for (const city of ['Paris', 'Rome', 'Oslo']) {
      messages.push({ role: 'user', content: `What is the weather in ${city}?` });
      const turn = await agent.generate({ messages });
      expect(turn.text).toBe(`The result is: sunny in ${city}`);
      messages.push(...turn.response.messages);
    }
    expect(cities).toEqual(['Paris', 'Rome', 'Oslo']);
  });

  it('sends back the words of the model', async () => {
    const model = modelOf(id);
    const messages: ModelMessage[] = [{ role: 'user', content: 'Make up a secret.' }];
    providerOf(id).control.next({ text: 'The secret is rosebud.' });
    const first = await generateText({ model, messages });
    messages.push(...first.response.messages, { role: 'user', content: 'What is the secret?' });
    expect((await generateText({ model, messages })).text).toBe('The secret is rosebud.');
  });

  it('shows reasoning apart from the text', async () => {
    const prompt = 'Think, and tell me something.';
    const whole = await generateText({ model: modelOf(id), prompt });
    expect(whole.usage.outputTokenDetails.reasoningTokens).toBeGreaterThan(0);
    const streamed = streamText({ model: modelOf(id), prompt });
    let thought = '';
    for await (const part of streamed.fullStream) if (part.type === 'reasoning-delta') thought += part.text;
    expect(await streamed.text).toBe(whole.text);
    // The chat model of @ai-sdk/openai has only the number of reasoning tokens.
    expect(thought === '').toBe(door.startsWith('its chat model'));
    expect(whole.reasoningText ?? '').toBe(thought);
    expect(whole.text).not.toContain(thought || '<think>');
  });

  it('sends an image', async () => {
    const red = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
    const content = [
      { type: 'text' as const, text: 'Reply with exactly: red' },
      { type: 'file' as const, data: red, mediaType: 'image/png' },
    ];
    const said = await generateText({ model: modelOf(id), messages: [{ role: 'user', content }] });
    expect(said.text).toBe('red');
    expect(providerOf(id).requests.at(-1)?.body).toContain(`data:image/png;base64,${red}`);
  });

  it.each([400, 404, 429, 500, 503])("throws its own error for a provider's %i", async (status) => {
    providerOf(id).control.always({ status, code: 'unlucky', message: 'no luck' });
    const error = await apiErrorOf(generateText({ model: modelOf(id), prompt: 'hi', maxRetries: 0 }));
    expect(error).toMatchObject({ statusCode: status, message: 'no luck' });
    expect(error.data).toMatchObject({ error: { message: 'no luck', code: 'unlucky' } });
    expect(error.isRetryable).toBe(status === 429 || status >= 500);
  });

  it("throws an error about the provider for a provider's 401", async () => {
    providerOf(id).control.always({ status: 401, code: 'unlucky', message: 'no luck' });
    const error = await apiErrorOf(generateText({ model: modelOf(id), prompt: 'hi', maxRetries: 0 }));
    expect(error).toMatchObject({ statusCode: 502, message: expect.stringContaining('no luck') });
    expect(error.data).toMatchObject({ error: { code: 'provider_credentials_refused' } });
  });

  it('retries transient errors', async () => {
    providerOf(id).control.next({ status: 503, retryAfter: 0 });
    const said = await generateText({ model: modelOf(id), prompt: 'Reply with exactly: hello', maxRetries: 1 });
    expect(said.text).toBe('hello');
  });

  it('reports an error in the middle of a stream', async () => {
    providerOf(id).control.next({ errorInStream: 5, message: 'out of memory' });
    const errors: unknown[] = [];
    const result = streamText({
      model: modelOf(id),
      prompt: 'Tell me something.',
      maxRetries: 0,
      onError: ({ error }) => void errors.push(error),
    });
    let text = '';
    for await (const part of result.fullStream) if (part.type === 'text-delta') text += part.text;
    expect(text).not.toBe('');
    expect(errors).toHaveLength(1);
    expect(messageOf(errors[0])).toContain('out of memory');
  });

  it('stops when it is aborted, and so does the provider', async () => {
    providerOf(id).control.next({ holdAfterChunks: 6 });
    const stop = new AbortController();
    const result = streamText({ model: modelOf(id), prompt: 'Tell me something.', abortSignal: stop.signal });
    const types: string[] = [];
    for await (const { type } of result.fullStream) {
      types.push(type);
      if (type === 'text-delta') stop.abort();
    }
    expect(types.at(-1)).toBe('abort');
    expect(await providerOf(id).requests.at(-1)?.ended).toBe('aborted');
    providerOf(id).control.next({ hang: true });
    const providerRequest = providerOf(id).nextRequest();
    const hung = new AbortController();
    const answer = generateText({ model: modelOf(id), prompt: 'hi', abortSignal: hung.signal, maxRetries: 0 });
    answer.catch(() => {});
    const request = await providerRequest;
    hung.abort();
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
    expect(await request.ended).toBe('aborted');
  });
});

describe('embeddings of the AI SDK', () => {
  it.each([
    ['@ai-sdk/openai', () => openai().embedding('llamacpp/simulated-embed')],
    ['@ai-sdk/openai-compatible', () => compatible().embeddingModel('llamacpp/simulated-embed')],
  ])('are vectors, one for each value, in order, by %s', async (_package, modelOf) => {
    const one = await embed({ model: modelOf(), value: 'a' });
    expect(Math.hypot(...one.embedding)).toBeCloseTo(1, 5);
    expect(one.usage.tokens).toBeGreaterThan(0);
    const many = await embedMany({ model: modelOf(), values: ['b', 'a', 'c'], maxParallelCalls: 2 });
    expect(many.embeddings).toHaveLength(3);
    expect(many.embeddings[1]).toEqual(one.embedding);
  });
});

describe("the gateway's own refusals", () => {
  it.each(doors.filter(([, id]) => id === translated))('reach %s', async (_door, _id, modelOf) => {
    const unknown = await apiErrorOf(generateText({ model: modelOf('nobody/x'), prompt: 'hi' }));
    expect(unknown).toMatchObject({ statusCode: 404, isRetryable: false });
    expect(unknown.data).toMatchObject({ error: { code: 'model_not_found', param: 'model' } });
  });
});

async function apiErrorOf(call: PromiseLike<unknown>): Promise<APICallError> {
  try {
    await call;
  } catch (error) {
    if (APICallError.isInstance(error)) return error;
    throw error;
  }
  throw new Error('the call succeeded');
}

/** What a stream reports is an error, or the text of the one in it. */
function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : JSON.stringify(error);
}
