/** Clients that store their history in conversations, not in responses. */
import { createOpenAI } from '@ai-sdk/openai';
import { Agent, OpenAIConversationsSession, OpenAIProvider, Runner, tool } from '@openai/agents';
import { generateText } from 'ai';
import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { both, withBothKinds } from '../support/both-kinds.ts';
import { MASTER_KEY } from '../support/gateway.ts';

const { gateway } = withBothKinds({ RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' });

let client: OpenAI;
beforeAll(() => {
  client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY, maxRetries: 0 });
});

const weather = tool({
  name: 'get_weather',
  description: 'The weather in a city',
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});

describe.each(both)('a conversation, %s', (_kind, model) => {
  const runner = () =>
    new Runner({
      modelProvider: new OpenAIProvider({ openAIClient: client, useResponses: true }),
      tracingDisabled: true,
    });

  it('is the session of an agent', async () => {
    const session = new OpenAIConversationsSession({ client });
    const agent = new Agent({ name: 'Clerk', model, tools: [weather] });
    const first = await runner().run(agent, 'My name is Ada. What is the weather in Paris?', { session });
    expect(first.finalOutput).toBe('The result is: sunny in Paris');
    const second = await runner().run(agent.clone({ tools: [] }), 'What is my name?', { session });
    expect(second.finalOutput).toBe('Your name is Ada.');
    const items = await session.getItems();
    expect(items.map((item) => item.type ?? 'message')).toEqual([
      'message',
      'function_call',
      'function_call_result',
      'message',
      'message',
      'message',
    ]);
    expect(await session.popItem()).toMatchObject({ role: 'assistant' });
    expect(await session.getItems()).toHaveLength(5);
    await session.clearSession();
  });

  it('can be read and written by an agent by its id', async () => {
    const { id: conversationId } = await client.conversations.create({ metadata: { topic: 'names' } });
    const agent = new Agent({ name: 'Clerk', model, tools: [weather] });
    await runner().run(agent, 'My name is Ada. What is the weather in Paris?', { conversationId });
    const second = await runner().run(agent.clone({ tools: [] }), 'What is my name?', { conversationId, stream: true });
    for await (const _ of second);
    await second.completed;
    expect(second.finalOutput).toBe('Your name is Ada.');
  });

  it('can be continued by the AI SDK', async () => {
    const { id: conversation } = await client.conversations.create();
    const languageModel = createOpenAI({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY }).responses(model);
    const providerOptions = { openai: { conversation } };
    await generateText({ model: languageModel, prompt: 'My name is Ada.', providerOptions });
    const { text } = await generateText({ model: languageModel, prompt: 'What is my name?', providerOptions });
    expect(text).toBe('Your name is Ada.');
  });
});
