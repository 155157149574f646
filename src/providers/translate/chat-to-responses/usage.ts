import { isObject } from '../../../json/is-object.ts';
import type { JsonObject } from '../json.ts';
import { tokensOrZero } from '../json.ts';
import type { ResponseUsage } from './response-object.ts';

/** Tokens with both sets of names. Null when the provider reported none: no value is estimated. */
export function responseUsage(usage: unknown): ResponseUsage | null {
  if (!isObject(usage)) return null;
  const input = tokensOrZero(usage['prompt_tokens'] ?? usage['input_tokens']);
  const output = tokensOrZero(usage['completion_tokens'] ?? usage['output_tokens']);
  const prompt = details(usage['prompt_tokens_details'] ?? usage['input_tokens_details']);
  const completion = details(usage['completion_tokens_details'] ?? usage['output_tokens_details']);
  const cached = tokensOrZero(prompt['cached_tokens'] ?? usage['prompt_cache_hit_tokens']);
  const reasoning = tokensOrZero(completion['reasoning_tokens'] ?? usage['reasoning_tokens']);
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: tokensOrZero(prompt['cache_write_tokens']) },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: (usage['total_tokens'] ?? null) === null ? input + output : tokensOrZero(usage['total_tokens']),
    prompt_tokens_details: { ...prompt, cached_tokens: cached },
    completion_tokens_details: { ...completion, reasoning_tokens: reasoning },
    raw_usage: usage,
  };
}

function details(value: unknown): JsonObject {
  if (!isObject(value)) return {};
  return Object.fromEntries(Object.entries(value).filter(([, tokens]) => typeof tokens === 'number'));
}
