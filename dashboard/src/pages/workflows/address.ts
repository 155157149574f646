/** What the page shows, in its address. */
import { asOfQuery } from '../../app/as-of.ts';
import { hrefOf, type QueryValue, route } from '../../app/router.ts';

export const tabs = [
  { name: 'workflows', title: 'Workflows' },
  { name: 'guardrails', title: 'Guardrails' },
  { name: 'test', title: 'Test' },
  { name: 'replay', title: 'Draft replay' },
] as const;
export type TabName = (typeof tabs)[number]['name'];

export function shownTab({ query } = route.value): TabName {
  return tabs.find(({ name }) => name === query.get('tab'))?.name ?? 'workflows';
}

/** A view of the page at the shown time. */
export function pageHref(tab: TabName, more: Readonly<Record<string, QueryValue>> = {}): string {
  return hrefOf('/workflows', { tab: tab === 'workflows' ? undefined : tab, ...more, ...asOfQuery() });
}

export function parameter(name: string, { query } = route.value): string | undefined {
  return query.get(name) || undefined;
}
