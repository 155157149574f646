import { sendChange } from '../../api/send-change.ts';
import { formatMoney } from '../../format/numbers.ts';
import { formatTime } from '../../format/times.ts';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import type { BudgetRow } from './budget-row.ts';
import { budgetBasis } from './current-budget.ts';
import { periodTitle } from './periods.ts';
import { rowKey } from './rule-name.ts';

interface OneProps {
  readonly row: BudgetRow;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

const titleOf = (row: BudgetRow) => `${periodTitle(row.period_seconds, row.period_label)} budget of ${row.subject}`;

export function RemoveBudget({ row, onClose, onDone }: OneProps) {
  const { scope, subject, amount, spent, period_seconds: seconds } = row;
  return (
    <ConfirmDialog
      title={`Remove the ${titleOf(row)}?`}
      effect={
        <p>
          Its limit of {formatMoney(amount)} no longer applies
          {spent === null ? '' : `; ${formatMoney(spent)} are spent in its period`}. Other budgets stay.
        </p>
      }
      confirmLabel="Remove the budget"
      basis={budgetBasis(row)}
      run={(ifMatch) =>
        sendChange({
          ...{ method: 'DELETE', of: '/admin/budgets/{user_path}/{period}', ifMatch, query: { scope } },
          at: `/admin/budgets/${encodeURIComponent(subject)}/${seconds}`,
        })
      }
      onClose={onClose}
      onDone={onDone}
    />
  );
}

export function ResetBudget({ row, onClose, onDone }: OneProps) {
  const { scope, subject, spent, period_seconds: seconds } = row;
  return (
    <ConfirmDialog
      title={`Reset the ${titleOf(row)}?`}
      effect={
        <p>
          Its spending is set from {formatMoney(spent ?? 0)} to {formatMoney(0)}. The period still ends at{' '}
          {formatTime(row.period_end)}. Usage reports do not change.
        </p>
      }
      confirmLabel="Set the spending to 0"
      basis={budgetBasis(row)}
      run={(ifMatch) =>
        sendChange({
          ...{ method: 'POST', of: '/admin/budgets/reset-one', ifMatch },
          json: { scope, subject, period_seconds: seconds },
        })
      }
      onClose={onClose}
      onDone={onDone}
    />
  );
}

interface AllProps {
  readonly rows: readonly BudgetRow[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function ResetAllBudgets({ rows, onClose, onDone }: AllProps) {
  return (
    <ConfirmDialog
      title={`Reset ${rows.length === 1 ? 'the only budget' : `all ${rows.length} budgets`}?`}
      effect={
        <>
          <p>The spending of each budget in its current period is set to {formatMoney(0)}:</p>
          <ul class="limit-list" tabIndex={0} aria-label="Budgets that are reset">
            {rows.map((row) => (
              <li key={rowKey(row)}>
                {titleOf(row)}: {formatMoney(row.spent ?? 0)} of {formatMoney(row.amount)}
              </li>
            ))}
          </ul>
          <p>The periods end as before. Usage reports do not change.</p>
        </>
      }
      confirmLabel="Set all spending to 0"
      run={() => sendChange({ method: 'POST', of: '/admin/budgets/reset', json: { confirmation: 'reset' } })}
      onClose={onClose}
      onDone={onDone}
    />
  );
}
