/** Commands and events of the settings of all budgets: stream `settings-budgets`. */
import type { z } from 'zod';
import { budgetSettingsChanged } from '../../events/catalogue/budget.ts';
import type { EventContext, StreamName } from '../../events/event.ts';
import { streamName } from '../../events/event.ts';
import type { Decider } from '../handle-command.ts';

/** When days, weeks and months begin, UTC. */
export type BudgetAnchors = z.infer<typeof budgetSettingsChanged.data>;

export interface ChangeBudgetSettings {
  /** A setting that is left out keeps its value. */
  readonly changes: { readonly [Name in keyof BudgetAnchors]?: number | undefined };
  readonly context: EventContext;
}

export const budgetSettingsStream: StreamName = streamName('settings', 'budgets');

/** @param initial the settings before the first change */
export function budgetSettingsDecider(initial: BudgetAnchors): Decider<BudgetAnchors, ChangeBudgetSettings> {
  return {
    initial,
    dependsOn: 'its stream',
    decide({ changes, context }, state) {
      const next = { ...state };
      let changed = false;
      for (const name of budgetSettingsChanged.data.keyof().options) {
        const value = changes[name];
        if (value === undefined || value === next[name]) continue;
        next[name] = value;
        changed = true;
      }
      return changed ? [budgetSettingsChanged.create(next, context)] : [];
    },
    evolve: (state, event) =>
      event.type === budgetSettingsChanged.type ? budgetSettingsChanged.data.parse(event.data) : state,
  };
}
