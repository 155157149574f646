/** The admin routes that read earlier states: history, lists at another time (`as_of`), and the explanation of a decision. */
import type { DeclaredVirtualModels, VirtualModelDirectory } from '../../commands/virtual-models/directory.ts';
import type { EventLog } from '../../events/log.ts';
import { createAsOf } from '../../http/admin/as-of.ts';
import { registerExplain } from '../../http/admin/explain.ts';
import { registerHistory } from '../../http/admin/history.ts';
import type { Routes } from '../../http/api/route-schema.ts';
import type { AdminJournal } from '../../projections/admin-journal.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import type { Registry } from '../../providers/registry.ts';
import type { AccessControl, KnownAccess } from '../access.ts';
import type { Workflows } from '../workflows.ts';
import { createPoliciesAsOf } from './policies-as-of.ts';

export interface AdminHistoryOptions {
  readonly log: EventLog;
  readonly journal: Pick<RunningProjection<AdminJournal>, 'state' | 'whenProcessed'>;
  readonly registry: Pick<Registry, 'list' | 'resolve'>;
  readonly known: Pick<KnownAccess, 'keys'>;
  readonly control: Pick<AccessControl, 'lists' | 'declared'>;
  readonly workflows: Pick<Workflows, 'at'>;
  readonly virtualModels: { readonly inForce: VirtualModelDirectory; readonly declared: DeclaredVirtualModels };
}

export function adminHistory(options: AdminHistoryOptions) {
  const { log, journal, registry, known, control } = options;
  const { inForce, declared } = options.virtualModels;
  const asOf = createAsOf({ log, journal, now: Date.now });
  const policies = createPoliciesAsOf({
    asOf,
    registry,
    declared: control.declared,
    declaredVirtualModels: declared,
    enabledByDefault: inForce.enabledByDefault,
  });
  return {
    asOf,
    policies,
    register(admin: Routes) {
      registerHistory(admin, { log, journal });
      registerExplain(admin, {
        log,
        now: {
          get keys() {
            return known.keys.state;
          },
          lists: control.lists,
          virtualModels: inForce,
        },
        asOf: policies,
        workflowsAt: async (given) => (await options.workflows.at(given, asOf)).directory,
        declared: control.declared,
        resolve: (model, provider) => registry.resolve(model, provider),
      });
    },
  };
}
