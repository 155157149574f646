import type { FailureKind } from '../../providers/provider.ts';
import type { Refusal } from '../refusal.ts';

/** How the attempts with one target ended, when none gave an answer. */
export interface RefusedTarget {
  readonly kind: 'refused';
  readonly refusal: Refusal;
  readonly attempts: number;
  readonly reason?: 'upload_failed';
  /** The provider's last one; undefined when it gave none, and when it was not called at all. */
  readonly status?: number | undefined;
  /** How it failed to give one; undefined also when it was not called. */
  readonly failure?: FailureKind | undefined;
  /** It answered, but the answer makes no sense. */
  readonly isSenseless?: boolean;
  /** The gateway has called this target more than once for the same request. */
  readonly isRetried?: boolean;
  /** The request cannot be made again: its body came in pieces, and is gone. */
  readonly spent?: boolean;
}
