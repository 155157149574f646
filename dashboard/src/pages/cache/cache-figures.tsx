import './cache.css';
import type { ComponentChildren } from 'preact';
import { access } from '../../api/access.ts';
import type { Answer } from '../../api/client.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { hrefOf } from '../../app/router.ts';
import { StackedBars } from '../../charts/stacked-bars.tsx';
import { bucketTick, bucketTitle } from '../../format/buckets.ts';
import { formatCompact, formatCount, formatMoney, formatShare } from '../../format/numbers.ts';
import { dayText } from '../../format/zone-days.ts';
import { timeZone } from '../../settings/time-zone.ts';
import { Panel } from '../../ui/panel.tsx';
import type { TimeRange } from '../../ui/range.ts';
import { dayRange } from '../../ui/range-picker.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { daysBetween } from '../usage/usage-rows.ts';

type Overview = Answer<'/admin/cache/overview'>;

interface CacheFiguresProps {
  readonly range: TimeRange;
  /** Below the figures, from when their height is known. */
  readonly children: ComponentChildren;
}

/** Hits and savings of the range, and the hits of each day. */
export function CacheFigures({ range, children }: CacheFiguresProps) {
  const { from, to } = range;
  const { data, error, since, reload, cancel } = useAnswer('/admin/cache/overview', { from, to });
  const all = useAnswer('/admin/usage/summary', { from, to, cache_mode: 'all' });
  if (data === undefined) {
    return error === undefined ? (
      <Pending since={since} onCancel={cancel} />
    ) : (
      <>
        <ErrorPanel error={error} onRetry={reload} />
        {children}
      </>
    );
  }
  const isEmpty = data.summary.total_hits === 0;
  return (
    <>
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      <Sums summary={data.summary} requests={all.data?.total_requests} />
      <Panel title="Hits by day" class="cache-panel">
        {isEmpty ? (
          <EmptyState title="No request was answered from the cache in this time range.">
            <p>
              An equal request of the same user path gets the recorded answer; its header <code>X-Cache</code> is then{' '}
              <code>HIT</code>.
            </p>
          </EmptyState>
        ) : (
          <HitsByDay daily={data.daily} range={range} />
        )}
      </Panel>
      {children}
    </>
  );
}

function Sums({ summary, requests }: { readonly summary: Overview['summary']; readonly requests: number | undefined }) {
  const { total_hits: hits, exact_hits: exact, semantic_hits: semantic, total_saved_cost: saved } = summary;
  const isSemantic = access.value?.features['SEMANTIC_CACHE_ENABLED'] === 'on';
  return (
    <dl class="cache-sums">
      <div>
        <dt>Hits</dt>
        <dd>
          {formatCount(hits)}
          <small>{requests ? `${formatShare(hits / requests)} of ${formatCount(requests)} requests` : ''}</small>
        </dd>
      </div>
      <div>
        <dt>Cost saved</dt>
        <dd>
          {saved === null ? 'unknown' : formatMoney(saved)}
          <small>what the first answers cost</small>
        </dd>
      </div>
      <div>
        <dt>Tokens from the cache</dt>
        <dd>
          <span title={formatCount(summary.total_tokens)}>{formatCompact(summary.total_tokens)}</span>
          <small>
            {formatCompact(summary.total_input_tokens)} in, {formatCompact(summary.total_output_tokens)} out
          </small>
        </dd>
      </div>
      <div>
        <dt>Equal and similar requests</dt>
        <dd>
          {formatCount(exact)} exact, {formatCount(semantic)} semantic
          <small>
            {isSemantic ? (
              'Similar requests are answered from the cache, too.'
            ) : (
              <>
                Only equal requests are answered; <code>SEMANTIC_CACHE_ENABLED</code> is off.
              </>
            )}
          </small>
        </dd>
      </div>
    </dl>
  );
}

function HitsByDay({ daily, range }: { readonly daily: Overview['daily']; readonly range: TimeRange }) {
  const zone = timeZone.value;
  const last = Math.min(Date.parse(range.to) - 1, Date.now());
  const known = new Map(daily.map((row) => [row.date, row]));
  const days = daysBetween(dayText(Date.parse(range.from), zone), dayText(last, zone));
  const buckets = days.map((day) => {
    const { from, to } = dayRange(day, zone) ?? range;
    return {
      key: day,
      title: bucketTitle(from, 'P1D'),
      tick: bucketTick(from, 'P1D'),
      href: hrefOf('/audit', { from, to, cache_type: ['exact', 'semantic'] }),
    };
  });
  const values = (of: 'exact_hits' | 'semantic_hits') => days.map((day) => known.get(day)?.[of] ?? 0);
  return (
    <StackedBars
      label="Hits by day"
      buckets={buckets}
      kinds={[
        {
          ...{ name: 'exact', title: 'Equal requests', color: 'var(--series-1)', pattern: 'plain' },
          values: values('exact_hits'),
        },
        {
          ...{ name: 'semantic', title: 'Similar requests', color: 'var(--series-3)', pattern: 'lines' },
          values: values('semantic_hits'),
        },
      ]}
      format={formatCount}
    />
  );
}
