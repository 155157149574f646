import { useState } from 'preact/hooks';
import { access, isGlobal } from '../../api/access.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { asOfQuery, isPast } from '../../app/as-of.ts';
import { Button } from '../../ui/button.tsx';
import { DataTable } from '../../ui/data-table.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { budgetColumns } from './budget-columns.tsx';
import { BudgetDialog } from './budget-dialog.tsx';
import type { BudgetAction } from './budget-row.ts';
import { LimitTools, searchedText } from './limit-tools.tsx';
import { PastSpendingNote, usePastSpending } from './past-spending-note.tsx';
import { RemoveBudget, ResetAllBudgets, ResetBudget } from './reset-budgets.tsx';
import { rowKey } from './rule-name.ts';

const REFRESH_MS = 10_000;

export function BudgetsTab() {
  const features = access.value?.features ?? {};
  if (features['BUDGETS_ENABLED'] === 'off' || features['USAGE_ENABLED'] === 'off') return <BudgetsOff />;
  return <BudgetList />;
}

function BudgetsOff() {
  return (
    <EmptyState title="Budgets are switched off.">
      <p>
        Start the gateway with <code>BUDGETS_ENABLED=true</code> and <code>USAGE_ENABLED=true</code>, or set{' '}
        <code>budgets.enabled: true</code> and <code>usage.enabled: true</code> in its configuration file.
      </p>
    </EmptyState>
  );
}

function BudgetList() {
  const past = isPast.value;
  const loaded = useAnswer('/admin/budgets', asOfQuery(), past ? {} : { refreshMs: REFRESH_MS });
  const [action, setAction] = useState<BudgetAction | undefined>(undefined);
  const { data, error, since, reload } = loaded;
  const pastSpending = usePastSpending(past ? data : undefined);
  const close = () => setAction(undefined);
  const done = () => {
    close();
    reload();
  };
  const searched = searchedText();
  const rows = data?.budgets.filter(({ subject }) => subject.toLowerCase().includes(searched));
  return (
    <>
      <LimitTools>
        {!past && <Button onClick={() => setAction({ do: 'create' })}>Create a budget</Button>}
        {!past && isGlobal.value && (
          <Button disabled={!data?.budgets.length} onClick={() => setAction({ do: 'reset-all' })}>
            Reset all
          </Button>
        )}
      </LimitTools>
      {past && <PastSpendingNote spending={pastSpending} />}
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} />}
      {rows !== undefined && rows.length > 0 && data !== undefined && (
        <DataTable
          label="Budgets"
          rows={rows}
          rowKey={rowKey}
          columns={budgetColumns({
            now: Date.parse(data.state_at ?? data.server_time),
            past: past ? { spent: pastSpending?.data, isLoading: pastSpending?.isLoading ?? false } : undefined,
            onAction: setAction,
          })}
        />
      )}
      {rows?.length === 0 && <NoBudgets isPast={past} isSearched={searched !== ''} />}
      {!past && (
        <p class="limit-note">
          Reserved is the cost of requests under way; all budgets of a path or label share it. The time at which a
          budget is used up assumes the average pace since its period began: the amount, divided by the spending per
          hour so far.
        </p>
      )}
      {action?.do === 'create' && <BudgetDialog onClose={close} onDone={done} />}
      {action?.do === 'edit' && <BudgetDialog row={action.row} onClose={close} onDone={done} />}
      {action?.do === 'remove' && <RemoveBudget row={action.row} onClose={close} onDone={done} />}
      {action?.do === 'reset' && <ResetBudget row={action.row} onClose={close} onDone={done} />}
      {action?.do === 'reset-all' && data !== undefined && (
        <ResetAllBudgets rows={data.budgets} onClose={close} onDone={done} />
      )}
    </>
  );
}

function NoBudgets({ isPast, isSearched }: { readonly isPast: boolean; readonly isSearched: boolean }) {
  if (isSearched) return <EmptyState title="No budget of such a path or label." />;
  if (isPast) return <EmptyState title="There was no budget at this time." />;
  return (
    <EmptyState title="There is no budget.">
      <p>A budget limits the cost of a user path and all paths below it, or of a label, over a period.</p>
    </EmptyState>
  );
}
