/** OpenAI's agents SDK, unchanged, against a gateway: on the Responses API and on chat completions. */
import { Agent, type AgentInputItem, handoff, MemorySession, OpenAIProvider, Runner, tool } from '@openai/agents';
import { removeAllTools } from '@openai/agents-core/extensions';
import OpenAI from 'openai';
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
  [`the Responses API, ${kind}`, model, true] as const,
  [`chat completions, ${kind}`, model, false] as const,
]);
const providerOf = (model: string) => (model === native ? nativeProvider : gateway.simulated);

/** Traces would be sent to OpenAI. */
function runnerFor(useResponses: boolean): Runner {
  const openAIClient = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY, maxRetries: 0 });
  return new Runner({ modelProvider: new OpenAIProvider({ openAIClient, useResponses }), tracingDisabled: true });
}

function weatherTool(cities: string[]) {
  return tool({
    name: 'get_weather',
    description: 'The weather in a city',
    parameters: z.object({ city: z.string(), unit: z.enum(['celsius', 'fahrenheit']) }),
    execute: async ({ city }) => {
      cities.push(city);
      return `sunny in ${city}`;
    },
  });
}

const asks = (content: string): AgentInputItem => ({ role: 'user', content });

describe.each(doors)('an agent on %s', (_door, model, useResponses) => {
  it('answers, with usage', async () => {
    const agent = new Agent({ name: 'Clerk', instructions: 'Obey.', model });
    const result = await runnerFor(useResponses).run(agent, 'Reply with exactly: hello');
    expect(result.finalOutput).toBe('hello');
    expect(result.runContext.usage).toMatchObject({ requests: 1, inputTokens: expect.any(Number) });
    expect(result.runContext.usage.totalTokens).toBeGreaterThan(0);
  });

  it('runs its tools, several at once', async () => {
    const cities: string[] = [];
    const agent = new Agent({ name: 'Clerk', model, tools: [weatherTool(cities)] });
    const result = await runnerFor(useResponses).run(agent, 'What is the weather in Paris and Rome?');
    expect(cities.sort()).toEqual(['Paris', 'Rome']);
    expect(result.finalOutput).toBe('The result is: sunny in Paris; sunny in Rome');
    expect(result.runContext.usage.requests).toBe(2);
  });

  it('streams its text and its tools', async () => {
    const agent = new Agent({ name: 'Clerk', model, tools: [weatherTool([])] });
    const result = await runnerFor(useResponses).run(agent, 'What is the weather in Paris?', { stream: true });
    let text = '';
    const events: string[] = [];
    for await (const event of result) {
      if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') text += event.data.delta;
      if (event.type === 'run_item_stream_event') events.push(event.name);
    }
    await result.completed;
    expect(result.finalOutput).toBe('The result is: sunny in Paris');
    expect(text).toBe(result.finalOutput);
    expect(events).toEqual(['tool_called', 'tool_output', 'message_output_created']);
  });

  it('gives an answer in its declared form', async () => {
    const outputType = z.object({ city: z.string(), inhabitants: z.number().int() });
    const agent = new Agent({ name: 'Clerk', model, outputType });
    const { finalOutput } = await runnerFor(useResponses).run(agent, 'Tell me of Oslo');
    expect(finalOutput).toEqual({ city: expect.any(String), inhabitants: expect.any(Number) });
  });

  it('hands off to another agent, which continues', async () => {
    const cities: string[] = [];
    const expert = new Agent({ name: 'Weather expert', model, tools: [weatherTool(cities)] });
    const plain = new Agent({ name: 'Desk', model, handoffs: [expert] });
    const runner = runnerFor(useResponses);
    const kept = await runner.run(plain, 'What is the weather in Paris?');
    expect(kept.lastAgent?.name).toBe('Weather expert');
    expect(kept.finalOutput).toMatch(/^The result is: /);
    const filtering = new Agent({
      name: 'Desk',
      model,
      handoffs: [handoff(expert, { inputFilter: removeAllTools })],
    });
    const fresh = await runner.run(filtering, 'What is the weather in Paris?');
    expect(fresh.finalOutput).toBe('The result is: sunny in Paris');
    expect(cities).toEqual(['Paris']);
  });

  it('continues from its own history, with reasoning and tools', async () => {
    const runner = runnerFor(useResponses);
    const agent = new Agent({ name: 'Clerk', model, tools: [weatherTool([])] });
    const first = await runner.run(agent, [asks('Think: what is the weather in Paris?')]);
    expect(first.finalOutput).toBe('The result is: sunny in Paris');
    providerOf(model).control.next({ text: 'The secret is rosebud.' });
    const second = await runner.run(agent, [...first.history, asks('Reply with a secret.')]);
    const third = await runner.run(agent.clone({ tools: [] }), [...second.history, asks('What is the secret?')]);
    expect(third.finalOutput).toBe('The secret is rosebud.');
  });

  it('continues from a session', async () => {
    const runner = runnerFor(useResponses);
    const agent = new Agent({ name: 'Clerk', model });
    const session = new MemorySession();
    await runner.run(agent, 'My name is Ada.', { session });
    const second = await runner.run(agent, 'What is my name?', { session });
    expect(second.finalOutput).toBe('Your name is Ada.');
  });

  it("fails with a provider's error, whole or in mid-stream", async () => {
    const runner = runnerFor(useResponses);
    const agent = new Agent({ name: 'Clerk', model });
    providerOf(model).control.next({ status: 400, message: 'no luck' });
    await expect(runner.run(agent, 'hi')).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('no luck'),
    });
    providerOf(model).control.next({ errorInStream: 5, message: 'out of memory' });
    const read = async () => {
      const result = await runner.run(agent, 'Tell me something.', { stream: true });
      for await (const _ of result);
      await result.completed;
    };
    await expect(read()).rejects.toThrow(/out of memory/);
  });

  it('stops when it is aborted, and so does the provider', async () => {
    providerOf(model).control.next({ hang: true });
    const providerRequest = providerOf(model).nextRequest();
    const stop = new AbortController();
    const run = runnerFor(useResponses).run(new Agent({ name: 'Clerk', model }), 'hi', { signal: stop.signal });
    run.catch(() => {});
    const request = await providerRequest;
    stop.abort();
    await expect(run).rejects.toThrow();
    expect(await request.ended).toBe('aborted');
  });
});

describe.each(both)('an agent that stores its history in the gateway, %s', (_kind, model) => {
  it.each([['in one piece', false] as const, ['as a stream', true] as const])('%s', async (_how, stream) => {
    const runner = runnerFor(true);
    const agent = new Agent({ name: 'Clerk', model, tools: [weatherTool([])] });
    const ask = async (who: typeof agent, prompt: string, previousResponseId?: string) => {
      if (!stream) return runner.run(who, prompt, { previousResponseId });
      const result = await runner.run(who, prompt, { previousResponseId, stream });
      for await (const _ of result);
      await result.completed;
      return result;
    };
    const first = await ask(agent, 'My name is Ada. Reply with exactly: noted');
    expect(first.finalOutput).toBe('noted');
    const second = await ask(agent, 'What is the weather in Paris?', first.lastResponseId);
    expect(second.finalOutput).toBe('The result is: sunny in Paris');
    const third = await ask(agent.clone({ tools: [] }), 'What is my name?', second.lastResponseId);
    expect(third.finalOutput).toBe('Your name is Ada.');
    expect(third.lastResponseId).toMatch(/^resp_/);
  });
});
