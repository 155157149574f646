/** OpenAI's lists: newest first unless asked otherwise, a page at a time, from behind an id on. */
import type { JsonObject } from './json.ts';
import { Refused } from './refused.ts';

export interface Limits {
  readonly usual: number;
  readonly most: number;
}

/** @param oldestFirst each with its `id` */
export function pageOf(
  oldestFirst: readonly JsonObject[],
  query: URLSearchParams,
  { usual, most }: Limits,
): JsonObject {
  const limit = Number(query.get('limit') ?? usual);
  if (!Number.isInteger(limit) || limit < 1 || limit > most)
    throw new Refused(400, `limit must be from 1 to ${most}`, { param: 'limit' });
  const ordered = query.get('order') === 'asc' ? oldestFirst : oldestFirst.toReversed();
  const after = query.get('after');
  const start = after === null ? 0 : ordered.findIndex((item) => item.id === after) + 1;
  if (after !== null && start === 0) throw new Refused(404, `No item with id '${after}'.`, { param: 'after' });
  const data = ordered.slice(start, start + limit);
  const has_more = start + limit < ordered.length;
  return { object: 'list', data, has_more, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
}
