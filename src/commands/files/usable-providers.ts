/** The providers to which a caller's files and batches may be sent: those of which it may use at least one model. */
import type { Provider } from '../../providers/provider.ts';
import type { ModelAccess, ModelCaller } from '../access/model-access.ts';
import type { Reach } from '../model-request/routing-types.ts';
import { refusals } from '../refusal.ts';
import type { Providers } from './holders.ts';

interface Known {
  readonly providers: readonly Provider[];
  providerByNameOrType(nameOrType: string): Provider | undefined;
}

export function usableProviders(known: Known, access: ModelAccess, router: Reach): (caller: ModelCaller) => Providers {
  return (caller) => {
    const mayUse = ({ name }: Provider) => access.allowsProvider(caller, name, 'any');
    return {
      all: () => (access.restricts(caller) ? known.providers.filter(mayUse) : known.providers),
      named(nameOrType) {
        const provider = known.providerByNameOrType(nameOrType);
        if (provider !== undefined && !mayUse(provider)) throw refusals.providerAccessDenied(nameOrType);
        return provider;
      },
      async serving(selector) {
        const [first] = await router.reach({ selector, provider: undefined, caller });
        return first?.provider;
      },
      reachableTargets: async (selector, provider) => router.reach({ selector, provider, caller }),
      mayUseAll: ({ name }) => access.allowsProvider(caller, name, 'all'),
      checkModel({ name }, model) {
        const denial = access.denial(caller, name, model);
        if (denial !== undefined) throw refusals.modelAccessDenied(`${name}/${model}`, denial);
      },
    };
  };
}
