/** The limits of users and models at another time: the current rules over what administrators had set by then. */
import { EffectiveModels, type UserLists } from '../../commands/access/authorizer.ts';
import { type DeclaredPolicies, userLists } from '../../commands/users/user-policy.ts';
import { type DeclaredVirtualModels, VirtualModelDirectory } from '../../commands/virtual-models/directory.ts';
import type { AsOf, Moment } from '../../http/admin/as-of.ts';
import { type KeysState, keysView } from '../../projections/keys.ts';
import { type UsersState, usersView } from '../../projections/users.ts';
import { virtualModelsView } from '../../projections/virtual-models.ts';
import type { Registry } from '../../providers/registry.ts';

/** The policies set at that moment. The configuration and the available models are always the current ones. */
export interface PoliciesAsOf {
  readonly moment: Moment;
  readonly keys: KeysState;
  readonly users: UsersState;
  readonly lists: UserLists;
  readonly virtualModels: VirtualModelDirectory;
  readonly effective: EffectiveModels;
}

export interface PoliciesAsOfOptions {
  readonly asOf: AsOf;
  readonly registry: Pick<Registry, 'list'>;
  readonly declared: DeclaredPolicies;
  readonly declaredVirtualModels: DeclaredVirtualModels;
  readonly enabledByDefault: boolean;
}

/** Resolves with undefined without an `as_of`. @throws Refusal 400, as `AsOf.moment` does */
export type ReadPoliciesAsOf = (asOf: string | undefined) => Promise<PoliciesAsOf | undefined>;

export function createPoliciesAsOf(options: PoliciesAsOfOptions): ReadPoliciesAsOf {
  const { asOf, registry, declared, declaredVirtualModels, enabledByDefault } = options;
  return async (given) => {
    const moment = await asOf.moment(given);
    if (moment === undefined) return undefined;
    const [keys, users, stored] = await Promise.all([
      asOf.fold(keysView, moment),
      asOf.fold(usersView, moment),
      asOf.fold(virtualModelsView, moment),
    ]);
    const lists = userLists(users, declared);
    const virtualModels = new VirtualModelDirectory({
      stored: () => stored,
      declared: declaredVirtualModels,
      enabledByDefault,
    });
    const effective = new EffectiveModels(registry.list(), { users: lists, models: virtualModels.policies });
    return { moment, keys, users, lists, virtualModels, effective };
  };
}
