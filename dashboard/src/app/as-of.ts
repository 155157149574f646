/** The past time at which administration is shown: `as_of` of the address. Undefined for the present. */
import { computed } from '@preact/signals';
import { route, setQuery } from './router.ts';

/** A time with its zone, a date, or a position of the log, as the API accepts it. */
export const asOf = computed<string | undefined>(() => route.value.query.get('as_of') || undefined);

/** Whether a past state is shown, which cannot be changed. */
export const isPast = computed(() => asOf.value !== undefined);

/** For queries of lists that can be read as of a time. */
export function asOfQuery(): { readonly as_of?: string } {
  return asOf.value === undefined ? {} : { as_of: asOf.value };
}

export function showAsOf(moment: string | undefined): void {
  setQuery({ as_of: moment }, { push: true });
}
