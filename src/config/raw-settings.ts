/** The settings of every source, before validation. */
export type Source = 'flag' | 'environment' | '.env' | 'file' | 'default';

/** The origin of a value: `variable` is the environment variable, the flag, or absent for the file. */
export interface Origin {
  readonly source: Source;
  readonly variable?: string;
}

/** A nested mapping with the origin of its values. */
export class RawSettings {
  readonly tree: Record<string, unknown>;
  readonly #origins = new Map<string, Origin>();

  constructor(tree: Record<string, unknown>) {
    this.tree = tree;
  }

  /** Overrides the value at `path`; does nothing when a parent is no mapping (which is an error). */
  set(path: readonly string[], value: unknown, origin: Origin): void {
    const parent = this.#parent(path);
    const key = path.at(-1);
    if (parent === undefined || key === undefined) return;
    parent[key] = value;
    this.#origins.set(path.join('.'), origin);
  }

  delete(path: readonly string[]): void {
    const parent = this.#parent(path);
    const key = path.at(-1);
    if (parent !== undefined && key !== undefined) delete parent[key];
  }

  get(path: readonly string[]): unknown {
    let node: unknown = this.tree;
    for (const key of path) node = isMapping(node) || Array.isArray(node) ? Reflect.get(node, key) : undefined;
    return node;
  }

  /** The origin of the value at `path`, or of the nearest value around it. */
  origin(path: readonly string[]): Origin {
    for (let length = path.length; length > 0; length--) {
      const origin = this.#origins.get(path.slice(0, length).join('.'));
      if (origin !== undefined) return origin;
    }
    return this.get(path.slice(0, 1)) === undefined ? { source: 'default' } : { source: 'file' };
  }

  #parent(path: readonly string[]): Record<string, unknown> | undefined {
    let node: unknown = this.tree;
    for (const key of path.slice(0, -1)) {
      if (!isMapping(node)) return undefined;
      node[key] ??= {};
      node = node[key];
    }
    return isMapping(node) ? node : undefined;
  }
}

export function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A copy without nulls and empty text: both mean "not set", except where an empty value has its own meaning. */
export function withoutEmpty(node: unknown, keepsEmpty: (path: readonly string[]) => boolean): unknown {
  const visit = (value: unknown, path: readonly string[]): unknown => {
    if (Array.isArray(value)) return value.filter((entry) => entry !== null && entry !== '');
    if (!isMapping(value)) return value;
    const kept = Object.entries(value)
      .map(([key, entry]) => [key, visit(entry, [...path, key])] as const)
      .filter(([key, entry]) => entry !== null && (entry !== '' || keepsEmpty([...path, key])));
    return Object.fromEntries(kept);
  };
  return visit(node, []);
}
