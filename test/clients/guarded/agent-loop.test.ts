/**
 * Agent loops with tools through three guardrails: tools are called with the values of the user, which no provider gets.
 */
import { createOpenAI } from '@ai-sdk/openai';
import Anthropic from '@anthropic-ai/sdk';
import { Agent, OpenAIProvider, Runner, tool } from '@openai/agents';
import { tool as aiTool, generateText, isStepCount, streamText } from 'ai';
import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { native, translated, withBothKinds } from '../../support/both-kinds.ts';
import { MASTER_KEY } from '../../support/gateway.ts';
import { throughThreeGuardrails } from '../../support/three-guardrails.ts';

throughThreeGuardrails('as they arrive');
const { gateway, nativeProvider, create } = withBothKinds({ RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' });
/** With its first request the gateway learns that a provider has no Responses API. */
beforeAll(() => create({ input: 'hi' }));

const EMAIL = 'bob.miller@example.com';
const prompt = `Send a mail to ${EMAIL}.`;
const done = `The result is: sent to ${EMAIL}`;
const models = [translated, native];

/** What the providers got: the address never, a placeholder in its place. */
function expectHidden(): void {
  const sent = [...gateway.simulated.requests, ...nativeProvider.requests].map(({ body }) => body).join('\n');
  expect(sent).toContain('<EMAIL_1>');
  expect(sent).not.toContain(EMAIL);
  expect(sent).not.toContain('bob.miller');
}

describe.each(
  models.flatMap((model) => [[`${model}, responses`, model, true] as const, [`${model}, chat`, model, false] as const]),
)('an agent of the agents SDK with %s', (_door, model, useResponses) => {
  it.each([false, true])('calls its tool with the value of the user, streamed: %s', async (stream) => {
    const called: string[] = [];
    const mail = tool({
      name: 'send_mail',
      description: 'Sends a mail',
      parameters: z.object({ name: z.string() }),
      execute: async ({ name }) => {
        called.push(name);
        return `sent to ${name}`;
      },
    });
    const openAIClient = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY, maxRetries: 0 });
    const modelProvider = new OpenAIProvider({ openAIClient, useResponses });
    const runner = new Runner({ modelProvider, tracingDisabled: true });
    const agent = new Agent({ name: 'Clerk', model, tools: [mail] });
    if (stream) {
      const result = await runner.run(agent, prompt, { stream });
      for await (const _ of result);
      await result.completed;
      expect(result.finalOutput).toBe(done);
    } else {
      expect((await runner.run(agent, prompt)).finalOutput).toBe(done);
    }
    expect(called).toEqual([EMAIL]);
    expectHidden();
  });
});

describe.each(models)('an agent loop with %s', (model) => {
  const headers = { apiKey: MASTER_KEY, maxRetries: 0 };

  it('of the AI SDK calls its tool with the value of the user, and goes on by the id of the response', async () => {
    const called: string[] = [];
    const mail = aiTool({
      description: 'Sends a mail',
      inputSchema: z.object({ name: z.string() }),
      execute: ({ name }) => {
        called.push(name);
        return `sent to ${name}`;
      },
    });
    const languageModel = createOpenAI({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY }).responses(model);
    const settings = { model: languageModel, tools: { send_mail: mail }, stopWhen: isStepCount(4), maxRetries: 0 };
    const first = streamText({ ...settings, prompt });
    expect(await first.text).toBe(done);
    const responseId = (await first.providerMetadata)?.['openai']?.['responseId'];
    expect(responseId).toMatch(/^resp_/);
    const providerOptions = { openai: { previousResponseId: String(responseId) } };
    const again = `Send a mail to ${EMAIL} again.`;
    expect((await generateText({ ...settings, prompt: again, providerOptions })).text).toContain(`sent to ${EMAIL}`);
    expect(called).toEqual([EMAIL, EMAIL]);
    expectHidden();
  });

  it('of the Anthropic SDK calls its tool with the value of the user, in a stream', async () => {
    const client = new Anthropic({ baseURL: gateway.url, ...headers });
    const tools: Anthropic.Tool[] = [
      {
        name: 'send_mail',
        input_schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
      },
    ];
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: prompt }];
    const ask = () => client.messages.stream({ model, max_tokens: 4_000, messages, tools }).finalMessage();
    const first = await ask();
    const calls = first.content.filter((block) => block.type === 'tool_use');
    expect(calls).toMatchObject([{ name: 'send_mail', input: { name: EMAIL } }]);
    messages.push(
      { role: 'assistant', content: first.content },
      {
        role: 'user',
        content: calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: `sent to ${EMAIL}` })),
      },
    );
    expect((await ask()).content).toMatchObject([{ type: 'text', text: done }]);
    expectHidden();
  });
});
