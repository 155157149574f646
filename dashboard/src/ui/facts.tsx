/** Single values in the format of the page. */
import { formatCount, formatMoney } from '../format/numbers.ts';
import { formatExact, formatTime } from '../format/times.ts';
import { timeZone } from '../settings/time-zone.ts';

/** A time; the title has it in UTC. */
export function Time({ at }: { readonly at: string | number }) {
  const exact = formatExact(at);
  return (
    <time dateTime={exact} title={`${exact} (shown in ${timeZone.value})`}>
      {formatTime(at)}
    </time>
  );
}

/** @param dollars null is unknown, and not shown as 0 */
export function Money({ dollars }: { readonly dollars: number | null | undefined }) {
  if (dollars === null || dollars === undefined) return <span title="The cost is unknown.">unknown</span>;
  return <span title={`${dollars} US dollars`}>{formatMoney(dollars)}</span>;
}

export function Count({ count }: { readonly count: number | null | undefined }) {
  if (count === null || count === undefined) return <span title="Not reported.">–</span>;
  return <span>{formatCount(count)}</span>;
}
