/** What the page shows, in its address. */
import { hrefOf, type QueryValue, route } from '../../app/router.ts';
import type { TimeRange } from '../../ui/range.ts';
import type { Measure } from './usage-rows.ts';

export const groupings = [
  { name: 'day', title: 'Day' },
  { name: 'week', title: 'Week' },
  { name: 'model', title: 'Model' },
  { name: 'provider', title: 'Provider' },
  { name: 'path', title: 'User path' },
  { name: 'label', title: 'Label' },
  { name: 'key', title: 'Key' },
  { name: 'session', title: 'Session' },
] as const;
export type Grouping = (typeof groupings)[number]['name'];

/** Parameters of the usage reports that restrict the page. */
export const filterNames = ['user_path', 'auth_key_id', 'provider', 'model', 'label', 'session_id'] as const;
export type UsageFilter = Readonly<Partial<Record<(typeof filterNames)[number], string>>>;

export interface UsageAddress {
  readonly by: Grouping;
  readonly measure: Measure;
  readonly filter: UsageFilter;
  readonly offset: number;
}

export function usageAddress({ query } = route.value): UsageAddress {
  const filter: Record<string, string> = {};
  for (const name of filterNames) {
    const value = query.get(name);
    if (value) filter[name] = value;
  }
  const offset = Number(query.get('offset') ?? 0);
  return {
    by: groupings.find(({ name }) => name === query.get('by'))?.name ?? 'day',
    measure: query.get('measure') === 'tokens' ? 'tokens' : 'cost',
    filter,
    offset: Number.isSafeInteger(offset) && offset > 0 ? offset : 0,
  };
}

/** The page with another content, for the same range. */
export function usageHref(
  range: TimeRange,
  { by, measure, filter }: Pick<UsageAddress, 'by' | 'measure' | 'filter'>,
  more: Readonly<Record<string, QueryValue>> = {},
): string {
  const times = range.name === 'custom' ? { from: range.from, to: range.to } : { range: range.name };
  return hrefOf('/usage', { ...times, by, measure, ...filter, ...more });
}

/** The filter of the audit log that finds the same requests. */
export function auditFilter(filter: UsageFilter): Readonly<Record<string, QueryValue>> {
  const { provider, model, ...same } = filter;
  return { ...same, provider_name: provider, provider_model: model };
}
