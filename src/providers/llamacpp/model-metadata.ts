/** Model metadata from a llama.cpp server. */
import { isObject } from '../../json/is-object.ts';
import { type ListedEntry, positiveCount } from '../openai-compatible/model-list.ts';
import type { ModelMetadata } from '../provider.ts';

/**
 * The context window is the server's size per slot: `meta.n_ctx` of the entry, which older builds lack; then
 * `default_generation_settings.n_ctx` of `/props`; then the trained size, which is only an upper bound. Modalities that
 * `/props` reports as true become capabilities.
 * @param props the server's `/props`; undefined when it serves several models, which that route does not describe
 */
export function llamacppMetadata({ entry }: ListedEntry, props: unknown): ModelMetadata {
  const meta = isObject(entry['meta']) ? entry['meta'] : {};
  const known = isObject(props) ? props : {};
  const settings = isObject(known['default_generation_settings']) ? known['default_generation_settings'] : {};
  const modalities = isObject(known['modalities']) ? known['modalities'] : {};
  const context =
    positiveCount(meta['n_ctx']) ?? positiveCount(settings['n_ctx']) ?? positiveCount(meta['n_ctx_train']);
  const capabilities = Object.fromEntries(
    ['vision', 'video', 'audio'].filter((name) => modalities[name] === true).map((name) => [name, true]),
  );
  return {
    ...(context === undefined ? {} : { context_window: context }),
    ...(Object.keys(capabilities).length === 0 ? {} : { capabilities }),
  };
}
