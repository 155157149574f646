/** Resets every budget at once: all of them begin anew at the same place in the log, or none does. */
import { budgetReset } from '../../events/catalogue/budget.ts';
import type { EventContext, Position } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { type BudgetSubject, budgetStream } from './budget.ts';

/** @returns where in the log it is; undefined when there is no budget. @throws LogUnavailable */
export async function resetAllBudgets(
  budgets: Iterable<BudgetSubject & { readonly periodSeconds: number }>,
  context: EventContext,
  log: EventLog,
): Promise<Position | undefined> {
  const streams = Map.groupBy(budgets, budgetStream);
  if (streams.size === 0) return undefined;
  // A reset goes with every other change, so nothing is expected of the revision.
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
