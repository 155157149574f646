/** Anthropic, through its own Messages API. */
import { isObject } from '../../json/is-object.ts';
import { type ListedEntry, listedEntries, providerModelOf } from '../openai-compatible/model-list.ts';
import { createOpenAiCompatible, notAListing } from '../openai-compatible/openai-compatible.ts';
import type { Provider } from '../provider.ts';
import type { ProviderConfig } from '../provider-config.ts';
import type { ProviderType } from '../types.ts';
import { anthropicMetadata, releasedAt } from './model-metadata.ts';

/** The largest page that Anthropic returns. */
const PAGE = 1000;
const MAX_PAGES = 10;

/** @throws Error when the default limit on output tokens is not a positive integer */
export function createAnthropic(config: ProviderConfig, row: ProviderType): Provider {
  const limit = config.options['defaultMaxTokens'];
  if (limit !== undefined && limit !== '' && !/^[1-9]\d{0,8}$/.test(limit)) {
    throw new Error(`the default limit on output tokens must be a positive integer, but is '${limit}'`);
  }
  return createOpenAiCompatible(config, {
    row,
    async listModels(readJson, base, signal) {
      const found: ListedEntry[] = [];
      let after = '';
      for (let page = 0; page < MAX_PAGES; page++) {
        const listing = await readJson(`${base.path}/models?limit=${PAGE}${after}`, signal);
        const entries = listedEntries(listing);
        if (entries === undefined) throw notAListing(config.name, 'JSON of another shape');
        found.push(...entries);
        const last = isObject(listing) && listing['has_more'] === true ? listing['last_id'] : undefined;
        if (typeof last !== 'string' || last === '') break;
        after = `&after_id=${encodeURIComponent(last)}`;
      }
      return found.map((listed) => {
        const created = releasedAt(listed);
        const dated = { ...listed, entry: { ...listed.entry, created } };
        return providerModelOf(dated, config.type, anthropicMetadata(listed));
      });
    },
  });
}
