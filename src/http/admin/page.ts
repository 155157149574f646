/**
 * Pages of lists with an unchanged shape: with `limit`, a list has at most that many rows, and a `Link` header to the
 * next page (RFC 8288, `rel="next"`); `after` is the id of the row before the page. Without them a list is complete.
 */
import type { FastifyReply } from 'fastify';
import { refusals } from '../../commands/refusal.ts';

/** The values of `listPageParameters`. */
export interface ListPage {
  readonly limit?: number | undefined;
  readonly after?: string | undefined;
}

/**
 * The rows of the requested page, in the given order.
 * @throws Refusal 400 for an `after` that is not in the list
 */
export function pageOf<Row>(
  rows: readonly Row[],
  idOf: (row: Row) => string,
  { limit, after }: ListPage,
  reply: FastifyReply,
): readonly Row[] {
  const start = after === undefined ? 0 : placeOf(rows, idOf, after) + 1;
  const page = rows.slice(start, limit === undefined ? undefined : start + limit);
  const last = page.at(-1);
  if (last !== undefined && start + page.length < rows.length) {
    const next = nextLink(reply.request.url, idOf(last));
    const others = reply.getHeader('link');
    reply.header('link', others === undefined ? next : `${String(others)}, ${next}`);
  }
  return page;
}

function placeOf<Row>(rows: readonly Row[], idOf: (row: Row) => string, after: string): number {
  const place = rows.findIndex((row) => idOf(row) === after);
  if (place !== -1) return place;
  throw refusals.invalidRequest("'after' is not an id of the list.", 'after');
}

/** The same request for the page after that row; relative, since the gateway may run behind a proxy. */
function nextLink(url: string, after: string): string {
  const [path = '', query] = url.split('?');
  const parameters = new URLSearchParams(query);
  parameters.set('after', after);
  return `<${path}?${parameters}>; rel="next"`;
}
