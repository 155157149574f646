import { describe, expect, test } from 'vitest';
import { adjustChatBody } from '../../src/commands/exchange/dialects/chat/chat-dialect.ts';
import { providerType, providerTypes } from '../../src/providers/types.ts';

const messages = [{ role: 'user', content: 'hi' }];
const adjust = (type: string, model: string, body: Record<string, unknown>) =>
  adjustChatBody(type, model, { model, messages, ...body });

describe('a body that needs no adjustment', () => {
  test.each(Object.keys(providerTypes))('goes to %s unchanged', (type) => {
    expect(adjust(type, 'some-model', { temperature: 1, seed: 1, tools: [] })).toBeUndefined();
  });

  test('also when its type is unknown', () => {
    expect(adjust('other', 'gpt-5', { max_tokens: 1 })).toBeUndefined();
  });

  test('also when it has an effort for llama.cpp: nothing is renamed there', () => {
    expect(adjust('llamacpp', 'gpt-5', { reasoning: { effort: 'high' }, max_tokens: 1 })).toBeUndefined();
  });
});

describe("OpenAI's reasoning models", () => {
  test.each(['o1', 'o3-mini', 'o4-mini-2025-04-16', 'gpt-5', 'gpt-5-mini', 'gpt-5.1', 'gpt-5.2-codex', 'openai/gpt-5'])(
    '%s takes max_completion_tokens and no temperature',
    (model) => {
      for (const type of ['openai', 'azure']) {
        expect(adjust(type, model, { max_tokens: 9, temperature: 0.5 })).toEqual({
          max_tokens: undefined,
          max_completion_tokens: '9',
          temperature: undefined,
        });
      }
    },
  );

  test.each(['gpt-4o', 'gpt-5-chat-latest', 'gpt-5.1-chat-latest', 'gpt-50', 'o1x', 'omni', 'gpt-4.1'])(
    '%s is none of them',
    (model) => {
      expect(adjust('openai', model, { max_tokens: 9, temperature: 0.5 })).toBeUndefined();
    },
  );

  test('at other providers are left alone', () => {
    expect(adjust('openrouter', 'openai/gpt-5', { max_tokens: 9, temperature: 0.5 })).toBeUndefined();
  });

  test('keep an existing max_completion_tokens', () => {
    expect(adjust('openai', 'o3', { max_tokens: 9, max_completion_tokens: 5 })).toEqual({ max_tokens: undefined });
    expect(adjust('openai', 'o3', { max_tokens: 9, max_completion_tokens: null })).toEqual({
      max_tokens: undefined,
      max_completion_tokens: '9',
    });
  });
});

describe('the reasoning effort', () => {
  test('becomes a flat member', () => {
    expect(adjust('openai', 'gpt-5', { reasoning: { effort: 'low' } })).toEqual({
      reasoning: undefined,
      reasoning_effort: '"low"',
    });
  });

  test('that is flat already wins, and is unchanged', () => {
    expect(adjust('openai', 'gpt-5', { reasoning_effort: 'low' })).toBeUndefined();
    expect(adjust('openai', 'gpt-5', { reasoning_effort: 'low', reasoning: { effort: 'high' } })).toEqual({
      reasoning: undefined,
    });
  });

  test('stays an object for OpenRouter, with its other members', () => {
    expect(adjust('openrouter', 'm', { reasoning: { effort: 'high', exclude: true } })).toBeUndefined();
    expect(adjust('openrouter', 'm', { reasoning: { effort: 'max', exclude: true } })).toEqual({
      reasoning: '{"effort":"xhigh","exclude":true}',
    });
    expect(adjust('openrouter', 'm', { reasoning: { max_tokens: 100 } })).toBeUndefined();
  });

  test.each([
    ['openai', 'max', 'xhigh'],
    ['azure', 'max', 'xhigh'],
    ['groq', 'xhigh', 'high'],
    ['xai', 'max', 'high'],
    ['vllm', 'minimal', 'low'],
    ['sglang', 'xhigh', 'high'],
    ['mistral', 'low', 'high'],
    ['mistral', 'none', 'none'],
    ['gemini', 'max', 'high'],
    ['deepseek', 'max', 'max'],
    ['deepseek', 'someday', 'someday'],
  ])('for %s of %s is sent as %s', (type, requestedEffort, sent) => {
    expect(adjust(type, 'm', { reasoning: { effort: requestedEffort } })).toMatchObject({
      reasoning_effort: `"${sent}"`,
    });
  });

  test('that is missing or no text is not invented', () => {
    expect(adjust('openai', 'm', { reasoning: {} })).toEqual({ reasoning: undefined });
    expect(adjust('openai', 'm', { reasoning: { effort: 3 } })).toEqual({ reasoning: undefined });
  });
});

test('Mistral and DeepSeek know max_tokens only', () => {
  for (const type of ['mistral', 'deepseek']) {
    expect(adjust(type, 'm', { max_completion_tokens: 9 })).toEqual({
      max_completion_tokens: undefined,
      max_tokens: '9',
    });
  }
});

test('Mistral gets no stream_options, also none that is added later', () => {
  expect(adjust('mistral', 'm', { stream: true })).toEqual({ stream_options: undefined });
  expect(adjust('mistral', 'm', { stream_options: { include_usage: true } })).toEqual({ stream_options: undefined });
});

describe('the table of types', () => {
  test('states for the configuration what registers a provider', () => {
    const registration = (type: string) => {
      const members = ['keyless', 'requiresBaseUrl', 'isLocal', 'defaultBaseUrl', 'extra'];
      return Object.fromEntries(Object.entries(providerTypes[type] ?? {}).filter(([name]) => members.includes(name)));
    };
    expect(registration('llamacpp')).toEqual({ keyless: true, requiresBaseUrl: true, isLocal: true });
    expect(registration('openai')).toEqual({
      keyless: false,
      requiresBaseUrl: false,
      defaultBaseUrl: 'https://api.openai.com/v1',
    });
    expect(providerTypes['azure']).toMatchObject({ requiresBaseUrl: true, extra: { API_VERSION: 'apiVersion' } });
    expect(providerTypes['openrouter']?.extra).toEqual({ SITE_URL: 'siteUrl', APP_NAME: 'appName' });
  });

  test.each(Object.keys(providerTypes))('%s has a base URL or requires one', (type) => {
    const row = providerType(type);
    expect(row?.requiresBaseUrl === true || URL.canParse(row?.defaultBaseUrl ?? '')).toBe(true);
  });

  test('opens passthrough for the types that are open by default', () => {
    const open = Object.keys(providerTypes).filter((type) => providerType(type)?.passthrough === true);
    expect(open.sort()).toEqual([
      'anthropic',
      'deepseek',
      'llamacpp',
      'ollama',
      'openai',
      'openrouter',
      'sglang',
      'simulated',
      'vllm',
    ]);
  });
});
