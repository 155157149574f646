import { access } from '../../api/access.ts';
import type { Answer } from '../../api/client.ts';
import { type Loaded, useLoaded } from '../../api/use-answer.ts';
import { ErrorPanel } from '../../ui/states.tsx';
import { readPastSpending } from './past-spending.ts';

export type PastSpending = Loaded<ReadonlyMap<string, number>>;

/** Whether analytics can compute it. */
const isComputed = () => access.value?.features['ANALYTICS_ENABLED'] !== 'off';

/** @param list of a past time; undefined in the present, and while it loads */
export function usePastSpending(list: Answer<'/admin/budgets'> | undefined): PastSpending | undefined {
  const { budgets = [], state_at: stateAt } = list ?? {};
  const enabled = stateAt !== undefined && isComputed();
  const loaded = useLoaded(
    (signal) => readPastSpending(budgets, stateAt ?? '', signal),
    JSON.stringify([stateAt, budgets.map(({ scope, subject, period_start: start }) => [scope, subject, start])]),
    { enabled, keepWhile: 'past spending' },
  );
  return enabled ? loaded : undefined;
}

/** What the amounts beside the limits of a past time are. */
export function PastSpendingNote({ spending }: { readonly spending: PastSpending | undefined }) {
  if (!isComputed()) {
    return (
      <p class="limit-past">
        These are the limits of that time. The spending up to it cannot be computed, because analytics is off:{' '}
        <code>ANALYTICS_ENABLED=true</code> switches it on.
      </p>
    );
  }
  return (
    <>
      <p class="limit-past">
        These are the limits of that time. The spending is computed from usage reports: from the beginning of the
        period, or the last reset before that time, up to that time, with all corrections since. Usage that analytics
        keeps no longer (<code>USAGE_RETENTION_DAYS</code>) is missing. Reservations of that time are unknown.
      </p>
      {spending?.error !== undefined && <ErrorPanel error={spending.error} onRetry={spending.reload} />}
    </>
  );
}
