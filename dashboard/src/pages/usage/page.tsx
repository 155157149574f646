import './usage.css';
import { access } from '../../api/access.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { hrefOf, setQuery } from '../../app/router.ts';
import { formatDay } from '../../format/times.ts';
import { timeZone } from '../../settings/time-zone.ts';
import { Button } from '../../ui/button.tsx';
import { FirstRequest } from '../../ui/first-request.tsx';
import { PageHeader } from '../../ui/page-header.tsx';
import { Panel } from '../../ui/panel.tsx';
import { currentRange, type TimeRange } from '../../ui/range.ts';
import { dayRange, RangePicker } from '../../ui/range-picker.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { CsvButton } from './csv-button.tsx';
import { type Instants, previousRange } from './previous-range.ts';
import {
  auditFilter,
  filterNames,
  type Grouping,
  groupings,
  type UsageAddress,
  usageAddress,
  usageHref,
} from './usage-address.ts';
import { UsageChart } from './usage-chart.tsx';
import { ranked, sumOf } from './usage-rows.ts';
import { UsageSums } from './usage-sums.tsx';
import { UsageTable } from './usage-table.tsx';
import { daysOf, reportOf, SESSIONS, type UsageRow, useGrouped, weeksOf } from './use-usage.ts';

export default function UsagePage() {
  const isOff = access.value?.features['USAGE_ENABLED'] === 'off';
  return isOff ? <UsageOff /> : <UsageReports />;
}

function UsageOff() {
  return (
    <>
      <PageHeader title="Usage" />
      <EmptyState title="Usage is not tracked.">
        <p>
          Start the gateway with <code>USAGE_ENABLED=true</code>, or set <code>usage.enabled: true</code> in its
          configuration file.
        </p>
      </EmptyState>
    </>
  );
}

function UsageReports() {
  const range = currentRange('30d');
  const address = usageAddress();
  const { by, measure, filter } = address;
  const earlier = previousRange(range, Date.now(), timeZone.value);
  const dailyQuery = ({ from, to }: Instants) => ({ from, to, ...filter, cache_mode: 'all' });
  const daily = useAnswer('/admin/usage/daily', dailyQuery(range));
  const dailyBefore = useAnswer('/admin/usage/daily', dailyQuery(earlier));
  const days = daily.data && daysOf(daily.data, range, Date.now());
  const daysBefore = dailyBefore.data && daysOf(dailyBefore.data, earlier, Date.parse(earlier.to));
  const groups = useGrouped(address, range);
  // Sessions are not compared: few of them have requests in both times.
  const groupsBefore = useGrouped(address, earlier, by !== 'session');

  const ofTime = (rows: readonly UsageRow[] | undefined) => rows && (by === 'week' ? weeksOf(rows) : rows);
  const isByTime = by === 'day' || by === 'week';
  const rows = isByTime ? ofTime(days) : groups.rows && (by === 'session' ? groups.rows : ranked(groups.rows, measure));
  const times = ofTime(days)?.map((row) => ({ ...row, ...timesOf(row, by, range) }));
  const timesBefore = ofTime(daysBefore) ?? [];
  const before = isByTime
    ? new Map((rows ?? []).flatMap(({ key }, place) => (timesBefore[place] ? [[key, timesBefore[place].usage]] : [])))
    : groupsBefore.rows && new Map(groupsBefore.rows.map(({ key, usage }) => [key, usage]));
  const loaded = isByTime ? daily : groups.loaded;
  const isNothing = days?.every(({ usage }) => usage.requests === 0 && usage.cacheHits === 0);
  const title = groupings.find(({ name }) => name === by)?.title ?? '';
  const toAudit = (row: UsageRow) => {
    if (row.day !== undefined) return hrefOf('/audit', { ...timesOf(row, by, range), ...auditFilter(filter) });
    if (row.filter === undefined) return undefined;
    return hrefOf('/audit', { from: range.from, to: range.to, ...auditFilter({ ...filter, ...row.filter }) });
  };
  return (
    <>
      <PageHeader title="Usage">
        <MeasureChoice measure={measure} />
        <RangePicker range={range} />
        <CsvButton
          path={reportOf(by).path}
          query={{ from: range.from, to: range.to, ...filter, cache_mode: 'all', ...reportOf(by).query }}
          fileName={`usage-by-${by}.csv`}
        />
      </PageHeader>
      <FilterChips address={address} range={range} />
      {daily.error !== undefined && <ErrorPanel error={daily.error} onRetry={daily.reload} />}
      <div class="usage-head">
        {days === undefined && daily.error === undefined && <Pending since={daily.since} onCancel={daily.cancel} />}
        {days !== undefined && (
          <UsageSums
            sums={sumOf(days.map(({ usage }) => usage))}
            before={daysBefore && sumOf(daysBefore.map(({ usage }) => usage))}
          />
        )}
      </div>
      <Panel
        title={`${measure === 'cost' ? 'Cost' : 'Tokens'} by ${by === 'week' ? 'week' : 'day'}`}
        class="usage-over-time"
      >
        {times !== undefined && (
          <UsageChart
            label={`${measure === 'cost' ? 'Cost' : 'Tokens'} by ${by === 'week' ? 'week' : 'day'}`}
            rows={times}
            before={timesBefore}
            measure={measure}
            interval={by === 'week' ? 'P7D' : 'P1D'}
            filter={filter}
          />
        )}
      </Panel>
      <Tabs
        label="Usage by"
        tabs={groupings}
        shown={by}
        onShow={(name) => setQuery({ by: name, offset: undefined }, { push: true })}
      >
        {loaded.error !== undefined && !isByTime && <ErrorPanel error={loaded.error} onRetry={loaded.reload} />}
        {rows === undefined && loaded.error === undefined && <Pending since={loaded.since} onCancel={loaded.cancel} />}
        {rows !== undefined && rows.length > 0 && !isNothing && (
          <UsageTable
            name={title}
            rows={isByTime ? rows.map(titled).toReversed() : rows}
            before={before}
            measure={measure}
            auditHref={toAudit}
            daysHref={(row) =>
              row.filter && usageHref(range, { by: 'day', measure, filter: { ...filter, ...row.filter } })
            }
            total={groups.total}
          />
        )}
        {rows !== undefined && (rows.length === 0 || isNothing) && (
          <EmptyState title="No usage in this time range.">
            {Object.keys(filter).length === 0 && <FirstRequest />}
          </EmptyState>
        )}
        {by === 'session' && groups.total !== undefined && <SessionPages address={address} total={groups.total} />}
      </Tabs>
    </>
  );
}

/** A day in words; a week by its Monday. */
function titled(row: UsageRow): UsageRow {
  const times = row.day === undefined ? undefined : dayRange(row.key, timeZone.value);
  return times === undefined ? row : { ...row, title: formatDay(times.from) };
}

/** Of a day or a week, cut to the range. */
function timesOf({ key }: UsageRow, by: Grouping, range: Instants): Instants {
  const first = dayRange(key, timeZone.value);
  const sunday = new Date(Date.parse(`${key}T00:00:00Z`) + 6 * 86_400_000).toISOString().slice(0, 10);
  const last = by === 'week' ? dayRange(sunday, timeZone.value) : first;
  const from = Math.max(Date.parse(first?.from ?? range.from), Date.parse(range.from));
  const to = Math.min(Date.parse(last?.to ?? range.to), Date.parse(range.to));
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}

function MeasureChoice({ measure }: Pick<UsageAddress, 'measure'>) {
  return (
    <fieldset class="usage-measures">
      <legend class="visually-hidden">Measure</legend>
      {(['cost', 'tokens'] as const).map((name) => (
        <Button key={name} pressed={measure === name} onClick={() => setQuery({ measure: name })}>
          {name === 'cost' ? 'Cost' : 'Tokens'}
        </Button>
      ))}
    </fieldset>
  );
}

const filterTitles = {
  user_path: 'User path',
  auth_key_id: 'Key',
  provider: 'Provider',
  model: 'Model',
  label: 'Label',
  session_id: 'Session',
} as const;

/** What restricts the page; each can be removed. */
function FilterChips({ address, range }: { readonly address: UsageAddress; readonly range: TimeRange }) {
  const { filter } = address;
  const given = filterNames.filter((name) => filter[name] !== undefined);
  if (given.length === 0) return null;
  return (
    <ul class="usage-filters" aria-label="Filters">
      {given.map((name) => {
        const { [name]: removed, ...others } = filter;
        return (
          <li key={name}>
            {filterTitles[name]} <code>{removed}</code>{' '}
            <a
              href={usageHref(range, { ...address, filter: others })}
              aria-label={`Remove the filter ${filterTitles[name]}`}
            >
              remove
            </a>
          </li>
        );
      })}
    </ul>
  );
}

function SessionPages({ address: { offset }, total }: { readonly address: UsageAddress; readonly total: number }) {
  const end = Math.min(total, offset + SESSIONS);
  if (total <= SESSIONS) return null;
  return (
    <p class="usage-pages">
      Sessions {offset + 1} to {end} of {total}, the last used first.
      <Button disabled={offset === 0} onClick={() => setQuery({ offset: Math.max(0, offset - SESSIONS) || undefined })}>
        Newer
      </Button>
      <Button disabled={end >= total} onClick={() => setQuery({ offset: offset + SESSIONS })}>
        Older
      </Button>
    </p>
  );
}
