/** The allowed methods of an address, for requests with another method (RFC 9110 §15.5.6). */

interface RoutePattern {
  readonly matches: RegExp;
  readonly methods: Set<string>;
  isPublic: boolean;
}

export interface MethodsAt {
  readonly methods: readonly string[];
  /** Whether every route of the address needs no key. */
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

  /** In alphabetical order; undefined when no route has the address. Tests every pattern: for refused requests only. */
  at(path: string): MethodsAt | undefined {
    const found = [...this.#patterns.values()].filter(({ matches }) => matches.test(path));
    if (found.length === 0) return undefined;
    const methods = [...new Set(found.flatMap((one) => [...one.methods]))].sort();
    return { methods, isPublic: found.every(({ isPublic }) => isPublic) };
  }
}

/** As Fastify matches `/v1/responses/:id` and `/v1/models/*`. */
function patternOf(url: string): RegExp {
  const escaped = url.replace(/[.+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replace(/:\w+/g, '[^/]+').replaceAll('*', '.*')}$`);
}
