/** How virtual models lead through one another. Pure. */
import { chainedName, MAX_DEPTH, type VirtualModel } from './virtual-model.ts';

export type ChainProblem =
  /** The names around it, the first again at the end. */
  | { readonly kind: 'cycle'; readonly path: readonly string[] }
  /** So many virtual models one behind another. */
  | { readonly kind: 'too deep'; readonly depth: number };

type Models = ReadonlyMap<string, VirtualModel>;

/** The names of those that lead to this one. */
export function usersOf(source: string, models: Models): string[] {
  return [...models.values()].filter((one) => nextOf(one, models).includes(source)).map((one) => one.source);
}

/** What is wrong with the chains that go through this one; what may be wrong with others is not looked at. */
export function problemAround(source: string, models: Models): ChainProblem | undefined {
  const cycle = wayBack(source, models);
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

/** The virtual models that it leads to, also those that are switched off: they may be switched on again. */
function nextOf(model: VirtualModel, models: Models): string[] {
  return model.targets.flatMap((target) => {
    const name = chainedName(model, target);
    return name !== undefined && (models.get(name)?.targets.length ?? 0) > 0 ? [name] : [];
  });
}

/** The shortest way from a name back to it. */
function wayBack(source: string, models: Models): string[] | undefined {
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

/** How many names the longest way from here has, this one counted. A cycle elsewhere counts as its names, once each. */
function longest(name: string, next: (name: string) => readonly string[], known: Map<string, number>): number {
  const before = known.get(name);
  if (before !== undefined) return before;
  known.set(name, 0);
  const length = 1 + Math.max(0, ...next(name).map((one) => longest(one, next, known)));
  known.set(name, length);
  return length;
}
