/** Lists the files, or the batches, of all providers that store them. */

import { isObject } from '../../json/is-object.ts';
import type { Provider } from '../../providers/provider.ts';
import { isRouteMissing } from '../model-request/forward-operations.ts';
import { askProvider } from '../provider-objects/ask-provider.ts';
import { batchKindOf, messageBatches, type ObjectKind } from '../provider-objects/tracked.ts';
import { Refusal } from '../refusal.ts';
import { everything, seesEverything } from '../visibility.ts';
import { ableProvider, candidates, mayServe } from './holders.ts';
import { messageBatchId, messageBatchOf, providersIds } from './message-batches.ts';
import type { ObjectRequest } from './stored-objects.ts';

interface ListRequest extends ObjectRequest {
  readonly limit: number;
  readonly after: string | undefined;
  readonly order: 'asc' | 'desc';
  /** Passed on to every provider. */
  readonly filters: Readonly<Record<string, string>>;
}

/** One page of the objects of all providers that the caller may see. @throws Refusal */
export async function listObjects(kind: ObjectKind, request: ListRequest): Promise<object> {
  const { limit, after, order, provider: named, visibility } = request;
  const providers =
    named === undefined ? candidates(kind, request.providers) : [ableProvider(kind, named, request.providers)];
  const isVisible = async (id: string): Promise<boolean> =>
    seesEverything(visibility) || (await request.tracked.find(kind.name, id, visibility)) !== undefined;
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

/** Lists the batches of messages of all providers, newest first, as Anthropic does ("List Message Batches"). */
interface MessageBatchList extends ObjectRequest {
  readonly limit: number;
  /** The id of the batch before the page. */
  readonly after: string | undefined;
}

/** @throws Refusal, 404 for an `after` that is not in the list */
export async function listMessageBatches(request: MessageBatchList): Promise<object> {
  const { limit, after, visibility } = request;
  const named = request.provider === undefined ? undefined : request.providers.named(request.provider);
  const able = (named === undefined ? request.providers.all() : [named]).filter((one) =>
    mayServe(one, batchKindOf(one)),
  );
  const native = new Set(able.filter((one) => batchKindOf(one) === messageBatches).map(({ name }) => name));
  /** At a provider with OpenAI's API, only batches that were created by the Messages API are visible. */
  const isVisible = async (id: string): Promise<boolean> => {
    for (const own of providersIds(id)) {
      const tracked = await request.tracked.find('batch', own, seesEverything(visibility) ? everything : visibility);
      if (tracked !== undefined) return native.has(tracked.provider) || tracked.dialect === 'messages';
    }
    return seesEverything(visibility) && !id.startsWith('msgbatch_batch_');
  };
  if (after !== undefined && !(await isVisible(after))) throw messageBatches.notFound(after);
  const page = await mergedPage(
    able.map((provider) => listOfMessageBatches(provider, request)),
    { limit, after, order: 'desc', isVisible },
  );
  if (page === undefined) throw messageBatches.notFound(after ?? '');
  const data = page.data.map(({ shown }) => shown);
  return { data, has_more: page.hasMore, first_id: page.data[0]?.id ?? null, last_id: page.data.at(-1)?.id ?? null };
}

function listOfMessageBatches(provider: Provider, { requestId, signal }: ObjectRequest): ListSource {
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

/**
 * Merges the lists of several providers by time of creation, reading no further than a page needs. Independent of
 * providers.
 */
interface ListedObject {
  readonly id: string;
  readonly [member: string]: unknown;
}

/** Whether an entry of a provider's list has an id; entries without one are left out. */
function isListedObject(entry: unknown): entry is ListedObject {
  return isObject(entry) && typeof entry['id'] === 'string';
}

interface Page {
  readonly data: readonly ListedObject[];
  readonly hasMore: boolean;
}

interface ListSource {
  /** The provider of the list; added to every entry. */
  readonly provider: string;
  /** The page after an entry, or the first; undefined when there is no such list. */
  page(after: string | undefined): Promise<Page | undefined>;
}

interface ListOptions {
  readonly order: 'asc' | 'desc';
  readonly limit: number;
  /** The id of the entry before the page. */
  readonly after?: string | undefined;
  /** Whether the caller may see the entry. */
  isVisible(id: string): Promise<boolean>;
}

/** Maximum number of pages read from one list. */
const MAX_PAGES = 100;

/**
 * One page of all lists together; undefined when no list contains `after`. A single list is read from `after` on;
 * several lists are each read from the beginning, since a place in one does not determine a place in the others.
 */
async function mergedPage(sources: readonly ListSource[], options: ListOptions): Promise<Page | undefined> {
  const { limit, after, order } = options;
  const only = sources.length === 1;
  const lists = sources.map((source) => entriesOf(source, only ? after : undefined));
  let reached = after === undefined || only;
  const data: ListedObject[] = [];
  try {
    for await (const entry of inOrder(lists, order)) {
      if (!reached) {
        reached = entry.id === after;
        continue;
      }
      if (!(await options.isVisible(entry.id))) continue;
      if (data.length === limit) return { data, hasMore: true };
      data.push(entry);
    }
  } finally {
    for (const list of lists) await list.return(undefined);
  }
  return reached ? { data, hasMore: false } : undefined;
}

async function* entriesOf(source: ListSource, after: string | undefined): AsyncGenerator<ListedObject> {
  let last = after;
  const seen = new Set<string>();
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page = await source.page(last);
    const before = last;
    for (const entry of page?.data ?? []) {
      // A server that ignores `after` would return the first page again and again.
      if (seen.has(entry.id)) return;
      seen.add(entry.id);
      last = entry.id;
      yield { ...entry, provider: source.provider };
    }
    if (page?.hasMore !== true || last === before) return;
  }
}

/** Entries with the same time of creation keep the order of the lists. */
async function* inOrder(
  lists: readonly AsyncGenerator<ListedObject>[],
  order: 'asc' | 'desc',
): AsyncGenerator<ListedObject> {
  const heads = await Promise.all(lists.map(async (list) => ({ list, next: await list.next() })));
  const sign = order === 'asc' ? 1 : -1;
  for (;;) {
    let first: (typeof heads)[number] | undefined;
    for (const head of heads) {
      if (head.next.done === true) continue;
      if (first === undefined || first.next.done === true) first = head;
      else if (sign * (createdAt(head.next.value) - createdAt(first.next.value)) < 0) first = head;
    }
    if (first === undefined || first.next.done === true) return;
    yield first.next.value;
    first.next = await first.list.next();
  }
}

function createdAt({ created_at }: ListedObject): number {
  return typeof created_at === 'number' ? created_at : 0;
}
