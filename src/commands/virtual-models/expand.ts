/**
 * Expands a virtual model to models of providers, through further virtual models. The expansion always ends: a target
 * that leads back to itself, or through more than eight virtual models, has no candidates.
 */

import type { ModelAccess, ModelCaller, VisibleModels } from '../access/model-access.ts';
import type { Target } from '../model-request/routing-types.ts';
import type { VirtualModelDirectory } from './directory.ts';
import { chainedName, isFor, MAX_DEPTH, type VirtualModel, type VirtualTarget } from './virtual-model.ts';

/** A model of a provider, and the virtual models that led to it. */
interface Candidate {
  readonly target: Target;
  /** The virtual models behind the expanded one, outermost first. */
  readonly through: readonly string[];
  /** Whether it can be called now: it has room, and its provider is healthy. */
  readonly ready: boolean;
}

/** One target of a virtual model, with its candidates: never empty, ready ones first. */
export interface Branch {
  readonly target: VirtualTarget;
  readonly candidates: readonly Candidate[];
  /** The virtual model through which it leads. */
  readonly chained?: Expansion;
}

interface Expansion {
  readonly model: VirtualModel;
  readonly branches: readonly Branch[];
  readonly candidates: readonly Candidate[];
}

export interface Expanding {
  /** The enabled virtual model with this name and targets. */
  redirect(source: string): VirtualModel | undefined;
  /** The provider that serves a model. */
  resolve(model: string, provider: string | undefined): Target | undefined;
  /** Whether the caller may use this virtual model, or this model. Default: everything is allowed. */
  mayPass?(model: VirtualModel): boolean;
  mayUse?(target: Target): boolean;
  isReady?(target: Target): boolean;
  /** The order of the targets of a virtual model, in case everything before them fails. Default: the declared order. */
  arrange?(model: VirtualModel, branches: readonly Branch[]): readonly Branch[];
}

interface ExpandingInTurn extends Expanding {
  /** The order in which the targets of a virtual model are called: the first one is really called, and uses its turn. */
  choose(model: VirtualModel, branches: readonly Branch[]): readonly Branch[] | Promise<readonly Branch[]>;
}

export interface Expanded {
  /** Each model once, in the order of the calls: ready ones first. */
  readonly candidates: readonly Candidate[];
  /** Targets that no known provider serves. */
  readonly unknown: readonly VirtualTarget[];
  /** Whether a target was left out because the caller may not use it. */
  readonly denied: boolean;
}

export function expand(model: VirtualModel, by: Expanding): Expanded {
  const walk = new TargetExpansion(by);
  const { candidates } = walk.from(model, 1);
  return { candidates, unknown: walk.unknown, denied: walk.denied };
}

/** Expands for one request. A promise only when the order of a virtual model's targets is one. */
export function expandInTurn(model: VirtualModel, by: ExpandingInTurn): Expanded | Promise<Expanded> {
  const walk = new TargetExpansion(by);
  const expanded = (candidates: readonly Candidate[]) => ({ candidates, unknown: walk.unknown, denied: walk.denied });
  const candidates = inTurn(walk.from(model, 1), by);
  return candidates instanceof Promise ? candidates.then(expanded) : expanded(candidates);
}

type Candidates = readonly Candidate[] | Promise<readonly Candidate[]>;

/** Uses up turns from the outermost virtual model downwards: behind it, only the chosen branch uses one. */
function inTurn({ model, branches }: Expansion, by: ExpandingInTurn): Candidates {
  const arranged = branches.length > 1 ? by.choose(model, branches) : branches;
  return arranged instanceof Promise ? arranged.then((one) => chosenFirst(one, by)) : chosenFirst(arranged, by);
}

function chosenFirst([first, ...others]: readonly Branch[], by: ExpandingInTurn): Candidates {
  if (first === undefined) return [];
  const { chained } = first;
  const rest = others.map(({ candidates }) => candidates);
  if (chained === undefined) return inOrder([first.candidates, ...rest]);
  const behind = inTurn(chained, by);
  const together = (chosen: readonly Candidate[]) => inOrder([through(chained.model, chosen), ...rest]);
  return behind instanceof Promise ? behind.then(together) : together(behind);
}

class TargetExpansion {
  readonly unknown: VirtualTarget[] = [];
  denied = false;
  readonly #by: Expanding;
  /** Expansions so far. One that is not finished has no candidates, so that cycles end. */
  readonly #known = new Map<string, Expansion>();

  constructor(by: Expanding) {
    this.#by = by;
  }

  from(model: VirtualModel, depth: number): Expansion {
    this.#known.set(model.source, { model, branches: [], candidates: [] });
    const branches: Branch[] = [];
    for (const target of model.targets) {
      const branch = this.#branch(model, target, depth);
      if (branch !== undefined && branch.candidates.length > 0) branches.push(branch);
    }
    const arranged = branches.length > 1 ? (this.#by.arrange?.(model, branches) ?? branches) : branches;
    const expansion = { model, branches, candidates: inOrder(arranged.map(({ candidates }) => candidates)) };
    this.#known.set(model.source, expansion);
    return expansion;
  }

  #branch(model: VirtualModel, target: VirtualTarget, depth: number): Branch | undefined {
    const name = chainedName(model, target);
    const next = name === undefined ? undefined : this.#by.redirect(name);
    if (next === undefined) return this.#served(target);
    if (this.#by.mayPass?.(next) === false) {
      this.denied = true;
      return undefined;
    }
    if (depth >= MAX_DEPTH) return undefined;
    const chained = this.#known.get(next.source) ?? this.from(next, depth + 1);
    return { target, chained, candidates: through(next, chained.candidates) };
  }

  #served(declared: VirtualTarget): Branch | undefined {
    const target = this.#by.resolve(declared.model, declared.provider);
    if (target === undefined) {
      this.unknown.push(declared);
      return undefined;
    }
    if (this.#by.mayUse?.(target) === false) {
      this.denied = true;
      return undefined;
    }
    const ready = this.#by.isReady?.(target) ?? true;
    return { target: declared, candidates: [{ target, through: [], ready }] };
  }
}

function through({ source }: VirtualModel, candidates: readonly Candidate[]): readonly Candidate[] {
  return candidates.map((one) => ({ ...one, through: [source, ...one.through] }));
}

/** Each model of a provider once, at its first place; ready ones before the others. */
function inOrder(parts: readonly (readonly Candidate[])[]): readonly Candidate[] {
  const [only] = parts;
  if (parts.length === 1 && only !== undefined) return only;
  const distinct: Candidate[] = [];
  for (const part of parts) {
    for (const one of part) if (!distinct.some((other) => isSame(other.target, one.target))) distinct.push(one);
  }
  if (distinct.every(({ ready }) => ready)) return distinct;
  return [...distinct.filter(({ ready }) => ready), ...distinct.filter(({ ready }) => !ready)];
}

function isSame(one: Target, other: Target): boolean {
  return one.provider === other.provider && one.model === other.model;
}

// Lists virtual models among the models that a caller sees, under their own names.

/** A listed model. */
export interface Entry {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly ownedBy: string;
  readonly metadata?: object;
}

interface ListingOptions {
  readonly virtualModels: Pick<VirtualModelDirectory, 'redirects' | 'inForce'>;
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
    const stored = virtualModels.inForce.savedAs(model.source);
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
