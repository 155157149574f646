/** What a provider says of work that it went on with, once that is over. */
import type { WorkOutcome } from './open-work.ts';

/** In the words of several providers. Any other status is one of work that goes on. */
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

/** How it ended; undefined while it goes on. Anthropic calls the status of a batch `processing_status`. */
export function outcomeIn({ status, processing_status }: Readonly<Record<string, unknown>>): WorkOutcome | undefined {
  const said = status ?? processing_status;
  return typeof said === 'string' && Object.hasOwn(ENDS, said) ? ENDS[said] : undefined;
}
