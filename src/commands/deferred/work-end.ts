/** How a provider reports the end of work that it continued after its answer. */
import type { WorkOutcome } from './open-work.ts';

/** End statuses of several providers. Any other status means that the work continues. */
const ENDS: Readonly<Record<string, WorkOutcome>> = {
  completed: 'completed',
  succeeded: 'completed',
  ended: 'completed',
  incomplete: 'incomplete',
  failed: 'failed',
  cancelled: 'cancelled',
  canceled: 'cancelled',
  expired: 'expired',
};

/** The outcome of the work; undefined while it continues. Anthropic names the status of a batch `processing_status`. */
export function outcomeIn({ status, processing_status }: Readonly<Record<string, unknown>>): WorkOutcome | undefined {
  const state = status ?? processing_status;
  return typeof state === 'string' && Object.hasOwn(ENDS, state) ? ENDS[state] : undefined;
}
