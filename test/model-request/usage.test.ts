import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { contradictionIn, readUsage, unknownUsage, withThinking } from '../../src/commands/model-request/usage.ts';

/** The counts that were found, without the missing ones. */
function found(raw: unknown) {
  const { raw: _, source: __, ...counts } = readUsage(raw);
  return Object.fromEntries(Object.entries(counts).filter(([, value]) => value !== null));
}

describe('usage as providers report it', () => {
  it.each([
    [
      "OpenAI's chat completions",
      {
        prompt_tokens: 1200,
        completion_tokens: 300,
        total_tokens: 1500,
        prompt_tokens_details: { cached_tokens: 1024, audio_tokens: 10 },
        completion_tokens_details: {
          reasoning_tokens: 64,
          audio_tokens: 5,
          accepted_prediction_tokens: 7,
          rejected_prediction_tokens: 2,
        },
      },
      {
        inputTokens: 1200,
        outputTokens: 300,
        totalTokens: 1500,
        cachedInputTokens: 1024,
        audioInputTokens: 10,
        reasoningTokens: 64,
        audioOutputTokens: 5,
        acceptedPredictionTokens: 7,
        rejectedPredictionTokens: 2,
      },
    ],
    [
      "OpenAI's responses",
      {
        input_tokens: 100,
        input_tokens_details: { cached_tokens: 60, cache_write_tokens: 20 },
        output_tokens: 40,
        output_tokens_details: { reasoning_tokens: 30 },
        total_tokens: 140,
      },
      {
        inputTokens: 100,
        outputTokens: 40,
        totalTokens: 140,
        cachedInputTokens: 60,
        cacheWriteInputTokens: 20,
        reasoningTokens: 30,
      },
    ],
    [
      "OpenAI's images",
      {
        input_tokens: 50,
        input_tokens_details: { text_tokens: 10, image_tokens: 40 },
        output_tokens: 4160,
        output_tokens_details: { image_tokens: 4160 },
        total_tokens: 4210,
      },
      { inputTokens: 50, outputTokens: 4160, totalTokens: 4210, imageInputTokens: 40, imageOutputTokens: 4160 },
    ],
    [
      "Anthropic's messages, whose input leaves the cache out",
      {
        input_tokens: 10,
        cache_read_input_tokens: 1000,
        cache_creation_input_tokens: 200,
        cache_creation: { ephemeral_5m_input_tokens: 150, ephemeral_1h_input_tokens: 50 },
        output_tokens: 30,
      },
      {
        inputTokens: 1210,
        outputTokens: 30,
        totalTokens: 1240,
        cachedInputTokens: 1000,
        cacheWriteInputTokens: 200,
        cacheWrite1hInputTokens: 50,
      },
    ],
    [
      "DeepSeek's own cache counts",
      { prompt_tokens: 100, completion_tokens: 5, total_tokens: 105, prompt_cache_hit_tokens: 80 },
      { inputTokens: 100, outputTokens: 5, totalTokens: 105, cachedInputTokens: 80 },
    ],
    [
      'a total above input and output, which is not charged',
      {
        prompt_tokens: 32,
        completion_tokens: 9,
        total_tokens: 135,
        completion_tokens_details: { reasoning_tokens: 94 },
      },
      { inputTokens: 32, outputTokens: 9, totalTokens: 135, reasoningTokens: 94 },
    ],
    ['embeddings', { prompt_tokens: 8, total_tokens: 8 }, { inputTokens: 8, totalTokens: 8 }],
    ['a transcription by its length', { type: 'duration', seconds: 12.5 }, { inputSeconds: 12.5 }],
    [
      "Mistral's transcription",
      { prompt_audio_seconds: 203, prompt_tokens: 4, completion_tokens: 635, total_tokens: 639 },
      { inputTokens: 4, outputTokens: 635, totalTokens: 639, inputSeconds: 203 },
    ],
  ])('reads %s', (_whose, raw, counts) => {
    expect(found(raw)).toEqual(counts);
    expect(readUsage(raw)).toMatchObject({ source: 'provider', raw });
  });

  it.each([undefined, null, 'text', [], {}, { prompt_tokens: 'many' }, { input_tokens: -1 }, { output_tokens: 1.5 }])(
    'makes nothing up from %j',
    (raw) => {
      expect(readUsage(raw)).toEqual(unknownUsage);
    },
  );
});

describe('thinking that is counted beside the output', () => {
  const xai = {
    prompt_tokens: 32,
    completion_tokens: 9,
    total_tokens: 135,
    completion_tokens_details: { reasoning_tokens: 94 },
  };
  const gemini = { prompt_tokens: 20, completion_tokens: 198, total_tokens: 623 };
  const otherNumber = { ...xai, completion_tokens_details: { reasoning_tokens: 2 } };
  const charged = (raw: object, type: string) => {
    const usage = withThinking(readUsage(raw), type);
    return [usage.outputTokens, usage.reasoningTokens, contradictionIn(usage) !== undefined];
  };

  it.each([
    ['xai', xai, [103, 94, false]],
    ['gemini', gemini, [603, 405, false]],
    ['xai', gemini, [198, null, true]],
    ['openai', xai, [9, 94, true]],
    ['openai', gemini, [198, null, true]],
    ['xai', otherNumber, [9, 2, true]],
    ['gemini', otherNumber, [9, 2, true]],
    ['a type of the future', gemini, [198, null, true]],
  ])('is output where the documentation of the provider says so: %s, %j', (type, raw, expected) => {
    expect(charged(raw, type)).toEqual(expected);
  });

  it('is not added twice', () => {
    const once = withThinking(readUsage(gemini), 'gemini');
    expect(withThinking(once, 'gemini')).toEqual(once);
  });
});

describe('counts that no request can have', () => {
  const huge = [1e300, Number.MAX_SAFE_INTEGER, 2 ** 53, 1e13, -1, 0.5, Number.POSITIVE_INFINITY];

  it.each(huge)('are not known: %d', (value) => {
    expect(readUsage({ prompt_tokens: value, completion_tokens: 3 })).toMatchObject({
      inputTokens: null,
      outputTokens: 3,
    });
    expect(readUsage({ prompt_tokens: value, completion_tokens: value, total_tokens: value })).toEqual(unknownUsage);
  });

  it('never make one that the record or a table of 64-bit numbers cannot hold', () => {
    const names = ['prompt_tokens', 'input_tokens', 'completion_tokens', 'output_tokens', 'total_tokens'];
    const caches = ['cache_read_input_tokens', 'cache_creation_input_tokens', 'cached_tokens', 'reasoning_tokens'];
    const amount = fc.oneof(fc.double(), fc.maxSafeInteger(), fc.constantFrom(...huge), fc.nat());
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...names, ...caches), amount), (raw) => {
        for (const value of Object.values(found(raw))) {
          expect(Number.isSafeInteger(value)).toBe(true);
          expect(value).toBeLessThan(1e13);
        }
      }),
    );
  });
});
