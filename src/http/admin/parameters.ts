/** Query parameters that several admin routes have, pages of lists, and the confirmation of a reset. */

import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import { numberParameter, type QueryParameter, queryOfParameters, textParameter } from '../api/parameters.ts';
import { globalAdmin, jsonAnswer } from '../api/route-schema.ts';
import { type OffsetPage, offsetPageIn, type PageSizes } from '../paging.ts';

/** For lists that can be read as of a past moment (`AsOf`). */
export const asOfParameter = textParameter(
  'The state as of this moment: a time with its zone, a date, or a position of the log',
);

export const asOfQuery = queryOfParameters({ as_of: asOfParameter });

/** The declarations of GET routes of one object that send its revision and can be read as of a past moment. */
export const oneAsOf = { etag: true, querystring: asOfQuery, errors: [404] } as const;

/** Most rows of a page of a list that is complete without a limit. */
const MOST_ROWS = 1000;

/** For lists that are complete without a limit (`pageOf`). */
export const listPageParameters = {
  limit: numberParameter(
    { least: 1, most: MOST_ROWS },
    'Rows of a page; the next page is in the `Link` header. Default: all rows',
  ),
  after: textParameter('Id of the row before the page'),
};

/** Members of the answer of a list with `limit` and `offset`. */
export const offsetPageAnswer = { total: z.int(), limit: z.int(), offset: z.int() };

/** For lists with `limit` and `offset`. */
export function offsetPageParameters(sizes: PageSizes) {
  const read = (name: keyof OffsetPage) => (query: Parameters<typeof offsetPageIn>[0]) =>
    offsetPageIn(query, sizes)[name];
  const { usual, most, capped } = sizes;
  return {
    limit: {
      description: capped === true ? `Rows of the page; more than ${most} counts as ${most}` : 'Rows of the page',
      schema: { type: 'integer', minimum: 1, ...(capped === true ? {} : { maximum: most }), default: usual },
      read: read('limit'),
    } satisfies QueryParameter<number>,
    offset: {
      description: 'Rows before the page',
      schema: { type: 'integer', minimum: 0, default: 0 },
      read: read('offset'),
    } satisfies QueryParameter<number>,
  };
}

// Pages of lists with an unchanged shape: with `limit`, a list has at most that many rows, and a `Link` header to the
// next page (RFC 8288, `rel="next"`); `after` is the id of the row before the page. Without them a list is complete.

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

/** A reset of all budgets or limits needs an explicit confirmation in the body. */
const resetRequest = z.strictObject({
  confirmation: z.string().optional().describe('Required: the word `reset`'),
  confirm: z.string().optional().describe('Older name of `confirmation`'),
});

/** The declaration of a route that resets everything. */
export const resetRoute = (operationId: string, summary: string) =>
  globalAdmin(operationId, summary, {
    body: resetRequest,
    example: { confirmation: 'reset' },
    response: { 200: jsonAnswer('All are reset', z.object({ status: z.literal('ok') })) },
  });

/** @throws Refusal 400 */
export function confirmed({ confirmation, confirm }: z.infer<typeof resetRequest>): void {
  if ((confirmation ?? confirm)?.trim().toLowerCase() === 'reset') return;
  throw refusals.invalidRequest("'confirmation' must be the word reset.", 'confirmation');
}
