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

/**
 * Reads every vocabulary: `prompt_tokens`/`completion_tokens` and `input_tokens`/`output_tokens`. Anthropic's
 * `input_tokens` leave out what went through its cache; here, as with everybody else, they count in.
 */
export function readUsage(raw: unknown): TokenUsage {
  if (!isObject(raw)) return unknownUsage;
  const cacheRead = count(raw.cache_read_input_tokens);
  const inputTokens = count(raw.prompt_tokens) ?? withCached(count(raw.input_tokens), raw);
  const outputTokens = count(raw.completion_tokens) ?? count(raw.output_tokens);
  const totalTokens = count(raw.total_tokens);
  if (inputTokens === null && outputTokens === null && totalTokens === null) return unknownUsage;
  const inputDetails = firstObject(raw.prompt_tokens_details, raw.input_tokens_details);
  const outputDetails = firstObject(raw.completion_tokens_details, raw.output_tokens_details);
  return {
    inputTokens,
    outputTokens,
    totalTokens: totalTokens ?? (inputTokens ?? 0) + (outputTokens ?? 0),
    cachedInputTokens: count(inputDetails?.cached_tokens) ?? cacheRead,
    reasoningTokens: count(outputDetails?.reasoning_tokens) ?? count(outputDetails?.thinking_tokens),
    source: 'provider',
    raw,
  };
}

function withCached(uncached: number | null, raw: Record<string, unknown>): number | null {
  if (uncached === null) return null;
  return uncached + (count(raw.cache_read_input_tokens) ?? 0) + (count(raw.cache_creation_input_tokens) ?? 0);
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
