/** Claims the idempotency key of a request in the log. */
import { whenNewerEvent } from '../../../events/newest-event.ts';
import type { RecordedAnswer } from '../answer-source.ts';
import { type KeyClaim, lookUpKey, noAnswer } from '../record/idempotency-key.ts';
import { keyedRequestOf } from './claim-key.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import type { RunningExchange } from './running-exchange.ts';

/** What a request holds while it claims its key. */
export interface HeldByClaim {
  /** Called before each attempt to claim. @throws Refusal */
  hold(): void | Promise<void>;
  /** Called when another request has claimed the key. */
  release(): void;
}

const nothing: HeldByClaim = { hold: () => {}, release: () => {} };

/**
 * Appends the claim with everything that is noted, durably.
 * @returns the answer of the request that claimed the key first; undefined when this one did
 * @throws Refusal, LogUnavailable
 */
export async function makeClaim(
  exchange: RunningExchange,
  first: KeyClaim,
  deps: ExchangeDependencies,
  { hold, release }: HeldByClaim = nothing,
): Promise<RecordedAnswer | undefined> {
  let claim = first;
  for (;;) {
    await hold();
    const { stream, event, expectedRevision } = claim;
    if (await exchange.record.flushIf({ stream, events: [event], expectedRevision })) {
      // A later request with the key gets the answer, also when this client does not wait for it.
      const detached = deps.detached.detach(exchange.client);
      exchange.client = detached;
      exchange.scope.atEnd(() => detached.over());
      return undefined;
    }
    release();
    // The other claim can be read once it is on disk.
    const from = expectedRevision === 'noStream' ? undefined : expectedRevision;
    await whenNewerEvent(stream, from, deps.log, exchange.client.ended);
    if (exchange.client.ended.aborted) return noAnswer;
    const found = await lookUpKey(keyedRequestOf(exchange), deps);
    if ('source' in found) return found;
    claim = found;
  }
}
