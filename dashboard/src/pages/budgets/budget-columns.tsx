import { hrefOf } from '../../app/router.ts';
import { visibleText } from '../../content/text/hidden-characters.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import type { Column } from '../../ui/data-table.tsx';
import { Money, Time } from '../../ui/facts.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import type { BudgetAction, BudgetRow } from './budget-row.ts';
import { periodTitle } from './periods.ts';
import { projectedEnd } from './projected-end.ts';
import { RuleActions } from './rule-actions.tsx';
import { rowKey } from './rule-name.ts';
import { UsageBar } from './usage-bar.tsx';

interface BudgetColumnOptions {
  /** Of the gateway, or the past time; milliseconds since the epoch. */
  readonly now: number;
  /** Undefined in the present. */
  readonly past: { readonly spent: ReadonlyMap<string, number> | undefined; readonly isLoading: boolean } | undefined;
  readonly onAction: (action: BudgetAction) => void;
}

export function budgetColumns({ now, past, onAction }: BudgetColumnOptions): Column<BudgetRow>[] {
  const spentOf = (row: BudgetRow) => (past === undefined ? row.spent : past.spent?.get(rowKey(row)));
  const all: (Column<BudgetRow> & { readonly isOf?: 'past' | 'present' })[] = [
    { ...{ name: 'subject', title: 'Path or label', width: 9.5 }, cell: (row) => <Subject row={row} now={now} /> },
    {
      ...{ name: 'period', title: 'Period', width: 5.8 },
      cell: (row) => periodTitle(row.period_seconds, row.period_label),
    },
    {
      ...{ name: 'used', title: 'Used', width: 8 },
      cell: (row) => {
        const spent = spentOf(row);
        if (spent === undefined && past?.isLoading) return '…';
        return <UsageBar used={spent} reserved={row.reserved} most={row.amount} />;
      },
    },
    {
      ...{
        name: 'spent',
        title: past === undefined ? 'Spent' : 'Spent until then',
        width: past === undefined ? 5.5 : 7,
        align: 'end',
      },
      cell: (row) => (past?.isLoading ? '…' : <Money dollars={spentOf(row)} />),
    },
    {
      ...{ name: 'reserved', title: 'Reserved', width: 5.8, align: 'end', isOf: 'present' },
      cell: (row) => <Money dollars={row.reserved} />,
    },
    { ...{ name: 'limit', title: 'Limit', width: 5.5, align: 'end' }, cell: (row) => <Money dollars={row.amount} /> },
    {
      ...{ name: 'end', title: past === undefined ? 'Period ends' : 'Period ended', width: 9.8 },
      cell: (row) => <Time at={row.period_end} />,
    },
    {
      ...{ name: 'exhausted', title: 'Used up', width: 9.4, isOf: 'present' },
      cell: (row) => <UsedUp {...{ row, now }} />,
    },
    {
      ...{ name: 'actions', title: 'Change', width: 11.8, isOf: 'present' },
      cell: (row) => (
        <RuleActions
          of={`the ${periodTitle(row.period_seconds, row.period_label)} budget of ${row.subject}`}
          isDeclared={row.source === 'config'}
          onAction={(name) => onAction({ do: name, row })}
        />
      ),
    },
  ];
  return all.filter(({ isOf }) => isOf !== (past === undefined ? 'past' : 'present'));
}

/** Leads to the usage of the period. */
function Subject({ row, now }: { readonly row: BudgetRow; readonly now: number }) {
  const { scope, subject, period_start: from } = row;
  const filter = scope === 'label' ? { label: subject } : { user_path: subject };
  const to = new Date(Math.max(now, Date.parse(from) + 1)).toISOString();
  return (
    <>
      <a href={hrefOf('/usage', { ...filter, from, to })} title={visibleText(`${subject}: usage of the period`)}>
        <Recorded text={subject} />
      </a>
      {scope === 'label' && ' (label)'}
    </>
  );
}

function UsedUp({ row, now }: { readonly row: BudgetRow; readonly now: number }) {
  const { spent, amount, period_start: start, period_end: end } = row;
  if (spent === null) return null;
  if (spent >= amount) return <Badge tone="bad">used up</Badge>;
  const at = projectedEnd({ spent, amount, start: Date.parse(start), end: Date.parse(end) }, now);
  return at === undefined ? <span title="It lasts until the period ends.">–</span> : <Time at={at} />;
}
