/** The Vercel AI SDK, unchanged, with what the gateway stores for it: responses and their items; and OpenAI's options. */
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, isStepCount, type ModelMessage, streamText, tool } from 'ai';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { both, native, withBothKinds } from '../support/both-kinds.ts';
import { MASTER_KEY } from '../support/gateway.ts';

Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

const { gateway, nativeProvider, learned } = withBothKinds({
  RETRY_MAX_RETRIES: '0',
  CIRCUIT_BREAKER_ENABLED: 'false',
});
beforeAll(learned);
const providerOf = (model: string) => (model === native ? nativeProvider : gateway.simulated);

const weather = tool({
  description: 'The weather in a city',
  inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => `sunny in ${city}`,
});

describe.each(both)('the AI SDK and stored responses, %s', (_kind, id) => {
  /** A Responses model, and the bodies it sent. */
  function recorded() {
    const sent: { input: { type?: string; id?: string }[]; reasoning?: object }[] = [];
    const provider = createOpenAI({
      baseURL: `${gateway.url}/v1`,
      apiKey: MASTER_KEY,
      fetch: (url, init) => {
        sent.push(JSON.parse(String(init?.body)));
        return fetch(url, init);
      },
    });
    return { model: provider.responses(id), sent };
  }

  it('refers to earlier output by the ids of the items, in its second turn', async () => {
    const { model, sent } = recorded();
    const messages: ModelMessage[] = [{ role: 'user', content: 'Think, and make up a secret.' }];
    providerOf(id).control.next({ text: 'The secret is rosebud.' });
    const first = await generateText({ model, messages });
    messages.push(...first.response.messages, { role: 'user', content: 'What is the secret?' });
    const second = streamText({ model, messages });
    expect(await second.text).toBe('The secret is rosebud.');
    const referred = sent[1]?.input.filter(({ type }) => type === 'item_reference') ?? [];
    expect(referred.map((item) => item.id?.split('_')[0])).toEqual(['rs', 'msg']);
  });

  it('continues from a response by its id, with tools', async () => {
    const { model, sent } = recorded();
    const tools = { get_weather: weather };
    let previousResponseId: unknown;
    const ask = async (prompt: string) => {
      const turn = await generateText({
        model,
        tools,
        prompt,
        stopWhen: isStepCount(4),
        providerOptions:
          previousResponseId === undefined ? {} : { openai: { previousResponseId: `${previousResponseId}` } },
      });
      previousResponseId = turn.finalStep.providerMetadata?.['openai']?.['responseId'];
      expect(previousResponseId).toMatch(/^resp_/);
      return turn.text;
    };
    expect(await ask('My name is Ada. Reply with exactly: noted')).toBe('noted');
    expect(await ask('What is the weather in Paris?')).toBe('The result is: sunny in Paris');
    expect(await ask('Reply with exactly: well')).toBe('well');
    const { text } = await generateText({
      model,
      prompt: 'What is my name?',
      providerOptions: { openai: { previousResponseId: `${previousResponseId}` } },
    });
    expect(text).toBe('Your name is Ada.');
    expect(sent.at(-1)?.input).toHaveLength(1);
  });

  it('sends everything back when nothing is stored', async () => {
    const { model, sent } = recorded();
    const providerOptions = { openai: { store: false } };
    const messages: ModelMessage[] = [{ role: 'user', content: 'Make up a secret.' }];
    providerOf(id).control.next({ text: 'The secret is rosebud.' });
    const first = await generateText({ model, messages, providerOptions });
    messages.push(...first.response.messages, { role: 'user', content: 'What is the secret?' });
    expect((await generateText({ model, messages, providerOptions })).text).toBe('The secret is rosebud.');
    expect(sent[1]?.input.filter(({ type }) => type === 'item_reference')).toEqual([]);
  });

  it('passes on the options that only OpenAI has', async () => {
    const { model } = recorded();
    const { finalStep } = await generateText({
      model,
      prompt: 'Reply with exactly: hello',
      providerOptions: {
        openai: {
          metadata: { team: 'blue' },
          parallelToolCalls: false,
          user: 'u-1',
          textVerbosity: 'low',
          logprobs: 2,
        },
      },
    });
    const { responseId, logprobs } = finalStep.providerMetadata?.['openai'] ?? {};
    expect(logprobs).toMatchObject([[{ token: 'hello', top_logprobs: [{}, {}] }]]);
    const stored = await gateway.fetch(`/v1/responses/${responseId}`);
    expect(await stored.json()).toMatchObject({
      metadata: { team: 'blue' },
      parallel_tool_calls: false,
      user: 'u-1',
      text: { verbosity: 'low' },
    });
  });

  it('sets the reasoning effort', async () => {
    const { model, sent } = recorded();
    const { reasoningText, text } = await generateText({
      model,
      prompt: 'Reply with exactly: hello',
      reasoning: 'low',
      providerOptions: { openai: { forceReasoning: true, reasoningSummary: 'auto' } },
    });
    expect(sent[0]).toMatchObject({ reasoning: { effort: 'low', summary: 'auto' } });
    expect(text).toBe('hello');
    expect(reasoningText).toMatch(/\w/);
  });
});
