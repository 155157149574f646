/** Provider streams that break off, as the AI SDK and LangChain report them: never as a whole answer. */
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { AIMessageChunk } from '@langchain/core/messages';
import { tool as langchainTool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { isStepCount, type LanguageModel, streamText, tool } from 'ai';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Fault } from '../../infra/simulated-provider/fault.ts';
import { both, native, withBothKinds } from '../support/both-kinds.ts';
import { MASTER_KEY } from '../support/gateway.ts';

Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

const { gateway, nativeProvider, learned } = withBothKinds({
  RETRY_MAX_RETRIES: '0',
  CIRCUIT_BREAKER_ENABLED: 'false',
});
beforeAll(learned);
const providerOf = (model: string) => (model === native ? nativeProvider : gateway.simulated);

const text = 'Tell me something.';
const toolCall = 'What is the weather in Paris?';
/** The point at which a stream breaks off: in its connection, or only at its end. */
const cuts: readonly (readonly [string, string, Fault])[] = [
  ['a text whose connection breaks', text, { cutAfterChunks: 8 }],
  ['a text that ends without a reason', text, { endWithoutFinish: true }],
  ['a tool call whose connection breaks', toolCall, { cutAfterChunks: 4 }],
];
const place = z.object({ city: z.string(), unit: z.enum(['celsius', 'fahrenheit']) });

describe.each(both)('a stream that breaks off, %s', (_kind, id) => {
  const settings = () => ({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY });
  const models: readonly (readonly [string, () => LanguageModel])[] = [
    ['its Responses model', () => createOpenAI(settings()).responses(id)],
    ['its chat model', () => createOpenAI(settings()).chat(id)],
    ['its OpenAI-compatible model', () => createOpenAICompatible({ name: 'gateway', ...settings() })(id)],
  ];

  describe.each(models)('is an error in the AI SDK, by %s', (_name, modelOf) => {
    it.each(cuts)('in %s', async (_where, prompt, fault) => {
      providerOf(id).control.next(fault);
      const errors: unknown[] = [];
      const called: string[] = [];
      const execute = ({ city }: { city: string }) => void called.push(city);
      const result = streamText({
        model: modelOf(),
        prompt,
        maxRetries: 0,
        ...(prompt === text ? {} : { tools: { get_weather: tool({ inputSchema: place, execute }) } }),
        stopWhen: isStepCount(1),
        onError: ({ error }) => void errors.push(error),
      });
      const types: string[] = [];
      let finish: string | undefined;
      for await (const part of result.fullStream) {
        // Its chat models end a call that was cut off as one with invalid arguments, which is not executed.
        if (part.type !== 'tool-call' || part.invalid !== true) types.push(part.type);
        if (part.type === 'finish') finish = part.finishReason;
      }
      expect(types).toContain(prompt === text ? 'text-delta' : 'tool-input-start');
      expect(errors).toHaveLength(1);
      expect([undefined, 'error']).toContain(finish);
      expect(types).not.toContain('tool-call');
      expect(called).toEqual([]);
    });
  });

  describe.each([
    ['chat completions', false],
    ['the Responses API', true],
  ])('is an error in LangChain, on %s', (_name, useResponsesApi) => {
    const getWeather = langchainTool(({ city }) => `sunny in ${city}`, { name: 'get_weather', schema: place });
    const model = () =>
      new ChatOpenAI({
        model: id,
        useResponsesApi,
        apiKey: MASTER_KEY,
        configuration: { baseURL: `${gateway.url}/v1` },
        maxRetries: 0,
      });

    it.each(cuts)('in %s', async (_where, prompt, fault) => {
      providerOf(id).control.next(fault);
      let whole: AIMessageChunk | undefined;
      const read = async () => {
        for await (const chunk of await (prompt === text ? model() : model().bindTools([getWeather])).stream(prompt)) {
          whole = whole === undefined ? chunk : whole.concat(chunk);
        }
      };
      await expect(read()).rejects.toThrow(/./);
      expect(whole?.text !== '' || (whole.tool_call_chunks ?? []).length > 0).toBe(true);
    });
  });
});
