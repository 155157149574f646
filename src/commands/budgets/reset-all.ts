/** Resets every budget in one append: all of them restart at the same position in the log, or none does. */
import { budgetReset } from '../../events/catalogue/budget.ts';
import type { EventContext, Position } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { type BudgetSubject, budgetStream } from './budget.ts';

/** @returns the position of the reset; undefined when there is no budget. @throws LogUnavailable */
export async function resetAllBudgets(
  budgets: Iterable<BudgetSubject & { readonly periodSeconds: number }>,
  context: EventContext,
  log: EventLog,
): Promise<Position | undefined> {
  const streams = Map.groupBy(budgets, budgetStream);
  if (streams.size === 0) return undefined;
  // A reset is compatible with every other change, so no revision is expected.
  const { position } = await log.append(
    [...streams].map(([stream, found]) => ({
      stream,
      events: found.map(({ scope, subject, periodSeconds }) =>
        budgetReset.create({ scope, subject, periodSeconds }, context),
      ),
      expectedRevision: 'exists' as const,
    })),
  );
  return position;
}
