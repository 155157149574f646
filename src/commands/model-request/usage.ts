/** The usage that an answer reports, in the gateway's form. Pure. */
import type { z } from 'zod';
import type { tokenCounts } from '../../events/catalogue/exchange.ts';
import { isObject } from '../../json/is-object.ts';

/** Counts are null where the provider does not report them. */
export interface TokenUsage extends Readonly<z.infer<z.ZodObject<typeof tokenCounts>>> {
  /** Seconds of audio, where a provider counts them. */
  readonly inputSeconds?: number | undefined;
  readonly source: 'provider' | 'unknown';
  readonly raw: Record<string, unknown> | null;
}

export const unknownUsage: TokenUsage = {
  inputTokens: null,
  outputTokens: null,
  totalTokens: null,
  cachedInputTokens: null,
  cacheWriteInputTokens: null,
  cacheWrite1hInputTokens: null,
  reasoningTokens: null,
  audioInputTokens: null,
  audioOutputTokens: null,
  imageInputTokens: null,
  imageOutputTokens: null,
  acceptedPredictionTokens: null,
  rejectedPredictionTokens: null,
  source: 'unknown',
  raw: null,
};

type Json = Record<string, unknown>;
const nothing: Json = Object.freeze({});

/**
 * Reads every vocabulary: `prompt_tokens`/`completion_tokens` and `input_tokens`/`output_tokens`. Anthropic's
 * `input_tokens` exclude cached tokens; here they are included, as with other providers. Gemini and xAI leave
 * thinking out of `completion_tokens` but not out of the total; here it counts as output, as it is charged.
 */
export function readUsage(raw: unknown): TokenUsage {
  if (!isObject(raw)) return unknownUsage;
  const inputTokens = count(raw.prompt_tokens) ?? withCached(count(raw.input_tokens), raw);
  const reported = count(raw.completion_tokens) ?? count(raw.output_tokens);
  const total = count(raw.total_tokens);
  const inputSeconds = secondsIn(raw);
  if (inputTokens === null && reported === null && total === null && inputSeconds === undefined) return unknownUsage;
  const input = firstObject(raw.prompt_tokens_details, raw.input_tokens_details) ?? nothing;
  const output = firstObject(raw.completion_tokens_details, raw.output_tokens_details) ?? nothing;
  const reasoning = count(output.reasoning_tokens) ?? count(output.thinking_tokens) ?? count(raw.reasoning_tokens);
  const unreported = unreportedThinking(inputTokens, reported, total, reasoning);
  const outputTokens = reported === null ? null : reported + unreported;
  const usage: TokenUsage = {
    inputTokens,
    outputTokens,
    totalTokens:
      total ?? (inputTokens === null && outputTokens === null ? null : (inputTokens ?? 0) + (outputTokens ?? 0)),
    cachedInputTokens:
      count(input.cached_tokens) ??
      count(raw.cache_read_input_tokens) ??
      count(raw.prompt_cache_hit_tokens) ??
      count(raw.cached_tokens),
    cacheWriteInputTokens:
      count(input.cache_write_tokens) ?? count(input.cache_creation_tokens) ?? count(raw.cache_creation_input_tokens),
    cacheWrite1hInputTokens:
      count(input.cache_write_1h_tokens) ?? count(firstObject(raw.cache_creation)?.ephemeral_1h_input_tokens),
    reasoningTokens: reasoning ?? (unreported > 0 ? unreported : null),
    audioInputTokens: count(input.audio_tokens),
    audioOutputTokens: count(output.audio_tokens),
    imageInputTokens: count(input.image_tokens),
    imageOutputTokens: count(output.image_tokens),
    acceptedPredictionTokens: count(output.accepted_prediction_tokens),
    rejectedPredictionTokens: count(output.rejected_prediction_tokens),
    source: 'provider',
    raw,
  };
  return inputSeconds === undefined ? usage : { ...usage, inputSeconds };
}

function withCached(uncached: number | null, raw: Json): number | null {
  if (uncached === null) return null;
  return uncached + (count(raw.cache_read_input_tokens) ?? 0) + (count(raw.cache_creation_input_tokens) ?? 0);
}

/** Thinking tokens that a provider counts only in the total: the total minus input and output. */
function unreportedThinking(
  input: number | null,
  output: number | null,
  total: number | null,
  reasoning: number | null,
): number {
  if (input === null || output === null || total === null) return 0;
  const rest = total - input - output;
  return rest > 0 && (reasoning === null || reasoning === rest) ? rest : 0;
}

/** OpenAI counts some transcriptions in seconds; Mistral reports seconds for all. */
function secondsIn(raw: Json): number | undefined {
  const seconds = raw.type === 'duration' ? raw.seconds : raw.prompt_audio_seconds;
  return typeof seconds === 'number' && seconds >= 0 && seconds <= MAX_COUNT ? seconds : undefined;
}

function firstObject(...values: unknown[]): Json | undefined {
  return values.find(isObject);
}

/** More than any request has. Sums and prices of larger counts would exceed the range of the record and the tables. */
const MAX_COUNT = 1e12;

function count(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_COUNT ? value : null;
}
