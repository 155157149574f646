/** Requests that begin no exchange and rate limits: those refused are counted like refused exchanges. */
import type { Admission } from '../commands/exchange/admission.ts';
import type { Caller } from '../commands/exchange/client.ts';
import type { RefusedRequests } from '../commands/exchange/refused-requests.ts';
import { Refusal } from '../commands/refusal.ts';
import type { Metrics } from '../http/metrics.ts';

export interface RequestAdmissionParts {
  readonly admission: Pick<Admission, 'admitRequest'>;
  readonly refused: Pick<RefusedRequests, 'count'>;
  readonly metrics: Pick<Metrics, 'observeExchange'>;
}

/** @returns what counts such a request in the rate limits; it throws a Refusal (429) */
export function requestAdmission({ admission, refused, metrics }: RequestAdmissionParts) {
  return (caller: Caller, endpoint: string): void => {
    try {
      admission.admitRequest(caller);
    } catch (error) {
      if (error instanceof Refusal) {
        refused.count({ caller, endpoint, durationMs: 0 }, error);
        const noAttempt = { provider: undefined, model: undefined, firstByteMs: undefined, usage: undefined };
        metrics.observeExchange({ ...noAttempt, endpoint, status: error.status, stream: false, durationMs: 0 });
      }
      throw error;
    }
  };
}
