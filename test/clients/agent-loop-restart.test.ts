/**
 * An agent with a provider without a Responses API talks to a gateway that is killed between its turns, and in the
 * middle of one: after its start the gateway has all of its answers.
 */
import { createOpenAI } from '@ai-sdk/openai';
import { Agent, tool as agentTool, OpenAIProvider, Runner } from '@openai/agents';
import { generateText, isStepCount, type ModelMessage, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { MASTER_KEY, type ServedGateway, serve, temporaryFolder } from '../e2e/gateway-process.ts';

Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

const provider = createSimulatedProvider({ responses: 'absent' });
const folder = temporaryFolder();
let upstream = '';
let gateway: ServedGateway;
let baseURL = '';

beforeAll(async () => {
  upstream = await provider.listen();
  gateway = await start('0');
  baseURL = `${gateway.url}/v1`;
});
afterAll(async () => {
  gateway.process.kill('SIGKILL');
  await gateway.process.exited;
  await provider.close();
  folder.remove();
});

const start = (port: string): Promise<ServedGateway> =>
  serve({ dataDir: folder.path, env: { LLAMACPP_BASE_URL: upstream, PORT: port } });

/** Kills the gateway, and starts it again with the data on disk, at the same address. */
async function killAndStart(): Promise<void> {
  gateway.process.kill('SIGKILL');
  expect(await gateway.process.exited).toEqual({ code: null, signal: 'SIGKILL' });
  gateway = await start(new URL(baseURL).port);
  expect(`${gateway.url}/v1`).toBe(baseURL);
}

const id = 'llamacpp/simulated-small';
const place = z.object({ city: z.string() });

/** A tool that kills the gateway when it is called for Rome. */
const deadlyWeather = tool({
  description: 'The weather in a city',
  inputSchema: place,
  execute: async ({ city }) => {
    if (city === 'Rome') await killAndStart();
    return `sunny in ${city}`;
  },
});

/** Everything in the latest request to the model. */
function lastSeen(): string {
  const { messages } = JSON.parse(provider.requests.findLast(({ method }) => method === 'POST')?.body ?? '{}');
  return JSON.stringify(messages);
}

describe('an agent loop continues after the gateway was killed', () => {
  it('by the id of the previous response, with the AI SDK', async () => {
    let previousResponseId: string | undefined;
    const turn = async (prompt: string, toolChoice: 'auto' | 'none' = 'auto') => {
      const { text, finalStep } = await generateText({
        model: createOpenAI({ baseURL, apiKey: MASTER_KEY }).responses(id),
        tools: { get_weather: deadlyWeather },
        toolChoice,
        stopWhen: isStepCount(4),
        prompt,
        maxRetries: 0,
        providerOptions: previousResponseId === undefined ? {} : { openai: { previousResponseId } },
      });
      previousResponseId = String(finalStep.providerMetadata?.['openai']?.['responseId']);
      return text;
    };
    expect(await turn('My name is Ada. What is the weather in Paris?')).toBe('The result is: sunny in Paris');
    await killAndStart();
    expect(await turn('And what is the weather in Rome?')).toBe('The result is: sunny in Rome');
    await killAndStart();
    expect(await turn('What is my name?', 'none')).toBe('Your name is Ada.');
    expect(lastSeen()).toContain('sunny in Rome');
  });

  it('by references to earlier items, with the AI SDK', async () => {
    const sent: { input: { type?: string }[] }[] = [];
    const messages: ModelMessage[] = [];
    const turn = async (content: string, toolChoice: 'auto' | 'none' = 'auto') => {
      messages.push({ role: 'user', content });
      const model = createOpenAI({
        baseURL,
        apiKey: MASTER_KEY,
        fetch: (url, init) => {
          sent.push(JSON.parse(String(init?.body)));
          return fetch(url, init);
        },
      }).responses(id);
      const tools = { get_weather: deadlyWeather };
      const result = streamText({ model, tools, toolChoice, stopWhen: isStepCount(4), messages, maxRetries: 0 });
      const text = await result.text;
      messages.push(...(await result.responseMessages));
      return text;
    };
    provider.control.next({ text: 'The secret is rosebud.' }, { path: '/v1/chat/completions' });
    expect(await turn('Think, and make up a secret.')).toBe('The secret is rosebud.');
    await killAndStart();
    expect(await turn('What is the weather in Rome?')).toBe('The result is: sunny in Rome');
    await killAndStart();
    expect(await turn('What is the secret?', 'none')).toBe('The secret is rosebud.');
    const references = sent.map(({ input }) => input.filter(({ type }) => type === 'item_reference').length);
    expect(references).toEqual([0, 2, 2, 3]);
    expect(lastSeen()).toContain('sunny in Rome');
  });

  it('by the id of the previous response, with the agents SDK', async () => {
    const weather = agentTool({
      name: 'get_weather',
      description: 'The weather in a city',
      parameters: place,
      execute: async ({ city }) => `sunny in ${city}`,
    });
    const openAIClient = new OpenAI({ baseURL, apiKey: MASTER_KEY, maxRetries: 0 });
    const modelProvider = new OpenAIProvider({ openAIClient, useResponses: true });
    const runner = new Runner({ modelProvider, tracingDisabled: true });
    const agent = new Agent({ name: 'Clerk', model: id, tools: [weather] });
    const first = await runner.run(agent, 'My name is Ada. What is the weather in Paris?');
    expect(first.finalOutput).toBe('The result is: sunny in Paris');
    await killAndStart();
    const second = await runner.run(agent, 'What is the weather in Rome?', {
      previousResponseId: first.lastResponseId,
    });
    expect(second.finalOutput).toBe('The result is: sunny in Rome');
    await killAndStart();
    const third = await runner.run(agent.clone({ tools: [] }), 'What is my name?', {
      previousResponseId: second.lastResponseId,
    });
    expect(third.finalOutput).toBe('Your name is Ada.');
    expect(lastSeen()).toContain('sunny in Rome');
  });
});
