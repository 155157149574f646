/** Requests by any of their ids: of the exchange, the request, the response, an item, the session or the key. */
import { scopedSession } from '../../commands/model-request/model-request.ts';
import { isIndexable, responseOfItem } from '../../commands/responses/input-items.ts';
import type { UserPath } from '../../events/event.ts';
import type { AnalyticsDb } from '../../projections/analytics/analytics-db.ts';
import type { IdColumn, IdMatches } from '../../projections/analytics/audit-filter.ts';
import { type FoundById, findByIds, pathsOfRequests } from '../../projections/analytics/audit-ids.ts';
import type { ItemIndex } from '../../projections/items.ts';
import { rangeBetween } from '../dates.ts';
import { type AuditQuery, hasInstants, type RequestedAudit } from './audit-request.ts';

/** What finds the requests of an id. */
export interface IdSearch {
  readonly db: AnalyticsDb;
  readonly items: ItemIndex;
}

/** What kind of id found requests. */
export const idKinds = ['exchange', 'request', 'response', 'item', 'session', 'key'] as const;
export type IdKind = (typeof idKinds)[number];

export interface AuditById extends RequestedAudit {
  /** Undefined without an `id` in the query. */
  readonly foundBy: readonly IdKind[] | undefined;
}

/**
 * The same with the requests of `id`, in the range of time in which they are.
 * @throws Refusal 503 when analytics does not answer
 */
export async function auditById(
  query: AuditQuery,
  requested: RequestedAudit,
  { db, items }: IdSearch,
  signal?: AbortSignal,
): Promise<AuditById> {
  const { id } = query;
  if (id === undefined) return { ...requested, foundBy: undefined };
  const { subtree } = requested;
  const wanted = matchesOf(id, await requestsOfItem(id, items));
  const found = (await findByIds(db, wanted, subtree, signal)) ?? (await findSession(id, subtree, db, signal));
  // An id that finds nothing adds nothing to the answer: an item may be that of another subtree.
  if (found === undefined)
    return { ...requested, filter: { ...requested.filter, ids: matchesOf(id, {}) }, foundBy: [] };
  const range = hasInstants(query) ? requested : rangeBetween(found.from, found.until, requested.timeZone);
  const { from, until } = range;
  return {
    ...requested,
    ...range,
    filter: { ...requested.filter, from, until, ids: found.ids },
    foundBy: kindsOf(id, found.ids),
  };
}

/** Most user paths under which a session is searched. */
const MOST_PATHS = 2000;

/** A session by the id that the client sent: under a user path it is recorded as a digest of both. */
async function findSession(
  id: string,
  subtree: UserPath | undefined,
  db: AnalyticsDb,
  signal: AbortSignal | undefined,
): Promise<FoundById | undefined> {
  const paths = await pathsOfRequests(db, subtree, MOST_PATHS, signal);
  if (paths.length === 0) return undefined;
  return findByIds(db, { session_id: paths.map((path) => scopedSession(id, path)) }, subtree, signal);
}

/** @param ofItem the requests that stored the item with this id */
function matchesOf(id: string, ofItem: IdMatches): IdMatches {
  return {
    id: [id],
    request_id: [id, ...(ofItem.request_id ?? [])],
    response_id: [id, ...(ofItem.response_id ?? [])],
    session_id: [id],
    auth_key_id: [id],
  };
}

/** Most holders of an item that are searched. */
const MOST_HOLDERS = 20;

/** The requests that stored an item. */
async function requestsOfItem(id: string, items: ItemIndex): Promise<IdMatches> {
  const response = responseOfItem(id);
  if (response !== undefined) return { response_id: [response] };
  if (!isIndexable(id)) return {};
  const responses: string[] = [];
  const requests: string[] = [];
  for await (const { kind, id: holderId, requestId } of items.holdersOf(id)) {
    if (kind === 'response') responses.push(holderId);
    else if (requestId !== undefined) requests.push(requestId);
    if (responses.length + requests.length >= MOST_HOLDERS) break;
  }
  return { request_id: requests, response_id: responses };
}

const kindOfColumn: Readonly<Record<IdColumn, IdKind>> = {
  id: 'exchange',
  request_id: 'request',
  response_id: 'response',
  session_id: 'session',
  auth_key_id: 'key',
};

/** The kinds of the columns in which something was found. An item is found by its request or its response. */
function kindsOf(id: string, found: IdMatches): IdKind[] {
  const columns = Object.entries(found) as readonly (readonly [IdColumn, readonly string[]])[];
  const kinds = columns.map(([column, values]) => {
    const isOfItem = column !== 'session_id' && values.some((value) => value !== id);
    return isOfItem ? 'item' : kindOfColumn[column];
  });
  return [...new Set(kinds)];
}
