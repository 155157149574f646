import './overview.css';
import { useState } from 'preact/hooks';
import { access, isGlobal } from '../../api/access.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { Button } from '../../ui/button.tsx';
import { FirstRequest } from '../../ui/first-request.tsx';
import { PageHeader } from '../../ui/page-header.tsx';
import { currentRange } from '../../ui/range.ts';
import { RangePicker } from '../../ui/range-picker.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { Activity } from './activity.tsx';
import { AnalyticsState } from './analytics-state.tsx';
import { KeyFigures } from './key-figures.tsx';
import type { Overview } from './overview-links.ts';
import { ProviderStrip } from './provider-strip.tsx';
import { Rankings } from './rankings.tsx';
import { TimeCharts } from './time-charts.tsx';

const REFRESH_MS = 15_000;
/** Until the first request. */
const FIRST_REFRESH_MS = 1500;
/** The days of 53 weeks. */
const CALENDAR_DAYS = 371;

export default function OverviewPage() {
  const range = currentRange('7d');
  const [isPaused, setPaused] = useState(false);
  const [isEmpty, setEmpty] = useState(false);
  const reachesNow = Date.parse(range.to) > Date.now();
  const refreshMs = isPaused || !reachesNow ? undefined : isEmpty ? FIRST_REFRESH_MS : REFRESH_MS;
  const overview = useAnswer('/admin/overview', { from: range.from, to: range.to }, { refreshMs });
  const days = useAnswer('/admin/usage/daily', { days: CALENDAR_DAYS, cache_mode: 'all' });
  const { data } = overview;
  const nothing = data !== undefined && days.data !== undefined && hasNothing(data) && days.data.length === 0;
  if (nothing !== isEmpty) setEmpty(nothing);
  return (
    <>
      <PageHeader title="Overview">
        <div class="overview-analytics">{data !== undefined && <AnalyticsState analytics={data.analytics} />}</div>
        <Button look="quiet" pressed={isPaused} onClick={() => setPaused(!isPaused)} disabled={!reachesNow}>
          Pause updates
        </Button>
        <RangePicker range={range} />
      </PageHeader>
      {overview.error !== undefined && <ErrorPanel error={overview.error} onRetry={overview.reload} />}
      {nothing ? (
        <Nothing overview={data} />
      ) : (
        <div class="overview">
          <div class="overview-wide overview-figures">
            {data === undefined && overview.error === undefined && (
              <Pending since={overview.since} onCancel={overview.cancel} />
            )}
            {data !== undefined && <KeyFigures overview={data} />}
          </div>
          {isGlobal.value && <ProviderStrip range={range} refreshMs={refreshMs} />}
          <TimeCharts overview={data} />
          <Activity days={days} />
          {data !== undefined && <Rankings overview={data} />}
        </div>
      )}
    </>
  );
}

function hasNothing({ summary, previous_summary: before }: Overview): boolean {
  return summary.requests === 0 && before.requests === 0;
}

function Nothing({ overview }: { readonly overview: Overview }) {
  const isOff = (name: string) => access.value?.features[name] === 'off';
  if (overview.analytics.state === 'off') {
    return (
      <EmptyState title="Analytics is off.">
        <p>
          Requests are recorded, and not counted. Start the gateway with <code>ANALYTICS_ENABLED=true</code>, or name a
          ClickHouse server with <code>CLICKHOUSE_URL</code>.
        </p>
      </EmptyState>
    );
  }
  if (isOff('LOGGING_ENABLED')) {
    return (
      <EmptyState title="Requests are not recorded.">
        <p>
          Start the gateway with <code>LOGGING_ENABLED=true</code> to see them here.
        </p>
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No requests yet.">
      <FirstRequest />
    </EmptyState>
  );
}
