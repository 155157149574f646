/** Work that a provider continues after its answer, as recorded in the log. A projection implements it. */
import type { Actor, UserPath } from '../../events/event.ts';
import type { WorkPart } from '../model-request/usage.ts';

export interface OpenWork {
  /** Id of the exchange that started it. */
  readonly exchangeId: string;
  readonly kind: 'response' | 'batch';
  /** The provider's id of the work. */
  readonly workId: string;
  readonly provider: string;
  readonly providerType: string;
  /** Empty for a batch. */
  readonly model: string;
  readonly endpoint: string;
  readonly labels?: readonly string[] | undefined;
  readonly sessionId?: string | undefined;
  /** The estimate for each model; undefined for a batch whose input was not read. */
  readonly parts?: readonly WorkPart[] | undefined;
  /** Nano-dollars; undefined when no budget counted it. */
  readonly reserved?: number | undefined;
  readonly actor: Actor;
  readonly userPath?: UserPath | undefined;
  readonly requestId?: string | undefined;
  /** Milliseconds since the epoch. */
  readonly since: number;
}

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
