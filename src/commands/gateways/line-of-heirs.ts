/**
 * Which gateway ends an expired lease first. Without a line, every gateway would try at the same time, and all but one in
 * vain. The order of the log alone decides who has succeeded; the line only saves appends.
 */
import { parsePosition } from '../../events/sequence-position.ts';
import type { KnownLease } from './known-leases.ts';

/** The last place: all gateways behind it try at the same time. */
const LAST_PLACE = 4;

/**
 * The place of a gateway in the line for a lease, from 0 on. Each lease has its own first heir, so many leases that expire
 * together are divided among all gateways.
 * @param alive the gateways that may end it, in the order in which all of them know each other
 */
export function placeInLine(expired: Pick<KnownLease, 'grantedAt'>, own: string, alive: readonly string[]): number {
  const place = alive.indexOf(own);
  if (place === -1) return LAST_PLACE;
  const first = parsePosition(expired.grantedAt) % alive.length;
  return Math.min((place - first + alive.length) % alive.length, LAST_PLACE);
}
