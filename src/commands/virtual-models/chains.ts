/** Chains of virtual models that lead to other virtual models. Pure. */
import { chainedName, MAX_DEPTH, type VirtualModel } from './virtual-model.ts';

export type ChainProblem =
  /** The names in the cycle, with the first one repeated at the end. */
  | { readonly kind: 'cycle'; readonly path: readonly string[] }
  /** The number of virtual models in the chain. */
  | { readonly kind: 'too deep'; readonly depth: number };

type Models = ReadonlyMap<string, VirtualModel>;

/** The names of the virtual models that lead to this one. */
export function usersOf(source: string, models: Models): string[] {
  return [...models.values()].filter((one) => nextOf(one, models).includes(source)).map((one) => one.source);
}

/** The problem of the chains that contain this virtual model; problems of other chains are not checked. */
export function problemAround(source: string, models: Models): ChainProblem | undefined {
  const cycle = pathBack(source, models);
  if (cycle !== undefined) return { kind: 'cycle', path: cycle };
  const ahead = longest(source, (name) => successors(name, models), new Map());
  const users = Map.groupBy(
    [...models.values()].flatMap((one) => nextOf(one, models).map((next) => ({ next, from: one.source }))),
    ({ next }) => next,
  );
  const behind = longest(source, (name) => users.get(name)?.map(({ from }) => from) ?? [], new Map());
  const depth = ahead + behind - 1;
  return depth > MAX_DEPTH ? { kind: 'too deep', depth } : undefined;
}

function successors(name: string, models: Models): readonly string[] {
  const model = models.get(name);
  return model === undefined ? [] : nextOf(model, models);
}

/** The virtual models that it leads to, including disabled ones, which may be enabled again. */
function nextOf(model: VirtualModel, models: Models): string[] {
  return model.targets.flatMap((target) => {
    const name = chainedName(model, target);
    return name !== undefined && (models.get(name)?.targets.length ?? 0) > 0 ? [name] : [];
  });
}

/** The shortest cycle from a name back to itself. */
function pathBack(source: string, models: Models): string[] | undefined {
  const cameFrom = new Map<string, string>();
  const waiting = [source];
  for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
    for (const next of successors(name, models)) {
      if (cameFrom.has(next)) continue;
      cameFrom.set(next, name);
      if (next === source) return around(source, cameFrom);
      waiting.push(next);
    }
  }
  return undefined;
}

function around(source: string, cameFrom: ReadonlyMap<string, string>): string[] {
  const path = [source];
  for (let name = cameFrom.get(source); name !== undefined && name !== source; name = cameFrom.get(name)) {
    path.unshift(name);
  }
  return [source, ...path];
}

/**
 * Number of names on the longest path from here, including this one. A cycle elsewhere counts each of its names once.
 */
function longest(name: string, next: (name: string) => readonly string[], known: Map<string, number>): number {
  const before = known.get(name);
  if (before !== undefined) return before;
  known.set(name, 0);
  const length = 1 + Math.max(0, ...next(name).map((one) => longest(one, next, known)));
  known.set(name, length);
  return length;
}
