import { getAnswer } from '../../api/client.ts';
import { hrefOf, type QueryValue, route } from '../../app/router.ts';
import { DataTable } from '../../ui/data-table.tsx';
import { type AuditEntry, exchangeHref, shownColumns } from './columns.tsx';
import { ListState } from './list-state.tsx';
import { usePages } from './use-pages.ts';

const PAGE_ROWS = 100;

interface RequestListProps {
  /** Filter and time range as the gateway reads them. */
  readonly query: Readonly<Record<string, QueryValue>>;
  readonly keyNames: ReadonlyMap<string, string>;
  readonly isFiltered: boolean;
  /** Number of requests; undefined while it is not known. */
  readonly total: number | undefined;
}

/** Requests, newest first. Further pages are read when their rows come into view. */
export function RequestList({ query, keyNames, isFiltered, total }: RequestListProps) {
  const pages = usePages<AuditEntry, string>(async (cursor, signal) => {
    const page = { limit: PAGE_ROWS, total: false, cursor };
    const { entries, next_cursor: next } = await getAnswer('/admin/audit/log', {
      query: { ...query, ...page },
      signal,
    });
    return { rows: entries, next };
  }, JSON.stringify(query));
  const { rows, isComplete, more } = pages;
  return (
    <>
      {rows.length > 0 && (
        <DataTable
          label="Requests"
          columns={shownColumns(keyNames)}
          rows={rows}
          rowKey={({ id }) => id}
          rowHref={exchangeHref}
          total={isComplete ? rows.length : Math.max(total ?? 0, rows.length)}
          onEndNear={more}
        />
      )}
      <ListState pages={pages} isFiltered={isFiltered} searchHref={searchHref(route.value.query)} />
    </>
  );
}

/** Searches for the text of an id that nothing has. */
function searchHref(query: URLSearchParams): string | undefined {
  const id = query.get('id');
  return id === null ? undefined : hrefOf('/audit', { search: id, range: query.get('range') ?? undefined });
}
