import type { Bucket } from '../../charts/chart-columns.tsx';
import { Lines } from '../../charts/lines.tsx';
import { type BarKind, StackedBars } from '../../charts/stacked-bars.tsx';
import { beginsDay, bucketTick, bucketTitle } from '../../format/buckets.ts';
import { formatCount, formatDuration } from '../../format/numbers.ts';
import { Panel } from '../../ui/panel.tsx';
import { auditHref, bucketTimes, type Overview, type OverviewBucket } from './overview-links.ts';

const classes = [
  { name: '2xx', title: '2xx', color: 'var(--bar-ok)', pattern: 'plain', of: 'status_2xx' },
  { name: '4xx', title: '4xx', color: 'var(--bar-warn)', pattern: 'lines', of: 'status_4xx' },
  { name: '5xx', title: '5xx', color: 'var(--bar-bad)', pattern: 'cross', of: 'status_5xx' },
  { name: 'other', title: 'Other', color: 'var(--bar-other)', pattern: 'dots', of: 'status_other' },
] as const satisfies readonly (Omit<BarKind, 'values' | 'href'> & { readonly of: keyof OverviewBucket })[];

/** Requests by status, and durations: of all answers and of each provider. */
export function TimeCharts({ overview }: { readonly overview: Overview }) {
  const times = bucketTimes(overview);
  const buckets: Bucket[] = overview.buckets.map(({ start }, place) => {
    const time = times[place];
    return {
      key: start,
      title: bucketTitle(start, overview.interval),
      tick: bucketTick(start, overview.interval),
      isMajor: beginsDay(start, overview.interval),
      href: auditHref(time ?? overview),
    };
  });
  const kinds = classes.map(({ of, ...kind }) => ({
    ...kind,
    values: overview.buckets.map((bucket) => bucket[of]),
    href: (place: number) => times[place] && auditHref(times[place], { status_class: kind.name }),
  }));
  const values = (of: 'p50_ms' | 'p95_ms') => overview.buckets.map((bucket) => bucket[of]);
  return (
    <>
      <Panel title="Requests by status" class="overview-wide">
        <StackedBars label="Requests by status" buckets={buckets} kinds={kinds} format={formatCount} />
      </Panel>
      <Panel title="Duration of successful answers">
        <Lines
          label="Duration of successful answers"
          buckets={buckets}
          format={formatDuration}
          lines={[
            { name: 'p50', title: 'Median', values: values('p50_ms') },
            { name: 'p95', title: '95th percentile', values: values('p95_ms') },
          ]}
        />
      </Panel>
      <Panel title="Median duration by provider">
        <Lines
          label="Median duration by provider"
          buckets={buckets}
          format={formatDuration}
          lines={overview.provider_latency.map(({ provider, p50_ms }) => ({
            name: provider,
            title: provider,
            values: p50_ms,
          }))}
        />
      </Panel>
    </>
  );
}
