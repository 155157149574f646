/** Usage and cost of a request, in the form of an entry of the usage log. Unknown counts are null. */
import type { z } from 'zod';
import type { usageRecorded } from '../events/catalogue/exchange.ts';
import type { RecordedEvent } from '../events/event.ts';

/** Input tokens that were not read from a cache; 0 where a provider reports more cached than input tokens. */
export function uncachedOf(inputTokens: number, cachedInputTokens: number): number {
  return Math.max(0, inputTokens - cachedInputTokens);
}

export function usagePreview(
  event: RecordedEvent<string, z.infer<typeof usageRecorded.data>>,
  exchangeId: string,
): object {
  const { data, context } = event;
  const { inputTokens, cachedInputTokens } = data;
  const uncached = inputTokens === null ? null : uncachedOf(inputTokens, cachedInputTokens ?? 0);
  return {
    id: event.id,
    exchange_id: exchangeId,
    request_id: context.requestId,
    timestamp: new Date(event.at).toISOString(),
    model: data.model,
    provider: data.providerType,
    provider_name: data.provider,
    endpoint: data.endpoint,
    user_path: context.userPath ?? '/',
    input_tokens: inputTokens,
    output_tokens: data.outputTokens,
    total_tokens: data.totalTokens,
    uncached_input_tokens: uncached,
    cached_input_tokens: cachedInputTokens,
    cache_write_input_tokens: data.cacheWriteInputTokens,
    reasoning_tokens: data.reasoningTokens,
    session_id: data.sessionId,
    labels: data.labels,
    cache_type: data.cacheType,
    input_cost: dollars(data.inputCost),
    output_cost: dollars(data.outputCost),
    total_cost: dollars(data.totalCost),
    saved_cost: data.savedCost === undefined ? undefined : dollars(data.savedCost),
    cost_source: data.priceSource,
    costs_calculation_caveat: data.caveat,
    usage_source: data.source,
    estimated: data.estimated,
    estimated_input_tokens: data.estimatedInputTokens,
    estimated_output_tokens: data.estimatedOutputTokens,
    raw_data: data.raw,
    _live_state: 'usage.completed',
    _live_pending: false,
  };
}

/** US dollars, from nano-dollars. */
function dollars(nano: string | null): number | null {
  return nano === null ? null : Number(nano) / 1e9;
}
