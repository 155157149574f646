import type { UserPath } from '../../events/event.ts';
import type { Sight } from '../visibility.ts';

/** Who asks, and as whom. Decided by authentication, before the exchange begins. */
export interface Caller {
  readonly actor: 'master' | 'system' | `key:${string}`;
  readonly userPath?: UserPath | undefined;
  readonly authMethod: 'master_key' | 'api_key' | 'no_key';
  /** Which stored objects exist for it. */
  readonly sight: Sight;
  /** What a managed key brings with it; undefined for the master key, and where no key is asked for. */
  readonly key?: CallerKey | undefined;
  /** Of the secret of the managed key that was sent: of two that are accepted, one ends earlier. */
  readonly secretHash?: string | undefined;
  /** Whether a rotation has replaced that secret: it administers nothing during its grace period. */
  readonly hasPreviousSecret?: boolean;
}

export interface CallerKey {
  readonly id: string;
  /** The path the key is bound to. It is then the caller's `userPath`, and the subtree that the key administers. */
  readonly userPath: UserPath | undefined;
  readonly dashboardAccess: boolean;
  /** Canonical selectors; empty: the key itself restricts nothing. */
  readonly allowedModels: readonly string[];
  readonly labels: readonly string[];
}
