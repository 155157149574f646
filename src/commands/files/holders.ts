/** Which provider a file or a batch goes to, and which has one. */
import type { Provider } from '../../providers/provider.ts';
import { notServed } from '../model-request/forward-operations.ts';
import type { Target } from '../model-request/target.ts';
import { batches, files, type ObjectKind } from '../provider-objects/tracked.ts';
import { refusals } from '../refusal.ts';

export interface Providers {
  /** Every configured provider, in order. */
  all(): readonly Provider[];
  named(nameOrType: string): Provider | undefined;
  /** Who serves a model. */
  serving(selector: string): Promise<Provider | undefined>;
  /**
   * All providers that serve a model that the caller may use, in order, with their own ids of it.
   * @param hint a provider's name or type
   * @throws Refusal when none does
   */
  reaching(selector: string, hint: string | undefined): Promise<readonly Target[]>;
  /** Whether every model of the provider may be used, also unlisted ones. */
  mayUseAll(provider: Provider): boolean;
  /** @throws Refusal when the model may not be used */
  checkModel(provider: Provider, model: string): void;
}

export interface Hints {
  /** A provider's name or type, as the client gave it. */
  readonly provider?: string | undefined;
  /** A model's selector. */
  readonly model?: string | undefined;
}

/**
 * Who gets a new object, by what the client said, else by there being no choice. A provider that is known to keep such
 * things goes before one of which it is not known.
 * @throws Refusal when no provider can, or when the client must name one
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
  throw refusals.invalidRequest(`Say with 'provider' who is to have it: ${names}.`, 'provider', 'provider_required');
}

/** The only provider there is for it. */
export function onlyProvider(kind: ObjectKind, providers: Providers): Provider | undefined {
  const able = candidates(kind, providers);
  const known = able.filter(({ capabilities }) => capabilities.serves !== undefined);
  return known.length === 1 ? known[0] : able.length === 1 ? able[0] : undefined;
}

/** Every provider that may have such things: those known to, and those of which it is not known. */
export function candidates(kind: ObjectKind, providers: Providers): Provider[] {
  return providers.all().filter((provider) => mayServe(provider, kind));
}

/** @throws Refusal when there is no such provider, or it does not keep such things */
export function ableProvider(kind: ObjectKind, nameOrType: string, providers: Providers): Provider {
  const provider = providers.named(nameOrType);
  if (provider === undefined) throw refusals.unknownProvider(nameOrType);
  if (!mayServe(provider, kind)) throw notServed(kind);
  return provider;
}

/** Whether the provider takes requests of a batch in a file that the gateway uploads. */
export function takesInline(provider: Provider): boolean {
  return mayServe(provider, batches) && mayServe(provider, files);
}

export function mayServe({ capabilities }: Provider, { family }: ObjectKind): boolean {
  return capabilities.serves?.includes(family) ?? true;
}
