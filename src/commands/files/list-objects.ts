/** Lists the files, or the batches, of all providers that store them. */
import type { Provider } from '../../providers/provider.ts';
import { isRouteMissing } from '../model-request/forward-operations.ts';
import { askProvider } from '../provider-objects/ask-provider.ts';
import type { ObjectKind } from '../provider-objects/tracked.ts';
import { Refusal } from '../refusal.ts';
import { seesEverything } from '../visibility.ts';
import { ableProvider, candidates } from './holders.ts';
import { isListedObject, type ListSource, mergedPage, type Page } from './merged-list.ts';
import type { ObjectDependencies, ObjectRequest } from './stored-objects.ts';

export interface ListRequest extends ObjectRequest {
  readonly limit: number;
  readonly after: string | undefined;
  readonly order: 'asc' | 'desc';
  /** Passed on to every provider. */
  readonly filters: Readonly<Record<string, string>>;
}

/** One page of the objects of all providers that the caller may see. @throws Refusal */
export async function listObjects(kind: ObjectKind, request: ListRequest, deps: ObjectDependencies): Promise<object> {
  const { limit, after, order, provider: named, sight } = request;
  const providers =
    named === undefined ? candidates(kind, deps.providers) : [ableProvider(kind, named, deps.providers)];
  const isVisible = async (id: string): Promise<boolean> =>
    seesEverything(sight) || (await deps.tracked.find(kind.name, id, sight)) !== undefined;
  // Providers know the objects of all callers; without this check their answer would show whether the object exists.
  if (after !== undefined && !(await isVisible(after))) throw kind.notFound(after);
  const page = await mergedPage(
    providers.map((provider) => listOf(kind, provider, request)),
    { limit, after, order, isVisible },
  );
  if (page === undefined) throw kind.notFound(after ?? '');
  const { data, hasMore } = page;
  return { object: 'list', data, has_more: hasMore, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
}

/** Most servers return at most this many entries per page. */
const PAGE_SIZE = '100';

function listOf(kind: ObjectKind, provider: Provider, request: ListRequest): ListSource {
  const isKnown = provider.capabilities.serves !== undefined;
  return {
    provider: provider.name,
    async page(after) {
      const query = new URLSearchParams({ ...request.filters, limit: PAGE_SIZE });
      if (kind.name === 'file') query.set('order', request.order);
      if (after !== undefined) query.set('after', after);
      const { requestId, signal } = request;
      try {
        const path = `${kind.endpoint}?${query}`;
        const found = await askProvider(provider, { method: 'GET', path, requestId, signal });
        if (found !== undefined) return pageIn(found);
        if (after !== undefined) throw kind.notFound(after);
        return undefined;
      } catch (error) {
        if (!isKnown && error instanceof Refusal && isRouteMissing(error, '')) return undefined;
        throw error;
      }
    },
  };
}

function pageIn({ data, has_more }: Record<string, unknown>): Page {
  const entries = Array.isArray(data) ? data.filter(isListedObject) : [];
  return { data: entries, hasMore: has_more === true };
}
