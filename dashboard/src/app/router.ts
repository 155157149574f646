/**
 * The address of the shown page, as a signal. Filters are in the query, so that every view has a permalink. A page reads
 * `route.value.query` and changes it with `setQuery`.
 */
import { signal } from '@preact/signals';
import { addressOf, pathOf } from './base-path.ts';

export interface Route {
  /** Path of the page: `/`, `/audit`, `/exchange/<id>`. */
  readonly path: string;
  readonly query: URLSearchParams;
}

export type QueryValue = string | number | boolean | readonly string[] | undefined;

function currentRoute(): Route {
  return { path: pathOf(location.pathname), query: new URLSearchParams(location.search) };
}

export const route = signal<Route>(currentRoute());

addEventListener('popstate', () => {
  route.value = currentRoute();
});

/** A link within the dashboard. A list becomes a repeated parameter; undefined and '' are left out. */
export function hrefOf(path: string, query: Readonly<Record<string, QueryValue>> = {}): string {
  const parameters = queryOf(query).toString();
  return addressOf(path) + (parameters === '' ? '' : `?${parameters}`);
}

export function queryOf(values: Readonly<Record<string, QueryValue>>): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== '') query.append(name, String(one));
    }
  }
  return query;
}

export function navigate(href: string, { replace = false }: { readonly replace?: boolean } = {}): void {
  if (replace) history.replaceState(null, '', href);
  else history.pushState(null, '', href);
  route.value = currentRoute();
}

/**
 * Changes parameters of the current page and keeps the others; undefined removes one. Replaces the entry of the
 * browser's history unless `push` is set.
 */
export function setQuery(
  changes: Readonly<Record<string, QueryValue>>,
  { push = false }: { readonly push?: boolean } = {},
): void {
  const query = new URLSearchParams(route.value.query);
  for (const name of Object.keys(changes)) query.delete(name);
  for (const [name, value] of queryOf(changes)) query.append(name, value);
  const text = query.toString();
  navigate(addressOf(route.value.path) + (text === '' ? '' : `?${text}`), { replace: !push });
}

/** Follows clicks on links of the dashboard without loading the document again. Clicks with a modifier are left alone. */
export function followLinks(root: HTMLElement): () => void {
  const onClick = (event: MouseEvent): void => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    // Links in charts are SVG elements, which have no text in `href` and `target`.
    if (link === null || link.getAttribute('target') || link.hasAttribute('download')) return;
    const url = new URL(link.getAttribute('href') ?? '', location.href);
    if (url.origin !== location.origin || !isOfDashboard(url.pathname) || isWithinPage(url)) return;
    event.preventDefault();
    navigate(url.pathname + url.search + url.hash);
  };
  root.addEventListener('click', onClick);
  return () => root.removeEventListener('click', onClick);
}

/** The browser itself goes to a place in the shown document. */
function isWithinPage(url: URL): boolean {
  return url.hash !== '' && url.pathname === location.pathname && url.search === location.search;
}

function isOfDashboard(pathname: string): boolean {
  const home = addressOf('/');
  return pathname === home || pathname.startsWith(`${home}/`);
}
