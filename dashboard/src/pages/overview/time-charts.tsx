import type { Bucket } from '../../charts/chart-columns.tsx';
import { Lines } from '../../charts/lines.tsx';
import { type BarKind, StackedBars } from '../../charts/stacked-bars.tsx';
import { beginsDay, bucketTick, bucketTitle } from '../../format/buckets.ts';
import { formatCount, formatDuration } from '../../format/numbers.ts';
import { Panel } from '../../ui/panel.tsx';
import { auditHref, bucketTimes, type Overview, type OverviewBucket } from './overview-links.ts';

const titles = ['Requests by status', 'Duration of successful answers', 'Median duration by provider'] as const;
const [byStatus, ofAnswers, ofProviders] = titles;

const classes = [
  { name: '2xx', title: '2xx', color: 'var(--bar-ok)', pattern: 'plain', of: 'status_2xx' },
  { name: '4xx', title: '4xx', color: 'var(--bar-warn)', pattern: 'lines', of: 'status_4xx' },
  { name: '5xx', title: '5xx', color: 'var(--bar-bad)', pattern: 'cross', of: 'status_5xx' },
  { name: 'other', title: 'Other', color: 'var(--bar-other)', pattern: 'dots', of: 'status_other' },
] as const satisfies readonly (Omit<BarKind, 'values' | 'href'> & { readonly of: keyof OverviewBucket })[];

/** Requests by status, and durations: of all answers and of each provider. Without figures, the room for them. */
export function TimeCharts({ overview }: { readonly overview: Overview | undefined }) {
  if (overview === undefined) {
    return titles.map((title, place) => (
      <Panel key={title} title={title} class={place === 0 ? 'overview-chart overview-wide' : 'overview-chart'}>
        {null}
      </Panel>
    ));
  }
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
      <Panel title={byStatus} class="overview-chart overview-wide">
        <StackedBars label={byStatus} buckets={buckets} kinds={kinds} format={formatCount} />
      </Panel>
      <Panel title={ofAnswers} class="overview-chart">
        <Lines
          label={ofAnswers}
          buckets={buckets}
          format={formatDuration}
          lines={[
            { name: 'p50', title: 'Median', values: values('p50_ms') },
            { name: 'p95', title: '95th percentile', values: values('p95_ms') },
          ]}
        />
      </Panel>
      <Panel title={ofProviders} class="overview-chart">
        <Lines
          label={ofProviders}
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
