/** Lists the batches of messages of all providers, newest first, as Anthropic does ("List Message Batches"). */
import type { Provider } from '../../providers/provider.ts';
import { isRouteMissing } from '../model-request/forward-operations.ts';
import { askProvider } from '../provider-objects/ask-provider.ts';
import { batchKindOf, messageBatches } from '../provider-objects/tracked.ts';
import { Refusal } from '../refusal.ts';
import { everything, seesEverything } from '../visibility.ts';
import { mayServe } from './holders.ts';
import { isListedObject, type ListedObject, type ListSource, mergedPage } from './merged-list.ts';
import { messageBatchId, messageBatchOf, providersIds } from './message-batch-object.ts';
import type { ObjectDependencies, ObjectRequest } from './stored-objects.ts';

export interface MessageBatchList extends ObjectRequest {
  readonly limit: number;
  /** The id of the batch before the page. */
  readonly after: string | undefined;
}

const PAGE_SIZE = '100';

/** @throws Refusal, 404 for an `after` that is not in the list */
export async function listMessageBatches(request: MessageBatchList, deps: ObjectDependencies): Promise<object> {
  const { limit, after, sight } = request;
  const named = request.provider === undefined ? undefined : deps.providers.named(request.provider);
  const able = (named === undefined ? deps.providers.all() : [named]).filter((one) => mayServe(one, batchKindOf(one)));
  const native = new Set(able.filter((one) => batchKindOf(one) === messageBatches).map(({ name }) => name));
  /** At a provider with OpenAI's API, only batches that were created by the Messages API are visible. */
  const isVisible = async (id: string): Promise<boolean> => {
    for (const own of providersIds(id)) {
      const tracked = await deps.tracked.find('batch', own, seesEverything(sight) ? everything : sight);
      if (tracked !== undefined) return native.has(tracked.provider) || tracked.dialect === 'messages';
    }
    return seesEverything(sight) && !id.startsWith('msgbatch_batch_');
  };
  if (after !== undefined && !(await isVisible(after))) throw messageBatches.notFound(after);
  const page = await mergedPage(
    able.map((provider) => listOf(provider, request)),
    { limit, after, order: 'desc', isVisible },
  );
  if (page === undefined) throw messageBatches.notFound(after ?? '');
  const data = page.data.map(({ shown }) => shown);
  return { data, has_more: page.hasMore, first_id: page.data[0]?.id ?? null, last_id: page.data.at(-1)?.id ?? null };
}

function listOf(provider: Provider, { requestId, signal }: ObjectRequest): ListSource {
  const kind = batchKindOf(provider);
  const isKnown = provider.capabilities.serves !== undefined;
  return {
    provider: provider.name,
    async page(after) {
      const query = new URLSearchParams({ limit: PAGE_SIZE });
      const own = after === undefined || kind === messageBatches ? after : providersIds(after).at(-1);
      if (own !== undefined) query.set(kind === messageBatches ? 'after_id' : 'after', own);
      try {
        const path = `${kind.endpoint}?${query}`;
        const found = await askProvider(provider, { method: 'GET', path, requestId, signal });
        if (found === undefined) return undefined;
        const data = Array.isArray(found.data) ? found.data.filter(isListedObject) : [];
        return { data: data.map((batch) => listed(batch, kind)), hasMore: found.has_more === true };
      } catch (error) {
        if (!isKnown && error instanceof Refusal && isRouteMissing(error, '')) return undefined;
        throw error;
      }
    },
  };
}

/** Adds the time of creation in seconds, by which lists are merged. */
function listed(batch: ListedObject, kind: ReturnType<typeof batchKindOf>): ListedObject {
  const shown = messageBatchOf(kind, batch);
  return { id: messageBatchId(kind, batch.id), created_at: Date.parse(shown.created_at) / 1000, shown };
}
