import { useState } from 'preact/hooks';
import { isGlobal } from '../../api/access.ts';
import { getAnswer } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { ChangeDialog, useProblem } from '../../ui/change-dialog.tsx';
import { SelectField, TextField } from '../../ui/fields.tsx';
import type { BudgetRow } from './budget-row.ts';
import { createRule } from './create-rule.ts';
import { readBudget } from './current-budget.ts';
import { PeriodField, secondsOf } from './period-field.tsx';
import { budgetPeriods, periodTitle } from './periods.ts';
import { canonicalSubject, type RuleName } from './rule-name.ts';

interface BudgetDialogProps {
  /** Undefined: a new budget. */
  readonly row?: BudgetRow;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function BudgetDialog({ row, onClose, onDone }: BudgetDialogProps) {
  const [scope, setScope] = useState<BudgetRow['scope']>(row?.scope ?? 'user_path');
  const [subject, setSubject] = useState(row?.subject ?? '');
  const [period, setPeriod] = useState(String(row?.period_seconds ?? budgetPeriods[3]?.value));
  const [amount, setAmount] = useState(row === undefined ? '' : String(row.amount));
  const name: RuleName = { scope, subject: canonicalSubject(scope, subject), period_seconds: secondsOf(period) };
  const version = { ...name, amount: Number(amount) };
  const send = (ifMatch: string | undefined) =>
    sendChange({
      ...{ method: 'PUT', of: '/admin/budgets', ifMatch },
      json: {
        ...{ scope, subject: name.subject, amount: version.amount },
        budget_key: { period_seconds: name.period_seconds },
      },
    });
  const title =
    row === undefined
      ? 'Create a budget'
      : `Edit the ${periodTitle(row.period_seconds, row.period_label)} budget of ${row.subject}`;
  return (
    <ChangeDialog
      title={title}
      submitLabel={row === undefined ? 'Create the budget' : 'Save the budget'}
      revision={row?.revision}
      save={(ifMatch) =>
        row === undefined && ifMatch === undefined
          ? createRule(
              { name, readRules: async () => (await getAnswer('/admin/budgets')).budgets, send },
              `budget:${scope === 'label' ? 'label:' : ''}${name.subject}`,
            )
          : send(ifMatch)
      }
      mine={() => version}
      readCurrent={() => readBudget(name)}
      canSubmit={amount !== '' && subject.trim() !== '' && name.period_seconds > 0}
      onClose={onClose}
      onDone={onDone}
    >
      {row === undefined && (
        <>
          {isGlobal.value && (
            <SelectField
              label="Limits the cost of"
              value={scope}
              choices={[
                { value: 'user_path', title: 'A user path and all paths below it' },
                { value: 'label', title: 'A label' },
              ]}
              onChange={setScope}
            />
          )}
          <SubjectField scope={scope} value={subject} onInput={setSubject} />
          <PeriodField value={period} choices={budgetPeriods} onChange={setPeriod} parameter="budget_key.period" />
        </>
      )}
      <AmountField value={amount} onInput={setAmount} />
      <p>The period continues with its spending so far.</p>
    </ChangeDialog>
  );
}

interface ValueProps {
  readonly value: string;
  readonly onInput: (value: string) => void;
}

function SubjectField({ scope, value, onInput }: ValueProps & { readonly scope: BudgetRow['scope'] }) {
  const ofPath = useProblem('user_path');
  const ofSubject = useProblem('subject');
  return (
    <TextField
      label={scope === 'label' ? 'Label' : 'User path'}
      placeholder={scope === 'label' ? 'batch' : '/team/alpha'}
      value={value}
      onInput={onInput}
      problem={ofSubject ?? ofPath}
      required
    />
  );
}

function AmountField({ value, onInput }: ValueProps) {
  return (
    <TextField
      label="Limit in US dollars"
      // Text, so that a browser's locale does not change the decimal point.
      value={value}
      onInput={onInput}
      problem={useProblem('amount')}
      required
    />
  );
}
