import type { UserPath } from '../../events/event.ts';
import type { Sight } from '../visibility.ts';

/** The caller of a request and its rights. Determined by authentication, before the exchange begins. */
export interface Caller {
  readonly actor: 'master' | 'system' | `key:${string}`;
  readonly userPath?: UserPath | undefined;
  readonly authMethod: 'master_key' | 'api_key' | 'no_key';
  /** Which stored objects the caller sees. */
  readonly sight: Sight;
  /** The settings of a managed key; undefined for the master key, and where no key is required. */
  readonly key?: CallerKey | undefined;
  /** Hash of the managed key's secret that was sent: of two accepted secrets, one expires earlier. */
  readonly secretHash?: string | undefined;
  /** Whether a rotation has replaced that secret: during its grace period it is not accepted for administration. */
  readonly hasPreviousSecret?: boolean;
  /**
   * `plugin`: the gateway calls a model itself, for a guardrail or the semantic cache. Guardrails do not run for the call, and what restricts
   * clients to models does not restrict it, because an administrator chose its model.
   */
  readonly origin?: 'plugin';
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

/** By what a circuit breaker tells callers apart: the managed key, else the user path. */
export function callerName({ key, userPath }: Pick<Caller, 'key' | 'userPath'>): string {
  return key?.id ?? userPath ?? '';
}
