import { formatCount, formatMoney, formatShare } from '../../format/numbers.ts';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { Count, Money } from '../../ui/facts.tsx';
import { type Change, relativeChange } from '../overview/changes.ts';
import type { Measure, Usage } from './usage-rows.ts';
import type { UsageRow } from './use-usage.ts';

interface UsageTableProps {
  readonly name: string;
  readonly rows: readonly UsageRow[];
  /** By the key of a row; undefined while it is not known or not compared. */
  readonly before: ReadonlyMap<string, Usage> | undefined;
  readonly measure: Measure;
  readonly auditHref: (row: UsageRow) => string | undefined;
  /** The days of a row. */
  readonly daysHref: (row: UsageRow) => string | undefined;
  readonly total?: number | undefined;
}

export function UsageTable({ name, rows, before, measure, auditHref, daysHref, total }: UsageTableProps) {
  const max = Math.max(0, ...rows.map(({ usage }) => usage[measure] ?? 0));
  const sum = rows.reduce((all, { usage }) => all + (usage[measure] ?? 0), 0);
  const amount = measure === 'cost' ? formatMoney : formatCount;
  const columns: Column<UsageRow>[] = [
    {
      ...{ name: 'name', title: name, width: 12 },
      cell: (row) => {
        const href = auditHref(row);
        return href === undefined ? row.title : <a href={href}>{row.title}</a>;
      },
    },
    {
      ...{ name: 'share', title: `Share of ${measure}`, width: 8.5 },
      cell: ({ usage }) => {
        const value = usage[measure];
        if (value === null || sum === 0) return '–';
        return (
          <span class="usage-share">
            <span class="usage-share-bar" aria-hidden="true">
              <span style={{ width: `${max === 0 ? 0 : (100 * value) / max}%` }} />
            </span>
            {formatShare(value / sum)}
          </span>
        );
      },
    },
    { ...{ name: 'cost', title: 'Cost', width: 6, align: 'end' }, cell: ({ usage }) => <Money dollars={usage.cost} /> },
    {
      ...{ name: 'tokens', title: 'Tokens', width: 7, align: 'end' },
      cell: ({ usage }) => <Count count={usage.tokens} />,
    },
    {
      ...{ name: 'before', title: `${measure === 'cost' ? 'Cost' : 'Tokens'} before`, width: 7.5, align: 'end' },
      cell: (row) => {
        const value = before?.get(row.key)?.[measure];
        return value === null || value === undefined ? '–' : amount(value);
      },
    },
    {
      ...{ name: 'change', title: 'Change', width: 5.5, align: 'end' },
      cell: (row) => {
        const change = relativeChange(row.usage[measure], before?.get(row.key)?.[measure]);
        return change === undefined ? '–' : changeText(change);
      },
    },
    {
      ...{ name: 'requests', title: 'Requests', width: 6.5, align: 'end' },
      cell: ({ usage }) => <Count count={usage.requests} />,
    },
    {
      ...{ name: 'unpriced', title: 'Unknown cost', width: 8, align: 'end' },
      cell: ({ usage }) => <Count count={usage.unpriced} />,
    },
    {
      ...{ name: 'hits', title: 'Cache hits', width: 7, align: 'end' },
      cell: ({ usage }) => <Count count={usage.cacheHits} />,
    },
    {
      ...{ name: 'saved', title: 'Saved', width: 6.5, align: 'end' },
      cell: ({ usage }) => <Money dollars={usage.saved} />,
    },
    {
      ...{ name: 'days', title: 'Usage', width: 5 },
      cell: (row) => {
        const href = daysHref(row);
        return href === undefined ? '' : <a href={href}>by day</a>;
      },
    },
    {
      ...{ name: 'input', title: 'Input', width: 8, align: 'end' },
      cell: ({ usage }) => <Count count={usage.input} />,
    },
    {
      ...{ name: 'output', title: 'Output', width: 7, align: 'end' },
      cell: ({ usage }) => <Count count={usage.output} />,
    },
  ];
  return (
    <DataTable
      label={`Usage by ${name.toLowerCase()}`}
      columns={columns}
      rows={rows}
      rowKey={({ key }) => key}
      rowHref={auditHref}
      {...(total === undefined ? {} : { total })}
    />
  );
}

function changeText({ sign, by }: Change): string {
  return `${sign} ${by >= 1 ? `${formatCount(100 * by)}%` : formatShare(by)}`;
}
