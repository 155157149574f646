/** The usage that an answer reports, in the gateway's form. Pure. */
import type { z } from 'zod';
import type { tokenCounts } from '../../events/catalogue/exchange.ts';
import { isObject } from '../../json/is-object.ts';
import { providerType } from '../../providers/types.ts';

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
 * `input_tokens` exclude cached tokens; here they are included, as with other providers. A member that is not a number
 * of tokens is null, and so is a total of which a part cannot be read.
 */
export function readUsage(raw: unknown): TokenUsage {
  if (!isObject(raw)) return unknownUsage;
  const inputTokens = count(raw.prompt_tokens) ?? withCached(count(raw.input_tokens), raw);
  const outputTokens = count(raw.completion_tokens) ?? count(raw.output_tokens);
  const total = count(raw.total_tokens);
  const inputSeconds = secondsIn(raw);
  if (inputTokens === null && outputTokens === null && total === null && inputSeconds === undefined) {
    return unknownUsage;
  }
  const input = firstObject(raw.prompt_tokens_details, raw.input_tokens_details) ?? nothing;
  const output = firstObject(raw.completion_tokens_details, raw.output_tokens_details) ?? nothing;
  const isSummable = inputTokens !== null && (outputTokens !== null || !OUTPUT_NAMES.some((name) => name in raw));
  const usage: TokenUsage = {
    inputTokens,
    outputTokens,
    totalTokens: total ?? (isSummable ? inputTokens + (outputTokens ?? 0) : null),
    cachedInputTokens:
      count(input.cached_tokens) ??
      count(raw.cache_read_input_tokens) ??
      count(raw.prompt_cache_hit_tokens) ??
      count(raw.cached_tokens),
    cacheWriteInputTokens:
      count(input.cache_write_tokens) ?? count(input.cache_creation_tokens) ?? count(raw.cache_creation_input_tokens),
    cacheWrite1hInputTokens:
      count(input.cache_write_1h_tokens) ?? count(firstObject(raw.cache_creation)?.ephemeral_1h_input_tokens),
    reasoningTokens: count(output.reasoning_tokens) ?? count(output.thinking_tokens) ?? count(raw.reasoning_tokens),
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

/**
 * The usage as it is charged and recorded: thinking that a provider of this type counts beside the output is a part of
 * it. Where the documentation of a provider does not say so, a total above input and output is not charged.
 */
export function withThinking(usage: TokenUsage, type: string): TokenUsage {
  const { inputTokens, outputTokens, totalTokens, reasoningTokens } = usage;
  if (inputTokens === null || outputTokens === null || totalTokens === null) return usage;
  const rest = totalTokens - inputTokens - outputTokens;
  if (rest <= 0) return usage;
  const beside = providerType(type)?.thinkingBesideOutput;
  const isThinking =
    reasoningTokens === null ? beside === 'in total' : beside !== undefined && reasoningTokens === rest;
  return isThinking ? { ...usage, outputTokens: outputTokens + rest, reasoningTokens: rest } : usage;
}

/**
 * Whether an answer without reported output has none, as for embeddings: its provider counts input, a total not above
 * it, and has no member for output tokens.
 */
export function hasNoOutput({ inputTokens, outputTokens, totalTokens, raw }: TokenUsage): boolean {
  if (outputTokens !== null || inputTokens === null || totalTokens === null || totalTokens > inputTokens) return false;
  return raw === null || !OUTPUT_NAMES.some((name) => name in raw);
}

/** Whether the provider has counted input and output, or the seconds of a recording. */
export function isReported({ inputTokens, outputTokens, inputSeconds }: TokenUsage): boolean {
  return inputSeconds !== undefined || (inputTokens !== null && outputTokens !== null);
}

/** Whether an answer whose text has no tokens can be charged as its provider reported it. */
export function isCounted(usage: TokenUsage): boolean {
  return isReported(usage) || hasNoOutput(usage);
}

/** What in a report cannot be read or contradicts itself; undefined for nearly every report. */
export function contradictionIn(usage: TokenUsage): string | undefined {
  const { inputTokens, outputTokens, totalTokens, cachedInputTokens, raw } = usage;
  const found: string[] = [];
  if (raw !== null) {
    for (const name of COUNTS)
      if ((raw[name] ?? 0) !== 0 && count(raw[name]) === null) found.push(`${name} is no count`);
  }
  if (inputTokens !== null && outputTokens !== null && totalTokens !== null) {
    const rest = totalTokens - inputTokens - outputTokens;
    if (rest > 0) found.push(`${rest} tokens of the total are neither input nor output`);
    if (rest < 0) found.push(`the total is ${-rest} tokens below input and output`);
  }
  if (inputTokens !== null && cachedInputTokens !== null && cachedInputTokens > inputTokens) {
    found.push(`${cachedInputTokens} cached tokens of ${inputTokens} input tokens`);
  }
  return found.length === 0 ? undefined : found.join('; ');
}

const OUTPUT_NAMES = ['completion_tokens', 'output_tokens'] as const;
const COUNTS = ['prompt_tokens', 'input_tokens', ...OUTPUT_NAMES, 'total_tokens'] as const;

function withCached(uncached: number | null, raw: Json): number | null {
  if (uncached === null) return null;
  return uncached + (count(raw.cache_read_input_tokens) ?? 0) + (count(raw.cache_creation_input_tokens) ?? 0);
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

/** Tokens counted by the gateway when a provider did not report them. */
export interface EstimatedTokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** The units of a request that are not tokens. */
export interface Units {
  /** Characters of text to be spoken. */
  readonly inputCharacters?: number | undefined;
  readonly outputImages?: number | undefined;
}

/** Work that a provider continues after its answer; its cost is known when it is over. */
export interface DeferredWork {
  readonly kind: 'response' | 'batch';
  /** The provider's own id of the work. */
  readonly id: string;
  /** For a batch whose input was read: the work per model. */
  readonly parts?: readonly WorkPart[] | undefined;
}

/** The part of such work for one model. */
export interface WorkPart extends EstimatedTokens {
  readonly model: string;
  readonly answers: number;
}

/**
 * The tokens that rate limits count: the estimate where there is one, else the reported number; null when it is
 * unknown.
 */
export function countedTokens(reported: number | null, estimate: EstimatedTokens | undefined): number | null {
  return estimate === undefined ? reported : estimate.inputTokens + estimate.outputTokens;
}
