/** The ends of leases whose open exchanges may have become those of this gateway; the fold `in-flight` has which did. */
import type { z } from 'zod';
import { leaseEnded } from '../../events/catalogue/lease.ts';
import type { Position, RecordedEvent } from '../../events/event.ts';

/** Their positions, kept until there is code that takes the exchanges. */
export class Inheritance {
  gateway: string | undefined;
  #latest: Position | undefined;
  #take: ((position: Position) => void) | undefined;

  passTo(take: (position: Position) => void): void {
    this.#take = take;
    if (this.#latest !== undefined) take(this.#latest);
  }

  read(event: RecordedEvent): void {
    if (event.type !== leaseEnded.type) return;
    const { heir } = event.data as z.infer<typeof leaseEnded.data>;
    if (heir !== undefined && heir !== this.gateway) return;
    this.#latest = event.position;
    this.#take?.(event.position);
  }
}
