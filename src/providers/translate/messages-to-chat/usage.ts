import { isObject } from '../../../json/is-object.ts';
import { tokensOrZero } from '../json.ts';

export interface MessageUsage {
  /** Without tokens that were read from, or written to, a cache. */
  readonly input_tokens: number;
  readonly cache_creation_input_tokens: number;
  readonly cache_read_input_tokens: number;
  readonly output_tokens: number;
  readonly output_tokens_details?: { readonly thinking_tokens: number };
}

/** The usage of a chat completion in Anthropic's format, which has no value for "unknown": 0. */
export function messageUsage(usage: unknown): MessageUsage {
  const given = isObject(usage) ? usage : {};
  const prompt = isObject(given['prompt_tokens_details']) ? given['prompt_tokens_details'] : {};
  const completion = isObject(given['completion_tokens_details']) ? given['completion_tokens_details'] : {};
  const read = tokensOrZero(prompt['cached_tokens'] ?? given['prompt_cache_hit_tokens']);
  const written = tokensOrZero(prompt['cache_write_tokens']);
  const thinking = completion['reasoning_tokens'];
  return {
    input_tokens: Math.max(0, tokensOrZero(given['prompt_tokens']) - read - written),
    cache_creation_input_tokens: written,
    cache_read_input_tokens: read,
    output_tokens: tokensOrZero(given['completion_tokens']),
    ...(typeof thinking === 'number' ? { output_tokens_details: { thinking_tokens: thinking } } : {}),
  };
}
