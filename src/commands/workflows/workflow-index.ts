/**
 * Finds the one workflow of a request. The path of the caller is tried first, then each path above it; for each path
 * the workflow of provider and model, of the provider, of the path alone. Then those without a path in the same
 * order, and the global one last. A caller without a path is at `/`.
 */
import type { WorkflowScope } from './scope.ts';

interface OfProvider<Entry> {
  any?: Entry;
  readonly models: Map<string, Entry>;
}

/** The workflows of one path, or those without a path. */
interface Level<Entry> {
  /** Of the path alone; without a path, the global one. */
  any?: Entry;
  readonly providers: Map<string, OfProvider<Entry>>;
}

export class WorkflowIndex<Entry> {
  readonly #anywhere = emptyLevel<Entry>();
  readonly #paths = new Map<string, Level<Entry>>();
  /** Segments of the longest path that has a workflow: longer paths need not be tried. */
  #mostSegments = 0;

  /** One entry for each scope. */
  constructor(entries: Iterable<readonly [WorkflowScope, Entry]>) {
    for (const [scope, entry] of entries) this.#add(scope, entry);
  }

  /** @param provider undefined for a request without a target, which only workflows of paths and the global one match */
  find(userPath: string | undefined, provider: string | undefined, model: string | undefined): Entry | undefined {
    if (this.#paths.size > 0) {
      let path = beginningOf(userPath ?? '/', this.#mostSegments);
      for (;;) {
        const level = this.#paths.get(path);
        const found = level === undefined ? undefined : foundIn(level, provider, model);
        if (found !== undefined) return found;
        if (path === '/') break;
        const slash = path.lastIndexOf('/');
        path = slash <= 0 ? '/' : path.slice(0, slash);
      }
    }
    return foundIn(this.#anywhere, provider, model);
  }

  #add({ provider, model, userPath }: WorkflowScope, entry: Entry): void {
    if (userPath !== undefined) this.#mostSegments = Math.max(this.#mostSegments, userPath.split('/').length - 1);
    const level = userPath === undefined ? this.#anywhere : got(this.#paths, userPath, emptyLevel<Entry>);
    if (provider === undefined) {
      level.any = entry;
      return;
    }
    const ofProvider = got<string, OfProvider<Entry>>(level.providers, provider, () => ({ models: new Map() }));
    if (model === undefined) ofProvider.any = entry;
    else ofProvider.models.set(model, entry);
  }
}

/** The path, or the path above it that has so many segments. */
function beginningOf(path: string, segments: number): string {
  let slash = 0;
  for (let left = segments; left > 0; left--) {
    slash = path.indexOf('/', slash + 1);
    if (slash === -1) return path;
  }
  return slash === 0 ? '/' : path.slice(0, slash);
}

function emptyLevel<Entry>(): Level<Entry> {
  return { providers: new Map() };
}

function foundIn<Entry>(
  { any, providers }: Level<Entry>,
  provider: string | undefined,
  model: string | undefined,
): Entry | undefined {
  const ofProvider = provider === undefined || providers.size === 0 ? undefined : providers.get(provider);
  if (ofProvider === undefined) return any;
  return (model === undefined ? undefined : ofProvider.models.get(model)) ?? ofProvider.any ?? any;
}

function got<Key, Value>(map: Map<Key, Value>, key: Key, create: () => Value): Value {
  let value = map.get(key);
  if (value === undefined) {
    value = create();
    map.set(key, value);
  }
  return value;
}
