/** Reads `GET /models` of servers with OpenAI's format and its variants. */
import { isObject } from '../../json/is-object.ts';
import type { ModelMetadata, ProviderModel } from '../provider.ts';

/** One entry of the listing, with all of the server's members. */
export interface ListedEntry {
  readonly id: string;
  readonly entry: Readonly<Record<string, unknown>>;
}

const MAX_ID_LENGTH = 512;
const MAX_TEXT_LENGTH = 2000;

/**
 * Accepts `{"data": […]}` or a bare array of objects or ids. Ids are trimmed, the first of several equal ones counts,
 * and entries without an id are skipped. Undefined when the body is not a listing.
 */
export function listedEntries(body: unknown, idPrefix = ''): ListedEntry[] | undefined {
  const items = isObject(body) ? body['data'] : body;
  if (!Array.isArray(items)) return undefined;
  const found = new Map<string, ListedEntry>();
  for (const item of items) {
    const entry = isObject(item) ? item : { id: item };
    const id = typeof entry['id'] === 'string' ? withoutPrefix(entry['id'].trim(), idPrefix) : '';
    if (id !== '' && id.length <= MAX_ID_LENGTH && !found.has(id)) found.set(id, { id, entry });
  }
  return [...found.values()];
}

/** @param known metadata from other sources, which wins over the entry */
export function providerModelOf(
  { id, entry }: ListedEntry,
  defaultOwner: string,
  known: ModelMetadata = {},
): ProviderModel {
  const created = entry['created'];
  const owner = entry['owned_by'];
  const metadata = { ...describe(entry), ...known };
  return {
    id,
    created: typeof created === 'number' && created > 0 && Number.isFinite(created) ? Math.trunc(created) : 0,
    ownedBy: typeof owner === 'string' && owner !== '' ? owner : defaultOwner,
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
}

/** Members of known servers beyond OpenAI's: each has its own name for the context window. */
function describe(entry: Readonly<Record<string, unknown>>): ModelMetadata {
  const context = firstCount(entry, ['context_window', 'context_length', 'max_context_length', 'max_model_len']);
  const output = firstCount(entry, ['max_completion_tokens', 'max_output_tokens']);
  const name = text(entry['display_name']) ?? text(entry['name']);
  const description = text(entry['description']);
  return {
    ...(name === undefined ? {} : { display_name: name }),
    ...(description === undefined ? {} : { description }),
    ...(context === undefined ? {} : { context_window: context }),
    ...(output === undefined ? {} : { max_output_tokens: output }),
  };
}

function firstCount(entry: Readonly<Record<string, unknown>>, names: readonly string[]): number | undefined {
  for (const name of names) {
    const count = positiveCount(entry[name]);
    if (count !== undefined) return count;
  }
  return undefined;
}

export function positiveCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, MAX_TEXT_LENGTH) : undefined;
}

function withoutPrefix(id: string, prefix: string): string {
  return prefix !== '' && id.startsWith(prefix) ? id.slice(prefix.length) : id;
}
