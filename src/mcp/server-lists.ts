/** The lists of a server: its tools, prompts, resources and templates, read whole and kept for five minutes. */
import { LRUCache } from 'lru-cache';
import { isObject } from '../json/is-object.ts';
import { codes, McpError, UpstreamFailure } from './json-rpc.ts';
import type { ServerFacts } from './upstream-session.ts';
import type { UpstreamRequests } from './upstreams.ts';

/** An entry as its server describes it. */
export type Listed = Readonly<Record<string, unknown>>;

interface ListFacts {
  readonly method: string;
  /** The member of the result. */
  readonly member: string;
  /** Of the server: without it there is no list. */
  readonly capability: string;
}

export const lists = {
  tools: { method: 'tools/list', member: 'tools', capability: 'tools' },
  prompts: { method: 'prompts/list', member: 'prompts', capability: 'prompts' },
  resources: { method: 'resources/list', member: 'resources', capability: 'resources' },
  templates: { method: 'resources/templates/list', member: 'resourceTemplates', capability: 'resources' },
} as const satisfies Record<string, ListFacts>;

export type ListKind = keyof typeof lists;

export const LIST_MS = 15_000;
const KEPT_MS = 300_000;
const MAX_LISTS = 1_000;
const MAX_PAGES = 200;
const MAX_ENTRIES = 10_000;
/** Of all pages of a list as JSON, and of all lists that are kept. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_KEPT_BYTES = 8 * MAX_BYTES;

export interface ListedServer extends UpstreamRequests {
  facts(): Promise<ServerFacts>;
}

export class ServerLists {
  readonly #kept = new LRUCache<string, Promise<readonly Listed[]>>({
    ...{ max: MAX_LISTS, ttl: KEPT_MS, maxSize: MAX_KEPT_BYTES, sizeCalculation: () => 1 },
  });
  /** By slug: how often its lists were dropped. */
  readonly #drops = new Map<string, number>();

  /**
   * @param view names what the server may let its lists depend on: capabilities of the client, and its authorization
   * @param checked called with a list that was just read, before anybody gets it
   * @throws UpstreamFailure, McpError, and what `checked` throws
   */
  get(
    { slug, kind, view }: { readonly slug: string; readonly kind: ListKind; readonly view: string },
    session: ListedServer,
    checked: (list: readonly Listed[]) => Promise<void>,
  ): Promise<readonly Listed[]> {
    const key = JSON.stringify([slug, this.#drops.get(slug) ?? 0, kind, view]);
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    let size = 1;
    const list = readList(kind, session).then(async ({ all, bytes }) => {
      await checked(all);
      size += bytes;
      return all;
    });
    this.#kept.set(key, list);
    list.then(
      () => this.#kept.peek(key) === list && this.#kept.set(key, list, { size }),
      () => this.#kept.delete(key),
    );
    return list;
  }

  /** The server has other lists now, or was defined anew. */
  drop(slug: string): void {
    this.#drops.set(slug, (this.#drops.get(slug) ?? 0) + 1);
  }
}

async function readList(
  kind: ListKind,
  session: ListedServer,
): Promise<{ readonly all: readonly Listed[]; readonly bytes: number }> {
  const { method, member, capability } = lists[kind];
  const { capabilities } = await session.facts();
  if (capabilities[capability] === undefined) return { all: [], bytes: 0 };
  const all: Listed[] = [];
  let bytes = 0;
  let cursor: unknown;
  for (let page = 0; page < MAX_PAGES; page++) {
    const options = { signal: AbortSignal.timeout(LIST_MS), timeoutMs: LIST_MS };
    const result = await session.request(method, cursor === undefined ? {} : { cursor }, options).catch(noSuchList);
    const entries: unknown = isObject(result) ? result[member] : undefined;
    if (!Array.isArray(entries)) throw new UpstreamFailure('closed', `the answer to ${method} has no list`);
    bytes += Buffer.byteLength(JSON.stringify(result));
    if (bytes > MAX_BYTES) throw new UpstreamFailure('too large', `${method} has more than ${MAX_BYTES} bytes`);
    for (const entry of entries) if (isObject(entry)) all.push(entry);
    if (all.length > MAX_ENTRIES)
      throw new UpstreamFailure('too large', `${method} has more than ${MAX_ENTRIES} entries`);
    cursor = isObject(result) ? result['nextCursor'] : undefined;
    if (typeof cursor !== 'string') return { all, bytes };
  }
  throw new UpstreamFailure('too large', `${method} has more than ${MAX_PAGES} pages`);
}

/** Servers may have one of two lists of a capability. */
function noSuchList(error: unknown): Record<string, never[]> {
  if (!(error instanceof McpError) || error.code !== codes.methodNotFound) throw error;
  return Object.fromEntries(Object.values(lists).map(({ member }) => [member, []]));
}

/** Empty for an entry without a name. */
export function entryName(entry: Listed): string {
  const { name } = entry;
  return typeof name === 'string' ? name : '';
}
