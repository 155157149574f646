/** Work that a provider continues after its answer, as recorded in the log. A projection implements it. */
import type { OpenWork } from '../../projections/deferred-usage.ts';

export interface OpenWorks {
  /** Undefined when the work is unknown here or over. */
  find(kind: OpenWork['kind'], provider: string, workId: string): OpenWork | undefined;
}

const outcomes = ['completed', 'incomplete', 'failed', 'cancelled', 'expired', 'deleted', 'lost'] as const;
export type WorkOutcome = (typeof outcomes)[number];

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
