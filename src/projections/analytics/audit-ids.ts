/** Finds requests by an exact id, at any time: the time of most ids is not known, but every id column has an index. */
import type { UserPath } from '../../events/event.ts';
import type { AnalyticsDb } from './analytics-db.ts';
import { type IdColumn, type IdMatches, idColumns } from './audit-filter.ts';
import { allOf, inSubtree, oneOfTexts } from './conditions.ts';

/** The requests that an id finds, and the range of time in which they are. */
export interface FoundById {
  readonly ids: IdMatches;
  /** Milliseconds since the epoch; `until` is exclusive. */
  readonly from: number;
  readonly until: number;
}

interface Found {
  readonly column: IdColumn;
  readonly value: string;
  /** Milliseconds since the epoch, of the first and the last request. */
  readonly first: string;
  readonly last: string;
}

/**
 * Those of the ids that a request in the subtree has: ids of other requests are not in the result.
 * Undefined without any. @param wanted ids by column
 */
export async function findByIds(
  db: AnalyticsDb,
  wanted: IdMatches,
  subtree: UserPath | undefined,
  signal?: AbortSignal,
): Promise<FoundById | undefined> {
  const scope = inSubtree('user_path', subtree);
  const parts = idColumns.flatMap((column) => {
    const condition = oneOfTexts(column, `ids_${column}`, wanted[column]);
    if (condition === undefined) return [];
    const { sql, parameters } = allOf([condition, scope]);
    const select = `SELECT '${column}' AS column, toString(${column}) AS value, toUnixTimestamp64Milli(min(at)) AS first,
      toUnixTimestamp64Milli(max(at)) AS last FROM $db.exchanges WHERE ${sql} GROUP BY value`;
    return [{ select, parameters }];
  });
  const found = await db.rows<Found>(
    parts.map(({ select }) => select).join(' UNION ALL '),
    Object.assign({}, ...parts.map(({ parameters }) => parameters)),
    signal,
  );
  if (found.length === 0) return undefined;
  const ids: Partial<Record<IdColumn, string[]>> = {};
  for (const { column, value } of found) ids[column] = [...(ids[column] ?? []), value];
  return {
    ids,
    from: Math.min(...found.map(({ first }) => Number(first))),
    until: Math.max(...found.map(({ last }) => Number(last))) + 1,
  };
}

/** The user paths of requests, without `/`. @param most at the most */
export async function pathsOfRequests(
  db: AnalyticsDb,
  subtree: UserPath | undefined,
  most: number,
  signal?: AbortSignal,
): Promise<UserPath[]> {
  const { sql, parameters } = allOf([["user_path != '/'", {}], inSubtree('user_path', subtree)]);
  const rows = await db.rows<{ user_path: UserPath }>(
    `SELECT DISTINCT user_path FROM $db.exchanges WHERE ${sql} LIMIT {most: UInt64}`,
    { ...parameters, most },
    signal,
  );
  return rows.map(({ user_path }) => user_path);
}
