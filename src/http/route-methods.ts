/** Which methods an address has, for requests whose method it does not have (RFC 9110 §15.5.6). */

interface RoutePattern {
  readonly matches: RegExp;
  readonly methods: Set<string>;
  isPublic: boolean;
}

export interface MethodsAt {
  readonly methods: readonly string[];
  /** Whether every route of the address is without a key. */
  readonly isPublic: boolean;
}

export class RouteMethods {
  readonly #patterns = new Map<string, RoutePattern>();

  add(url: string, methods: string | readonly string[], isPublic: boolean): void {
    const known = this.#patterns.get(url);
    const pattern = known ?? { matches: patternOf(url), methods: new Set<string>(), isPublic: true };
    for (const method of [methods].flat()) pattern.methods.add(method);
    pattern.isPublic &&= isPublic;
    this.#patterns.set(url, pattern);
  }

  /** In alphabetical order; undefined when no route has the address. Reads every pattern: for refused requests only. */
  at(path: string): MethodsAt | undefined {
    const found = [...this.#patterns.values()].filter(({ matches }) => matches.test(path));
    if (found.length === 0) return undefined;
    const methods = [...new Set(found.flatMap((one) => [...one.methods]))].sort();
    return { methods, isPublic: found.every(({ isPublic }) => isPublic) };
  }
}

/** `/v1/responses/:id` and `/v1/models/*`, as Fastify matches them. */
function patternOf(url: string): RegExp {
  const escaped = url.replace(/[.+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replace(/:\w+/g, '[^/]+').replaceAll('*', '.*')}$`);
}
