/**
 * What a virtual model leads to: the models of providers, through as many others as it takes. It always comes to an
 * end: whatever leads back to where it came from, or through more than eight, leads nowhere.
 */
import type { Target } from '../model-request/target.ts';
import { chainedName, MAX_DEPTH, type VirtualModel, type VirtualTarget } from './virtual-model.ts';

/** A model of a provider, and how it was come to. */
export interface Candidate {
  readonly target: Target;
  /** The virtual models behind the one that was expanded, outermost first. */
  readonly through: readonly string[];
  /** Whether it can be asked now: it has room, and its provider is in order. */
  readonly ready: boolean;
}

/** One of the targets of a virtual model, with what it leads to: never empty, those that are ready first. */
export interface Branch {
  readonly target: VirtualTarget;
  readonly candidates: readonly Candidate[];
  /** The virtual model that it leads through. */
  readonly chained?: Expansion;
}

interface Expansion {
  readonly model: VirtualModel;
  readonly branches: readonly Branch[];
  readonly candidates: readonly Candidate[];
}

export interface Expanding {
  /** The virtual model of this name that leads somewhere. */
  redirect(source: string): VirtualModel | undefined;
  /** Who serves a model. */
  resolve(model: string, provider: string | undefined): Target | undefined;
  /** Whether the caller may use this virtual model, and this model; everybody may when it is not asked. */
  mayPass?(model: VirtualModel): boolean;
  mayUse?(target: Target): boolean;
  isReady?(target: Target): boolean;
  /**
   * In which order the targets of a virtual model are to be asked. As they are written, when it is left out.
   * @param isTurn whether the first of them is asked first of all, so that it has had its turn; if not, this only
   *   tells what is to be asked should everything before it fail
   */
  arrange?(model: VirtualModel, branches: readonly Branch[], isTurn: boolean): readonly Branch[];
}

export interface Expanded {
  /** Each once, in the order to ask them: those that are ready first. */
  readonly candidates: readonly Candidate[];
  /** Targets that nobody is known to serve. */
  readonly unknown: readonly VirtualTarget[];
  /** Whether something was left out because the caller may not use it. */
  readonly denied: boolean;
}

export function expand(model: VirtualModel, by: Expanding): Expanded {
  const walk = new Walk(by);
  const expansion = walk.from(model, 1);
  const candidates = by.arrange === undefined ? expansion.candidates : inTurn(expansion, by);
  return { candidates, unknown: walk.unknown, denied: walk.denied };
}

/** The turn goes down from the outermost: of those behind it only the chosen one has one too. */
function inTurn({ model, branches }: Expansion, by: Expanding): readonly Candidate[] {
  const arranged = branches.length > 1 ? (by.arrange?.(model, branches, true) ?? branches) : branches;
  const [first, ...others] = arranged;
  if (first === undefined) return [];
  const { chained } = first;
  const chosen = chained === undefined ? first.candidates : through(chained.model, inTurn(chained, by));
  return inOrder([chosen, ...others.map(({ candidates }) => candidates)]);
}

class Walk {
  readonly unknown: VirtualTarget[] = [];
  denied = false;
  readonly #by: Expanding;
  /** What was come to already: one that is still being worked out leads nowhere, so that no circle is gone round. */
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
    const arranged = branches.length > 1 ? (this.#by.arrange?.(model, branches, false) ?? branches) : branches;
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

  #served(written: VirtualTarget): Branch | undefined {
    const target = this.#by.resolve(written.model, written.provider);
    if (target === undefined) {
      this.unknown.push(written);
      return undefined;
    }
    if (this.#by.mayUse?.(target) === false) {
      this.denied = true;
      return undefined;
    }
    const ready = this.#by.isReady?.(target) ?? true;
    return { target: written, candidates: [{ target, through: [], ready }] };
  }
}

function through({ source }: VirtualModel, candidates: readonly Candidate[]): readonly Candidate[] {
  return candidates.map((one) => ({ ...one, through: [source, ...one.through] }));
}

/** Each model of a provider once, where it comes first; those that are ready before the others. */
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
