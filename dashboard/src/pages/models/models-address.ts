/** What the page shows, in its address. */
import { asOfQuery } from '../../app/as-of.ts';
import { hrefOf, type QueryValue, route, setQuery } from '../../app/router.ts';

export const tabs = [
  { name: 'models', title: 'Models' },
  { name: 'virtual', title: 'Virtual models' },
  { name: 'prices', title: 'Prices' },
  { name: 'providers', title: 'Providers' },
] as const;
export type TabName = (typeof tabs)[number]['name'];

export function shownTab(): TabName {
  return tabs.find(({ name }) => name === route.value.query.get('tab'))?.name ?? 'models';
}

export function parameter(name: string): string {
  return route.value.query.get(name) ?? '';
}

export function tabHref(tab: TabName, query: Readonly<Record<string, QueryValue>> = {}): string {
  return hrefOf('/models', { tab, ...query, ...asOfQuery() });
}

/** What a dialog edits: `edit` has its name, `add` a kind. */
export function openEditor(query: { readonly edit?: string; readonly add?: string }): void {
  setQuery({ edit: undefined, add: undefined, ...query }, { push: true });
}

export function closeEditor(): void {
  setQuery({ edit: undefined, add: undefined });
}
