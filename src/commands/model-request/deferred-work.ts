import type { EstimatedTokens } from './units.ts';

/** Work that a provider continues after its answer; its cost is known when it is over. */
export interface DeferredWork {
  readonly kind: 'response' | 'batch';
  /** The provider's own id of the work. */
  readonly id: string;
  /** For a batch whose input was read: the work per model. */
  readonly parts?: readonly WorkPart[] | undefined;
}

/** The part of such work for one model. */
export interface WorkPart extends EstimatedTokens {
  readonly model: string;
  readonly answers: number;
}
