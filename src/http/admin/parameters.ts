/** Query parameters that several admin routes have. */
import { z } from 'zod';
import { type QueryParameter, queryOfParameters, textParameter } from '../api/parameters.ts';
import { type OffsetPage, offsetPageIn, optionalLimitIn, type PageSizes } from '../paging.ts';

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
  limit: {
    description: 'Rows of a page; the next page is in the `Link` header. Default: all rows',
    schema: { type: 'integer', minimum: 1, maximum: MOST_ROWS },
    read: (query) => optionalLimitIn(query, MOST_ROWS),
  } satisfies QueryParameter<number | undefined>,
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
