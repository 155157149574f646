/** What an answer says it cost, in the gateway's own words. Pure. */

export interface TokenUsage {
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly totalTokens: number | null;
  readonly cachedInputTokens: number | null;
  readonly reasoningTokens: number | null;
  readonly source: 'provider' | 'unknown';
  readonly raw: Record<string, unknown> | null;
}

export const unknownUsage: TokenUsage = {
  inputTokens: null,
  outputTokens: null,
  totalTokens: null,
  cachedInputTokens: null,
  reasoningTokens: null,
  source: 'unknown',
  raw: null,
};

/** Reads either vocabulary: `prompt_tokens`/`completion_tokens` and `input_tokens`/`output_tokens`. */
export function readUsage(raw: unknown): TokenUsage {
  if (!isObject(raw)) return unknownUsage;
  const inputTokens = count(raw.prompt_tokens) ?? count(raw.input_tokens);
  const outputTokens = count(raw.completion_tokens) ?? count(raw.output_tokens);
  const totalTokens = count(raw.total_tokens);
  if (inputTokens === null && outputTokens === null && totalTokens === null) return unknownUsage;
  const inputDetails = firstObject(raw.prompt_tokens_details, raw.input_tokens_details);
  const outputDetails = firstObject(raw.completion_tokens_details, raw.output_tokens_details);
  return {
    inputTokens,
    outputTokens,
    totalTokens: totalTokens ?? (inputTokens ?? 0) + (outputTokens ?? 0),
    cachedInputTokens: count(inputDetails?.cached_tokens),
    reasoningTokens: count(outputDetails?.reasoning_tokens),
    source: 'provider',
    raw,
  };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function firstObject(...values: unknown[]): Record<string, unknown> | undefined {
  return values.find(isObject);
}

function count(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : null;
}
