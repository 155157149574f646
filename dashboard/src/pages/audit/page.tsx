import './audit.css';
import { useEffect, useState } from 'preact/hooks';
import { access } from '../../api/access.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { route, setQuery } from '../../app/router.ts';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { PageHeader } from '../../ui/page-header.tsx';
import { currentRange } from '../../ui/range.ts';
import { RangePicker } from '../../ui/range-picker.tsx';
import { SessionList } from '../sessions/session-list.tsx';
import { ColumnDialog } from './column-dialog.tsx';
import { ExportDialog } from './export-dialog.tsx';
import { FacetSidebar, useFacets } from './facet-sidebar.tsx';
import { activeFilters, filterIn, isSurelyId } from './filter.ts';
import { FilterBar } from './filter-bar.tsx';
import { IdHint } from './id-hint.tsx';
import { MoreFilters } from './more-filters.tsx';
import { RequestList } from './request-list.tsx';
import { changeFilter, requestQuery } from './request-query.ts';
import { SqlDialog } from './sql-dialog.tsx';
import { requestsIn, TimeBrush } from './time-brush.tsx';
import { ViewsDialog } from './views-dialog.tsx';

type Opened = 'columns' | 'export' | 'more' | 'sql' | 'views';

export default function AuditPage() {
  const [opened, setOpened] = useState<Opened | undefined>(undefined);
  const [isSideOpen, setSideOpen] = useState(false);
  const close = () => setOpened(undefined);
  const filter = filterIn(route.value.query);
  const [searched] = filter.search ?? [];
  // Links and the palette search for a text; one that can only be an id is searched as such.
  useEffect(() => {
    if (searched !== undefined && isSurelyId(searched)) setQuery({ search: undefined, id: searched });
  }, [searched]);
  const range = currentRange();
  const query = requestQuery(filter, route.value.query);
  const histogram = useAnswer('/admin/audit/histogram', query);
  const facets = useFacets(query);
  const bySession = route.value.query.get('group') === 'session';
  const total = histogram.data === undefined || histogram.isLoading ? undefined : requestsIn(histogram.data.buckets);
  const active = activeFilters(filter).length;
  const list = { query, isFiltered: active > 0 };
  return (
    <>
      <PageHeader title="Audit">
        <RangePicker range={range} />
        <Button onClick={() => setOpened('views')}>Views</Button>
        <Button onClick={() => setOpened('export')}>Export</Button>
        <Button onClick={() => setOpened('sql')}>SQL</Button>
      </PageHeader>
      <FilterBar filter={filter} keyNames={facets.keyNames} onChange={changeFilter}>
        <Button onClick={() => setOpened('more')}>More filters</Button>
      </FilterBar>
      <IdHint filter={filter} />
      <TimeBrush answer={histogram} />
      <div class="audit">
        <div class="audit-side-switch">
          <Button expanded={isSideOpen} onClick={() => setSideOpen(!isSideOpen)}>
            {active === 0 ? 'Filters' : `Filters (${formatCount(active)})`}
          </Button>
        </div>
        <aside class="audit-side" data-open={isSideOpen} aria-label="Filters with counts">
          <FacetSidebar facets={facets} filter={filter} onChange={changeFilter} />
        </aside>
        <div class="audit-main">
          <div class="audit-table-actions">
            <Button
              pressed={bySession}
              onClick={() => setQuery({ group: bySession ? undefined : 'session' }, { push: true })}
            >
              Group by session
            </Button>
            {!bySession && <Button onClick={() => setOpened('columns')}>Columns</Button>}
            <Retention />
          </div>
          {bySession ? <SessionList {...list} /> : <RequestList {...list} keyNames={facets.keyNames} total={total} />}
        </div>
      </div>
      {opened === 'columns' && <ColumnDialog onClose={close} />}
      {opened === 'export' && <ExportDialog query={query} onClose={close} />}
      {opened === 'more' && <MoreFilters filter={filter} onApply={changeFilter} onClose={close} />}
      {opened === 'sql' && <SqlDialog query={query} onClose={close} />}
      {opened === 'views' && <ViewsDialog onClose={close} />}
    </>
  );
}

function Retention() {
  const { LOGGING_ENABLED: isKept, LOGGING_RETENTION_DAYS: days } = access.value?.features ?? {};
  if (isKept === 'off')
    return <p class="audit-retention">Requests are not kept for this page: LOGGING_ENABLED=false.</p>;
  if (days === undefined || days === '0') return null;
  return <p class="audit-retention">Requests are listed for {days} days.</p>;
}
