/** The end of leases of which it is known that their gateways no longer run, without waiting until they expire. */
import { type EventLog, WrongExpectedRevision } from '../../events/log.ts';
import { endOf, leaseStream, notEnded } from './lease.ts';

/**
 * Ends the lease of a gateway whose process has ended. Its open exchanges go to the first of `others` whose lease lasts,
 * or else to the next gateway that is granted a lease. Does nothing when the lease has ended.
 * @throws LogUnavailable
 */
export async function endLeaseOf(
  gateway: string,
  others: Iterable<string>,
  log: Pick<EventLog, 'append'>,
): Promise<void> {
  for (const heir of [...others, undefined]) {
    const ended = endOf(gateway, 'exited', heir);
    try {
      await log.append(heir === undefined ? [ended] : [ended, notEnded(heir)]);
      return;
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
      if (error.stream === leaseStream(gateway)) return;
    }
  }
}

/** Ends the leases of earlier runs, when no gateway runs: the next one that is granted a lease has their open exchanges. */
export async function endAllLeases(gateways: Iterable<string>, log: Pick<EventLog, 'append'>): Promise<void> {
  const ends = [...gateways].map((gateway) => endOf(gateway, 'replaced'));
  if (ends.length > 0) await log.append(ends);
}
