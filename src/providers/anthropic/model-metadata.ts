/** Model metadata from Anthropic's listing. */
import { isObject } from '../../json/is-object.ts';
import { type ListedEntry, positiveCount } from '../openai-compatible/model-list.ts';
import type { ModelMetadata } from '../provider.ts';

/** Anthropic's names of capabilities that other listings name differently. */
const names: ReadonlyMap<string, string> = new Map([['image_input', 'vision']]);

export function anthropicMetadata({ entry }: ListedEntry): ModelMetadata {
  const context = positiveCount(entry['max_input_tokens']);
  const output = positiveCount(entry['max_tokens']);
  const listed = isObject(entry['capabilities']) ? Object.entries(entry['capabilities']) : [];
  const supported = listed.filter(([, support]) => isObject(support) && support['supported'] === true);
  const capabilities = Object.fromEntries(supported.map(([name]) => [names.get(name) ?? name, true]));
  return {
    ...(context === undefined ? {} : { context_window: context }),
    ...(output === undefined ? {} : { max_output_tokens: output }),
    ...(supported.length === 0 ? {} : { capabilities }),
  };
}

/** Unix seconds; 0 when unknown. */
export function releasedAt({ entry }: ListedEntry): number {
  const at = typeof entry['created_at'] === 'string' ? Date.parse(entry['created_at']) : Number.NaN;
  return Number.isNaN(at) ? 0 : Math.max(0, Math.trunc(at / 1000));
}
