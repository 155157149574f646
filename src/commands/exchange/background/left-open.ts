/** Why an exchange was left open, and how it then ends. */
import { type StreamName, streamName } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import { newestEvent } from '../../../events/newest-event.ts';
import { responseCancelled } from '../../model-request/stream-refusals.ts';
import { Refusal } from '../../refusal.ts';

export const endedAs = {
  gateway_stopped: new Refusal({
    status: 503,
    type: 'internal_error',
    code: 'gateway_stopped',
    message: 'The gateway stopped unexpectedly during this exchange.',
  }),
  log_unavailable: new Refusal({
    status: 503,
    type: 'internal_error',
    code: 'log_unavailable',
    message: 'The event log became unavailable during this exchange.',
  }),
  cancelled: responseCancelled(),
};

export type EndedAs = keyof typeof endedAs;

/** Why the exchanges were left open. */
export type LeftOpen = Exclude<EndedAs, 'cancelled'>;

/** What the client of such an exchange got, as far as the record does not tell. */
export interface LeftClient {
  /**
   * An error instead of any answer. The exchange then fails, also with a whole answer on record; no response is stored, and
   * a background response ends as failed.
   */
  readonly wasRefused: boolean;
}

/** The requests to cancel a background response that another gateway generates. */
export function cancellationStream(responseId: string): StreamName {
  return streamName('cancellation', responseId);
}

/** Whether a client has cancelled the response through another gateway than the one that generated it. */
export async function wasCancelled(responseId: string, log: Pick<EventLog, 'readStream'>): Promise<boolean> {
  return (await newestEvent(cancellationStream(responseId), log)) !== undefined;
}
