/** Lists virtual models among the models that a caller sees, under their own names. */
import type { ModelAccess, ModelCaller } from '../access/model-access.ts';
import type { VisibleModels } from '../access/visible-models.ts';
import type { Target } from '../model-request/target.ts';
import type { VirtualModelDirectory } from './directory.ts';
import { expand } from './expand.ts';
import { isFor, type VirtualModel } from './virtual-model.ts';

/** A listed model. */
export interface Entry {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly ownedBy: string;
  readonly metadata?: object;
}

export interface ListingOptions {
  readonly virtualModels: Pick<VirtualModelDirectory, 'redirects' | 'storedAs'>;
  readonly access: ModelAccess;
  resolve(model: string, provider: string | undefined): Target | undefined;
  /** Whether provider models are left out of the list. They can still be called. */
  readonly onlyVirtual: boolean;
  /** Time of creation of the declared ones. Unix seconds. */
  readonly declaredAt: number;
}

const OWNER = 'gateway';

/** A virtual model replaces a model that is listed under the same name. */
export function withVirtualModels(models: VisibleModels<Entry>, options: ListingOptions): VisibleModels<Entry> {
  const { virtualModels, onlyVirtual } = options;

  /** Undefined for a virtual model without a candidate for this caller. */
  function entryOf(model: VirtualModel, caller: ModelCaller): Entry | undefined {
    if (!isFor(model.userPaths, caller.userPath)) return undefined;
    const { candidates } = expand(model, {
      redirect: (source) => virtualModels.redirects.get(source),
      resolve: options.resolve,
      mayPass: (one) => isFor(one.userPaths, caller.userPath),
      mayUse: ({ provider, model: name }) => options.access.allows(caller, provider.name, name),
    });
    const [first, ...others] = candidates;
    if (first === undefined) return undefined;
    const stored = virtualModels.storedAs(model.source);
    const created = stored === undefined ? options.declaredAt : Math.floor(stored.createdAt / 1000);
    const entry = { id: model.source, created, ownedBy: OWNER };
    // With several candidates, the one that will answer is not known in advance.
    const { provider, model: name } = first.target;
    const metadata = others.length === 0 ? models.find(`${provider.name}/${name}`, caller)?.metadata : undefined;
    return metadata === undefined ? entry : { ...entry, metadata };
  }

  return {
    list(caller) {
      const { redirects } = virtualModels;
      if (redirects.size === 0) return onlyVirtual ? [] : models.list(caller);
      const virtual = [...redirects.values()].flatMap((model) => entryOf(model, caller) ?? []);
      const served = onlyVirtual ? [] : models.list(caller).filter(({ id }) => !redirects.has(id));
      return [...virtual, ...served];
    },
    find(selector, caller) {
      const model = virtualModels.redirects.get(selector);
      return model === undefined ? models.find(selector, caller) : entryOf(model, caller);
    },
  };
}
