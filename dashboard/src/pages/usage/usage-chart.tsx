import { hrefOf } from '../../app/router.ts';
import { roundSteps, wholeSteps } from '../../charts/scale.ts';
import type { BarKind } from '../../charts/stacked-bars.tsx';
import { StackedBars } from '../../charts/stacked-bars.tsx';
import { bucketTick, bucketTitle } from '../../format/buckets.ts';
import { formatCount, formatMoney } from '../../format/numbers.ts';
import { auditFilter, type UsageFilter } from './usage-address.ts';
import type { Measure } from './usage-rows.ts';
import type { UsageRow } from './use-usage.ts';

interface UsageChartProps {
  readonly label: string;
  readonly rows: readonly (UsageRow & { readonly from: string; readonly to: string })[];
  /** In the order of the rows. */
  readonly before: readonly UsageRow[];
  readonly measure: Measure;
  readonly interval: 'P1D' | 'P7D';
  readonly filter: UsageFilter;
}

/** Tokens or cost by day or week, beside those of the time before. */
export function UsageChart({ label, rows, before, measure, interval, filter }: UsageChartProps) {
  const buckets = rows.map(({ key, from, to }) => ({
    key,
    title: bucketTitle(from, interval),
    tick: bucketTick(from, interval),
    href: hrefOf('/audit', { from, to, ...auditFilter(filter) }),
  }));
  return (
    <StackedBars
      key={measure}
      label={label}
      buckets={buckets}
      kinds={measure === 'tokens' ? tokenKinds(rows) : costKinds(rows)}
      format={measure === 'tokens' ? formatCount : formatMoney}
      {...(measure === 'tokens' ? {} : { formatStep: formatMoney })}
      steps={measure === 'tokens' ? wholeSteps : roundSteps}
      compare={{ title: 'Time before', values: rows.map((_, place) => before[place]?.usage[measure] ?? null) }}
    />
  );
}

function tokenKinds(rows: readonly UsageRow[]): BarKind[] {
  return [
    {
      ...{ name: 'input', title: 'Input', color: 'var(--series-1)', pattern: 'plain' },
      values: rows.map(({ usage }) => usage.input - usage.promptCached),
    },
    {
      ...{ name: 'cached', title: 'Input read from prompt caches', color: 'var(--series-8)', pattern: 'dots' },
      values: rows.map(({ usage }) => usage.promptCached),
    },
    {
      ...{ name: 'output', title: 'Output', color: 'var(--series-2)', pattern: 'lines' },
      values: rows.map(({ usage }) => usage.output),
    },
  ];
}

function costKinds(rows: readonly UsageRow[]): BarKind[] {
  return [
    {
      ...{ name: 'cost', title: 'Cost', color: 'var(--series-1)', pattern: 'plain' },
      values: rows.map(({ usage }) => usage.cost),
    },
    {
      ...{ name: 'saved', title: 'Saved by the response cache', color: 'var(--series-3)', pattern: 'lines' },
      values: rows.map(({ usage }) => usage.saved),
    },
  ];
}
