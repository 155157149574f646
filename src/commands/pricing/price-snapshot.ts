/**
 * List prices of well-known models, as of one day. They are the published prices of the providers on which two
 * independent public collections, LiteLLM's and Pydantic's genai-prices, agreed on that day. Compared by hand were
 * xAI's, where the two differ on whether token 200,000 already pays the higher rate, and `whisper-1`, `tts-1`,
 * `tts-1-hd` and `gpt-image-1`, which they count in other units. A model whose price could not be confirmed, or
 * depends on the time of day, is left out; its cost is unknown until an administrator or the configuration gives it a
 * price.
 */
import type { ModelPricing } from './model-pricing.ts';
import type { PriceSnapshot } from './price-book.ts';

/** US dollars per million tokens: input, output, cached input, cache write, cache write for an hour. */
type Row = readonly [
  input: number,
  output?: number | undefined,
  cachedInput?: number,
  cacheWrite?: number,
  cacheWriteForAnHour?: number,
];

/** For an embedding model, which has no output. */
const none = undefined;

/** By provider type, then by the provider's own id. Versions are listed where their price differs. */
const table: Readonly<Record<string, Readonly<Record<string, Row | ModelPricing>>>> = {
  anthropic: {
    'claude-fable-5': [10, 50, 1, 12.5, 20],
    'claude-fable-5-1': [10, 50, 0.25, 12.5, 20],
    'claude-haiku-4-5': [1, 5, 0.1, 1.25, 2],
    'claude-haiku-5-5': upTo(100_000, [0.1, 0.5, 0.01, 0.125, 0.2], [0.5, 2.5, 0.05, 0.625, 1]),
    'claude-opus-4-5': [5, 25, 0.5, 6.25, 10],
    'claude-opus-4-6': [5, 25, 0.5, 6.25, 10],
    'claude-opus-4-7': [5, 25, 0.5, 6.25, 10],
    'claude-opus-4-8': [5, 25, 0.5, 6.25, 10],
    'claude-opus-5': [5, 25, 0.5, 6.25, 10],
    'claude-opus-5-5': [4, 20, 0.2, 5, 8],
    'claude-sonnet-4-6': [3, 15, 0.3, 3.75, 6],
    'claude-sonnet-5': [2, 10, 0.2, 2.5, 4],
    'claude-sonnet-5-5': [2, 10, 0.1, 2.5, 4],
  },
  gemini: {
    'gemini-2.5-flash': withAudio([0.3, 2.5, 0.03], 1),
    'gemini-2.5-flash-lite': withAudio([0.1, 0.4, 0.01], 0.3),
    'gemini-2.5-pro': upTo(200_000, [1.25, 10, 0.125], [2.5, 15, 0.25]),
    'gemini-3-flash-preview': withAudio([0.5, 3, 0.05], 1),
    'gemini-3.1-flash-lite': withAudio([0.25, 1.5, 0.025], 0.5),
    'gemini-3.1-flash-lite-preview': withAudio([0.25, 1.5, 0.025], 0.5),
    'gemini-3.1-pro-preview': upTo(200_000, [2, 12, 0.2], [4, 18, 0.4]),
    'gemini-3.5-flash-lite': [0.3, 2.5, 0.03],
    'gemini-3.6-flash': [0.75, 3.75, 0.075],
    'gemini-3.7-flash': [0.75, 3.75, 0.075],
    'gemini-3.8-flash': [0.75, 3.75, 0.075],
    'gemini-4-argon': [2, 10, 0.1],
    'gemini-embedding-001': [0.15],
    'gemini-embedding-2': withAudio([0.2], 6.5),
    'gemini-embedding-2-preview': withAudio([0.2], 6.5),
    'gemini-flash-latest': [0.75, 3.75, 0.075],
    'gemini-flash-lite-latest': [0.3, 2.5, 0.03],
    'gemini-pro-latest': upTo(200_000, [2, 12, 0.2], [4, 18, 0.4]),
  },
  openai: {
    'gpt-3.5-turbo': [0.5, 1.5],
    'gpt-3.5-turbo-0125': [0.5, 1.5],
    'gpt-3.5-turbo-1106': [1, 2],
    'gpt-3.5-turbo-16k': [3, 4],
    'gpt-4': [30, 60],
    'gpt-4-0613': [30, 60],
    'gpt-4-1106-preview': [10, 30],
    'gpt-4-turbo': [10, 30],
    'gpt-4.1': [2, 8, 0.5],
    'gpt-4.1-mini': [0.4, 1.6, 0.1],
    'gpt-4.1-nano': [0.1, 0.4, 0.025],
    'gpt-4o': [2.5, 10, 1.25],
    'gpt-4o-2024-05-13': [5, 15],
    'gpt-4o-mini': [0.15, 0.6, 0.075],
    'gpt-5': [1.25, 10, 0.125],
    'gpt-5-chat': [1.25, 10, 0.125],
    'gpt-5-chat-latest': [1.25, 10, 0.125],
    'gpt-5-codex': [1.25, 10, 0.125],
    'gpt-5-mini': [0.25, 2, 0.025],
    'gpt-5-nano': [0.05, 0.4, 0.005],
    'gpt-5-pro': [15, 120],
    'gpt-5.1': [1.25, 10, 0.125],
    'gpt-5.1-chat-latest': [1.25, 10, 0.125],
    'gpt-5.1-codex': [1.25, 10, 0.125],
    'gpt-5.1-codex-max': [1.25, 10, 0.125],
    'gpt-5.1-codex-mini': [0.25, 2, 0.025],
    'gpt-5.2': [1.75, 14, 0.175],
    'gpt-5.2-chat-latest': [1.75, 14, 0.175],
    'gpt-5.2-codex': [1.75, 14, 0.175],
    'gpt-5.2-pro': [21, 168],
    'gpt-5.3-chat-latest': [1.75, 14, 0.175],
    'gpt-5.3-codex': [1.75, 14, 0.175],
    'gpt-5.4': upTo(272_000, [2.5, 15, 0.25], [5, 22.5, 0.5]),
    'gpt-5.4-mini': [0.75, 4.5, 0.075],
    'gpt-5.4-nano': [0.2, 1.25, 0.02],
    'gpt-5.4-pro': upTo(272_000, [30, 180], [60, 270]),
    'gpt-5.5': upTo(272_000, [5, 30, 0.5], [10, 45, 1]),
    'gpt-5.5-pro': upTo(272_000, [30, 180], [60, 270]),
    'gpt-5.6': upTo(272_000, [4, 20, 0.4, 5], [8, 30, 0.8, 10]),
    'gpt-5.6-luna': upTo(272_000, [0.2, 1.2, 0.02, 0.25], [0.4, 1.8, 0.04, 0.5]),
    'gpt-5.6-sol': upTo(272_000, [4, 20, 0.4, 5], [8, 30, 0.8, 10]),
    'gpt-5.6-terra': upTo(272_000, [2, 12, 0.2, 2.5], [4, 18, 0.4, 5]),
    'gpt-6-astra': upTo(272_000, [10, 50, 1, 12.5], [20, 75, 2, 25]),
    'gpt-6-luna': upTo(272_000, [0.1, 0.5, 0.01, 0.125], [0.2, 0.75, 0.02, 0.25]),
    'gpt-6-sol': upTo(272_000, [2, 10, 0.2, 2.5], [4, 15, 0.4, 5]),
    'gpt-6.1-sol': upTo(272_000, [2, 10, 0.1, 2.5], [4, 15, 0.2, 5]),
    'gpt-6.1-terra': upTo(272_000, [1, 5, 0.05, 1.25], [2, 7.5, 0.1, 2.5]),
    'gpt-audio': withAudio([2.5, 10], 32, 64),
    'gpt-audio-1.5': withAudio([2.5, 10], 32, 64),
    'gpt-audio-mini': withAudio([0.6, 2.4], 10, 20),
    'tts-1': { per_character_input: 0.000_015 },
    'tts-1-hd': { per_character_input: 0.000_03 },
    'whisper-1': { per_second_input: 0.0001 },
    'gpt-image-1': {
      input_per_mtok: 5,
      cached_input_per_mtok: 1.25,
      image_input_per_mtok: 10,
      output_per_mtok: 40,
      output_image_per_mtok: 40,
    },
    o1: [15, 60, 7.5],
    o3: [2, 8, 0.5],
    'o3-mini': [1.1, 4.4, 0.55],
    'o3-pro': [20, 80],
    'o4-mini': [1.1, 4.4, 0.275],
    'text-embedding-3-large': [0.13],
    'text-embedding-3-small': [0.02],
    'text-embedding-ada-002': [0.1],
  },
  groq: {
    'openai/gpt-oss-120b': [0.15, 0.6, 0.075],
    'openai/gpt-oss-20b': [0.075, 0.3, 0.0375],
    'qwen/qwen3.8-27b': [0.8, 4],
  },
  mistral: {
    'codestral-2508': [0.3, 0.9, 0.03],
    'codestral-embed': [0.15, none, 0.015],
    'codestral-embed-2505': [0.15, none, 0.015],
    'codestral-latest': [0.3, 0.9],
    'devstral-small-latest': [0.1, 0.3],
    'ministral-14b-2512': [0.2, 0.2, 0.02],
    'ministral-3b-2512': [0.1, 0.1, 0.01],
    'ministral-8b-2512': [0.15, 0.15, 0.015],
    'ministral-8b-latest': [0.15, 0.15, 0.015],
    'mistral-embed': [0.1],
    'mistral-embed-2312': [0.1],
    'mistral-large-2512': [0.5, 1.5, 0.05],
    'mistral-medium-2604': [1.5, 7.5, 0.15],
    'mistral-medium-3': [1.5, 7.5, 0.15],
    'mistral-medium-3-5': [1.5, 7.5, 0.15],
    'mistral-medium-3.5': [1.5, 7.5, 0.15],
    'mistral-medium-latest': [1.5, 7.5, 0.15],
    'mistral-small-2603': [0.15, 0.6, 0.015],
    'mistral-small-latest': [0.15, 0.6, 0.015],
    'mistral-tiny': [0.25, 0.25],
    'pixtral-large-latest': [2, 6],
    'voxtral-small-2507': [0.1, 0.4, 0.01],
    'voxtral-small-latest': [0.1, 0.4, 0.01],
  },
  xai: {
    'grok-4.20': upTo(200_000, [1.25, 2.5, 0.2], [2.5, 5, 0.4]),
    'grok-4.20-0309-reasoning': upTo(200_000, [1.25, 2.5, 0.2], [2.5, 5, 0.4]),
    'grok-4.20-0309-non-reasoning': upTo(200_000, [1.25, 2.5, 0.2], [2.5, 5, 0.4]),
    'grok-4.20-multi-agent': upTo(200_000, [1.25, 2.5, 0.2], [2.5, 5, 0.4]),
    'grok-4.3': upTo(200_000, [1.25, 2.5, 0.2], [2.5, 5, 0.4]),
    'grok-4.3-latest': upTo(200_000, [1.25, 2.5, 0.2], [2.5, 5, 0.4]),
    'grok-4.5': upTo(200_000, [2, 6, 0.3], [4, 12, 0.6]),
    'grok-4.5-latest': upTo(200_000, [2, 6, 0.3], [4, 12, 0.6]),
    'grok-4.6': upTo(200_000, [2, 6, 0.5], [4, 12, 1]),
    'grok-4.7': upTo(200_000, [2, 6, 0.5], [4, 12, 1]),
    'grok-build-0.1': upTo(200_000, [1, 2, 0.2], [2, 4, 0.4]),
  },
};

export const priceSnapshot: PriceSnapshot = {
  date: '2026-11-21',
  find(providerType, model) {
    const ofType = own(table, providerType);
    if (ofType === undefined) return undefined;
    const entry = own(ofType, model) ?? own(ofType, model.replace(VERSION_DATE, ''));
    return entry === undefined || isPricing(entry) ? entry : pricingOf(entry);
  },
};

/** A dated version, such as `gpt-5.5-2026-04-23` and `claude-haiku-4-5-20251001`, has the price of its model. */
const VERSION_DATE = /-(?:\d{4}-\d{2}-\d{2}|\d{8})$/;

function own<T>(entries: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(entries, name) ? entries[name] : undefined;
}

function isPricing(entry: Row | ModelPricing): entry is ModelPricing {
  return !Array.isArray(entry);
}

function pricingOf([input, output, cachedInput, cacheWrite, cacheWriteForAnHour]: Row): ModelPricing {
  return {
    input_per_mtok: input,
    ...(output === undefined ? {} : { output_per_mtok: output }),
    ...(cachedInput === undefined ? {} : { cached_input_per_mtok: cachedInput }),
    ...(cacheWrite === undefined ? {} : { cache_write_per_mtok: cacheWrite }),
    ...(cacheWriteForAnHour === undefined ? {} : { cache_write_1h_per_mtok: cacheWriteForAnHour }),
  };
}

/**
 * @param limit input tokens up to which the first row applies; a larger request is charged by the second row as a
 * whole
 */
function upTo(limit: number, below: Row, beyond: Row): ModelPricing {
  return { ...pricingOf(beyond), tiers: [{ up_to_tokens: limit, ...pricingOf(below) }] };
}

function withAudio(row: Row, input: number, output?: number): ModelPricing {
  const outputRate = output === undefined ? {} : { audio_output_per_mtok: output };
  return { ...pricingOf(row), audio_input_per_mtok: input, ...outputRate };
}
