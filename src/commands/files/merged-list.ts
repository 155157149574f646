/** Several providers' lists as one, in the order of creation, read no further than a page needs. Knows no provider. */
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
  /** Whose list it is: told in every entry. */
  readonly provider: string;
  /** The page after an entry, or the first; undefined when there is no such list. */
  page(after: string | undefined): Promise<Page | undefined>;
}

export interface ListOptions {
  readonly order: 'asc' | 'desc';
  readonly limit: number;
  /** The id of the entry before the page. */
  readonly after?: string | undefined;
  /** What of the lists is to be seen. */
  isVisible(id: string): Promise<boolean>;
}

/** Of one list, as long as its pages lead on. */
const MAX_PAGES = 100;

/**
 * One page of all the lists together; undefined when `after` is in none of them. With a single list it is read from
 * `after` on; of several, each from its beginning, since a place in one says nothing about the others.
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
      // A server that does not know `after` would begin again and again.
      if (seen.has(entry.id)) return;
      seen.add(entry.id);
      last = entry.id;
      yield { ...entry, provider: source.provider };
    }
    if (page?.hasMore !== true || last === before) return;
  }
}

/** Of entries created at the same time, those of the earlier list come first. */
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
