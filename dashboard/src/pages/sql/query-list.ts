/** The queries that were run in this browser. Pure. */

export interface RanQuery {
  readonly query: string;
  /** ISO 8601. */
  readonly at: string;
  /** Undefined for a query that failed. */
  readonly rows?: number;
}

const MOST_QUERIES = 50;

/** @returns undefined for anything but a list; entries of another form are left out */
export function queriesIn(stored: unknown): readonly RanQuery[] | undefined {
  if (!Array.isArray(stored)) return undefined;
  return stored.flatMap((one: unknown) => {
    const { query, at, rows }: { query?: unknown; at?: unknown; rows?: unknown } = Object(one);
    if (typeof query !== 'string' || typeof at !== 'string' || Number.isNaN(Date.parse(at))) return [];
    return [{ query, at, ...(typeof rows === 'number' ? { rows } : {}) }];
  });
}

/** The newest is the first; the same query is there once. */
export function withQuery(queries: readonly RanQuery[], ran: RanQuery): readonly RanQuery[] {
  return [ran, ...queries.filter(({ query }) => query !== ran.query)].slice(0, MOST_QUERIES);
}
