/** Which provider gets a new file or batch, and which provider has an existing one. */
import type { Provider } from '../../providers/provider.ts';
import type { ModelAccess, ModelCaller } from '../access/model-access.ts';
import { notServed } from '../model-request/forward-operations.ts';
import type { Reach, Target } from '../model-request/routing-types.ts';
import { batches, files, type ObjectKind } from '../provider-objects/tracked.ts';
import { refusals } from '../refusal.ts';

export interface Providers {
  /** Every configured provider, in order. */
  all(): readonly Provider[];
  named(nameOrType: string): Provider | undefined;
  /** The provider that serves a model. */
  serving(selector: string): Promise<Provider | undefined>;
  /**
   * All providers that serve a model that the caller may use, in order, with their own ids of it.
   * @param hint a provider's name or type
   * @throws Refusal when none does
   */
  reachableTargets(selector: string, hint: string | undefined): Promise<readonly Target[]>;
  /** Whether the caller may use every model of the provider, including unlisted ones. */
  mayUseAll(provider: Provider): boolean;
  /** @throws Refusal when the model may not be used */
  checkModel(provider: Provider, model: string): void;
}

interface Hints {
  /** A provider's name or type, as the client sent it. */
  readonly provider?: string | undefined;
  /** A model's selector. */
  readonly model?: string | undefined;
}

/**
 * The provider for a new object: the one that the client names, directly or by a model, else the only one possible.
 * Providers that are known to store such objects precede those for which it is unknown.
 * @throws Refusal when no provider can store it, or when the client has to name one
 */
export async function chosenProvider(kind: ObjectKind, hints: Hints, providers: Providers): Promise<Provider> {
  if (hints.provider !== undefined) return ableProvider(kind, hints.provider, providers);
  if (hints.model !== undefined) {
    const provider = await providers.serving(hints.model);
    if (provider === undefined) throw refusals.modelNotFound(hints.model);
    if (!mayServe(provider, kind)) throw notServed(kind);
    return provider;
  }
  const only = onlyProvider(kind, providers);
  if (only !== undefined) return only;
  const able = candidates(kind, providers);
  if (able.length === 0) {
    throw refusals.unsupportedEndpoint(`${kind.title} is not supported by any configured provider.`);
  }
  const names = able.map(({ name }) => `'${name}'`).join(', ');
  throw refusals.invalidRequest(`Select one with 'provider': ${names}.`, 'provider', 'provider_required');
}

/** The only provider that can store the object; undefined when there are several. */
export function onlyProvider(kind: ObjectKind, providers: Providers): Provider | undefined {
  const able = candidates(kind, providers);
  const known = able.filter(({ capabilities }) => capabilities.serves !== undefined);
  return known.length === 1 ? known[0] : able.length === 1 ? able[0] : undefined;
}

/** Every provider that may store such objects: those known to, and those for which it is unknown. */
export function candidates(kind: ObjectKind, providers: Providers): Provider[] {
  return providers.all().filter((provider) => mayServe(provider, kind));
}

/** @throws Refusal when there is no such provider, or it does not store such objects */
export function ableProvider(kind: ObjectKind, nameOrType: string, providers: Providers): Provider {
  const provider = providers.named(nameOrType);
  if (provider === undefined) throw refusals.unknownProvider(nameOrType);
  if (!mayServe(provider, kind)) throw notServed(kind);
  return provider;
}

/** Whether the provider takes the requests of a batch in a file that the gateway uploads. */
export function takesInline(provider: Provider): boolean {
  return mayServe(provider, batches) && mayServe(provider, files);
}

export function mayServe({ capabilities }: Provider, { family }: ObjectKind): boolean {
  return capabilities.serves?.includes(family) ?? true;
}

/** The providers to which a caller's files and batches may be sent: those of which it may use at least one model. */
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
