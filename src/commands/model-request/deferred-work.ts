import type { EstimatedTokens } from './units.ts';

/** What a provider goes on with after its answer: what it costs is known when that is over. */
export interface DeferredWork {
  readonly kind: 'response' | 'batch';
  /** The provider's own id of it. */
  readonly id: string;
  /** Of a batch whose input was read: what its requests ask. */
  readonly parts?: readonly WorkPart[] | undefined;
}

/** What of such work is asked of one model. */
export interface WorkPart extends EstimatedTokens {
  readonly model: string;
  readonly answers: number;
}
