/** The filter and the time range of an address. */
import { type QueryValue, route, setQuery } from '../../app/router.ts';
import { currentRange } from '../../ui/range.ts';
import { type AuditFilter, filterIn, queryOfFilter } from './filter.ts';

/** The query of a request to the gateway. An id finds requests at any time, unless the address has a range. */
export function requestQuery(filter: AuditFilter, address: URLSearchParams): Readonly<Record<string, QueryValue>> {
  const { from, to } = currentRange();
  return { ...queryOfFilter(filter), ...(isOfAnyTime(filter, address) ? {} : { from, to }) };
}

export function isOfAnyTime(filter: AuditFilter, address: URLSearchParams): boolean {
  return filter.id !== undefined && !address.has('from') && !address.has('range');
}

/** An id is searched at any time: a range that was chosen before does not hide its requests. */
export function changeFilter(filter: AuditFilter): void {
  const [before] = filterIn(route.value.query).id ?? [];
  const isOtherId = filter.id !== undefined && filter.id[0] !== before;
  const range = isOtherId ? { range: undefined, from: undefined, to: undefined } : {};
  setQuery({ ...queryOfFilter(filter), ...range }, { push: true });
}
