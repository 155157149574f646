/**
 * Usage in the format of chat completions. Anthropic counts tokens read from its cache, or written to it, in addition
 * to `input_tokens`; chat completions include them.
 */
import { isObject } from '../../../json/is-object.ts';
import { type JsonObject, reportedCount, totalOf } from '../json.ts';

/** Null when nothing was reported: no value is estimated. A side that is not reported as a number is null. */
export function chatUsage(usage: JsonObject): JsonObject | null {
  const input = reportedCount(usage['input_tokens']);
  const completion = reportedCount(usage['output_tokens']);
  if (input === null && completion === null) return null;
  const cached = count(usage['cache_read_input_tokens']);
  const written = count(usage['cache_creation_input_tokens']);
  const writes = usage['cache_creation'];
  const forAnHour = isObject(writes) ? count(writes['ephemeral_1h_input_tokens']) : 0;
  const prompt = input === null ? null : input + cached + written;
  const details = usage['output_tokens_details'];
  const thought = isObject(details) ? details['thinking_tokens'] : undefined;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: totalOf(prompt, completion),
    prompt_tokens_details: {
      cached_tokens: cached,
      cache_write_tokens: written,
      // A write for an hour costs more than one for five minutes.
      ...(forAnHour > 0 ? { cache_write_1h_tokens: forAnHour } : {}),
    },
    ...(typeof thought === 'number' ? { completion_tokens_details: { reasoning_tokens: thought } } : {}),
  };
}

/** A later report replaces an earlier one, member by member: the counts of a stream are cumulative. */
export function mergedUsage(before: JsonObject, report: unknown): JsonObject {
  if (!isObject(report)) return before;
  const counts = Object.entries(report).filter(([, value]) => value !== null && value !== undefined);
  return { ...before, ...Object.fromEntries(counts) };
}

function count(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0;
}
