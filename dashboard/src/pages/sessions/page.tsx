import './sessions.css';
import '../audit/audit.css';
import { useState } from 'preact/hooks';
import type { PageProps } from '../../app/page-entry.ts';
import { route, setQuery } from '../../app/router.ts';
import { Button } from '../../ui/button.tsx';
import { CheckField } from '../../ui/fields.tsx';
import { PageHeader } from '../../ui/page-header.tsx';
import { currentRange } from '../../ui/range.ts';
import { RangePicker } from '../../ui/range-picker.tsx';
import { activeFilters, filterIn } from '../audit/filter.ts';
import { FilterBar } from '../audit/filter-bar.tsx';
import { IdHint } from '../audit/id-hint.tsx';
import { MoreFilters } from '../audit/more-filters.tsx';
import { changeFilter, requestQuery } from '../audit/request-query.ts';
import { ChainView } from './chain-view.tsx';
import { SessionList } from './session-list.tsx';

/** All sessions; with the id of an exchange in the path or as `exchange`, the requests that belong together with it. */
export default function SessionsPage({ id }: PageProps) {
  const exchange = id === '' ? route.value.query.get('exchange') : id;
  return exchange === null ? <Sessions /> : <ChainView key={exchange} id={exchange} />;
}

function Sessions() {
  const { query } = route.value;
  const [isMoreOpen, setMoreOpen] = useState(false);
  const filter = filterIn(query);
  const withSingle = query.get('single') === 'true';
  const sent = { ...requestQuery(filter, query), has_session: withSingle ? undefined : true };
  return (
    <>
      <PageHeader title="Sessions">
        <RangePicker range={currentRange()} />
      </PageHeader>
      <FilterBar filter={filter} keyNames={new Map()} onChange={changeFilter}>
        <Button onClick={() => setMoreOpen(true)}>More filters</Button>
      </FilterBar>
      <IdHint filter={filter} />
      <CheckField
        label="Also requests without a session"
        checked={withSingle}
        onChange={(isSet) => setQuery({ single: isSet || undefined }, { push: true })}
      />
      {isMoreOpen && <MoreFilters filter={filter} onApply={changeFilter} onClose={() => setMoreOpen(false)} />}
      <SessionList query={sent} isFiltered={activeFilters(filter).length > 0} />
    </>
  );
}
