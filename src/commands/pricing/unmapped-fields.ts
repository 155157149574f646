/** Counts in a provider's usage object for which the gateway has no price. */
import { isObject } from '../../json/is-object.ts';

/** The counts that are read, and those that repeat them under other names. */
const known = new Set([
  'prompt_tokens',
  'completion_tokens',
  'input_tokens',
  'output_tokens',
  'total_tokens',
  'text_tokens',
  'cached_tokens',
  'cached_text_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'cache_write_tokens',
  'cache_write_1h_tokens',
  'cache_creation_tokens',
  'ephemeral_5m_input_tokens',
  'ephemeral_1h_input_tokens',
  'prompt_cache_hit_tokens',
  'prompt_cache_miss_tokens',
  'reasoning_tokens',
  'thinking_tokens',
  'audio_tokens',
  'image_tokens',
  'accepted_prediction_tokens',
  'rejected_prediction_tokens',
]);

/** Counts besides tokens that are charged, such as searches. */
const CHARGED_FIELDS = /token|search|server_tool/;

/** The names of the counts above 0, with the object that contains them. */
export function unmappedFields(raw: Record<string, unknown> | null): string[] {
  const found: string[] = [];
  if (raw !== null) collect(raw, '', found);
  return found;
}

function collect(fields: Record<string, unknown>, prefix: string, found: string[]): void {
  for (const name in fields) {
    if (known.has(name)) continue;
    const value = fields[name];
    if (typeof value === 'number') {
      if (value > 0 && CHARGED_FIELDS.test(prefix === '' ? name : `${prefix}.${name}`)) {
        found.push(prefix === '' ? name : `${prefix}.${name}`);
      }
    } else if (prefix === '' && isObject(value)) collect(value, name, found);
  }
}
