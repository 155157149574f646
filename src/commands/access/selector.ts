/**
 * Selectors of models, used in lists of allowed models and in policies. An administrator may write `*`, `/`,
 * `<provider>/*`, `<provider>/`, `<provider>/<model>` or `<model>`. The stored form is canonical: `/` is everything,
 * `<provider>/` is all of a provider, a text with a slash is one model of one provider, and a text without a slash is
 * a model of any provider. `<provider>` is the name of an instance; case is significant.
 */
import { type Refusal, refusals } from '../refusal.ts';

export type Selector =
  | { readonly kind: 'everything' }
  | { readonly kind: 'provider'; readonly provider: string }
  | { readonly kind: 'exact'; readonly provider: string; readonly model: string }
  | { readonly kind: 'model'; readonly model: string };

const MAX_LENGTH = 512;
const MAX_ENTRIES = 1000;

/** @param canonical a canonical selector */
export function parseSelector(canonical: string): Selector {
  if (canonical === '/') return { kind: 'everything' };
  const slash = canonical.indexOf('/');
  if (slash === -1) return { kind: 'model', model: canonical };
  const provider = canonical.slice(0, slash);
  if (slash === canonical.length - 1) return { kind: 'provider', provider };
  return { kind: 'exact', provider, model: canonical.slice(slash + 1) };
}

/**
 * @param isProvider whether an instance with that name exists
 * @param param the field that holds the selector, for the refusal
 */
export function canonicalSelector(
  selector: string,
  isProvider: (name: string) => boolean,
  param: string,
): string | Refusal {
  const text = selector.trim();
  if (text === '*' || text === '/') return '/';
  if (text === '' || text.length > MAX_LENGTH) {
    return notOne(selector, `it must have from 1 to ${MAX_LENGTH} characters`, param);
  }
  if (/[^\x21-\x7e]/.test(text)) return notOne(text, 'it has spaces or control characters', param);
  const canonical = text.endsWith('/*') ? text.slice(0, -1) : text;
  if (canonical.includes('*')) return notOne(text, "'*' stands alone, or behind '<provider>/'", param);
  const slash = canonical.indexOf('/');
  if (slash === -1) return canonical;
  const provider = canonical.slice(0, slash);
  if (provider === '' || canonical[slash + 1] === '/') return notOne(text, 'it has an empty segment', param);
  if (!isProvider(provider)) {
    const message = `The selector '${text}' names the unknown provider '${provider}'.`;
    return refusals.invalidRequest(message, param, 'unknown_provider');
  }
  return canonical;
}

/** The canonical form of a list: each selector once, in the given order. */
export function canonicalSelectors(
  selectors: readonly string[],
  isProvider: (name: string) => boolean,
  param: string,
): readonly string[] | Refusal {
  if (selectors.length > MAX_ENTRIES) {
    return refusals.invalidRequest(`'${param}' may have at most ${MAX_ENTRIES} entries.`, param);
  }
  const canonical = new Set<string>();
  for (const one of selectors) {
    const selector = canonicalSelector(one, isProvider, param);
    if (typeof selector !== 'string') return selector;
    canonical.add(selector);
  }
  return [...canonical];
}

function notOne(selector: string, why: string, param: string): Refusal {
  return refusals.invalidRequest(
    `'${selector.slice(0, 80)}' is not a selector of models: ${why}.`,
    param,
    'invalid_selector',
  );
}

/** A list of canonical selectors, prepared for many lookups. An empty list restricts nothing. */
export class SelectorList {
  readonly selectors: readonly string[];
  readonly #everything: boolean;
  readonly #providers = new Set<string>();
  readonly #models = new Set<string>();
  readonly #exact = new Set<string>();
  /** The providers of the selectors that name one model. */
  readonly #named = new Set<string>();

  constructor(selectors: readonly string[]) {
    this.selectors = selectors;
    this.#everything = selectors.length === 0 || selectors.includes('/');
    for (const canonical of selectors) {
      const selector = parseSelector(canonical);
      if (selector.kind === 'provider') this.#providers.add(selector.provider);
      else if (selector.kind === 'model') this.#models.add(selector.model);
      else if (selector.kind === 'exact') {
        this.#exact.add(canonical);
        this.#named.add(selector.provider);
      }
    }
  }

  has(provider: string, model: string): boolean {
    if (this.#everything || this.#providers.has(provider) || this.#models.has(model)) return true;
    return this.#exact.size > 0 && this.#exact.has(`${provider}/${model}`);
  }

  /** `all`: every model of the provider is in the list; `any`: a model that it serves, or might serve, is. */
  hasOf(provider: string, extent: 'all' | 'any'): boolean {
    if (this.#everything || this.#providers.has(provider)) return true;
    return extent === 'any' && (this.#named.has(provider) || this.#models.size > 0);
  }
}

/**
 * Whether the list allows everything that the selectors allow. An empty list, like `/`, allows everything.
 * @param selectors canonical, like the list
 */
export function covers(list: readonly string[], selectors: readonly string[]): boolean {
  if (list.length === 0 || list.includes('/')) return true;
  if (selectors.length === 0) return false;
  return selectors.every((selector) => {
    if (list.includes(selector)) return true;
    const parsed = parseSelector(selector);
    return parsed.kind === 'exact' && (list.includes(`${parsed.provider}/`) || list.includes(parsed.model));
  });
}

/** A list is never changed in place, so its prepared form can be cached by identity. */
const lists = new WeakMap<readonly string[], SelectorList>();

export function selectorList(selectors: readonly string[]): SelectorList {
  let list = lists.get(selectors);
  if (list === undefined) {
    list = new SelectorList(selectors);
    lists.set(selectors, list);
  }
  return list;
}
