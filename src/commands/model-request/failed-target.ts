import type { FailureKind } from '../../providers/provider.ts';
import type { Refusal } from '../refusal.ts';

/** The result of the attempts with one target, when none gave an answer. */
export interface RefusedTarget {
  readonly kind: 'refused';
  readonly refusal: Refusal;
  readonly attempts: number;
  /** Set when the provider is not at fault. */
  readonly reason?: 'upload_failed' | 'budget_exceeded';
  /** The provider's last status; undefined when it gave none or was not called. */
  readonly status?: number | undefined;
  /** How the call failed; undefined when the provider gave a status or was not called. */
  readonly failure?: FailureKind | undefined;
  /** The provider answered, but the answer is malformed. */
  readonly isMalformed?: boolean;
  /** The gateway has called this target more than once for the same request. */
  readonly isRetried?: boolean;
  /** The request cannot be repeated: its body arrived in pieces that are not kept. */
  readonly spent?: boolean;
}
