/**
 * Merges the lists of several providers by time of creation, reading no further than a page needs. Independent of
 * providers.
 */
import { isObject } from '../../json/is-object.ts';

export interface ListedObject {
  readonly id: string;
  readonly [member: string]: unknown;
}

/** Whether an entry of a provider's list has an id; entries without one are left out. */
export function isListedObject(entry: unknown): entry is ListedObject {
  return isObject(entry) && typeof entry['id'] === 'string';
}

export interface Page {
  readonly data: readonly ListedObject[];
  readonly hasMore: boolean;
}

export interface ListSource {
  /** The provider of the list; added to every entry. */
  readonly provider: string;
  /** The page after an entry, or the first; undefined when there is no such list. */
  page(after: string | undefined): Promise<Page | undefined>;
}

export interface ListOptions {
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
export async function mergedPage(sources: readonly ListSource[], options: ListOptions): Promise<Page | undefined> {
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
