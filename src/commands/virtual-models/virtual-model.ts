/**
 * A virtual model: under a name of its own it leads to one or several other models. Without targets, it is a policy
 * that states who may use the models of its selector.
 */
import { strategies } from '../../events/catalogue/virtual-model.ts';
import type { UserPath } from '../../events/event.ts';
import type { RouteConfig } from './route-strategy.ts';

export { strategies };

/** How one of several targets is chosen. */
export type Strategy = (typeof strategies)[number];

export interface VirtualTarget {
  /**
   * A provider's name or type, which pins the model to it. Default: another virtual model, or any provider that
   * serves it.
   */
  readonly provider?: string | undefined;
  readonly model: string;
  /** A positive share relative to the other targets; default 1. */
  readonly weight?: number | undefined;
}

export interface FailoverSetting {
  readonly enabled: boolean;
  /** Replaces the global setting. */
  readonly statuses?: readonly number[] | undefined;
  readonly phrases?: readonly string[] | undefined;
}

export interface VirtualModel {
  /** The name that clients use; for a policy, a canonical selector. */
  readonly source: string;
  /** Empty for a policy. */
  readonly targets: readonly VirtualTarget[];
  readonly strategy: Strategy;
  /** The route strategy; present exactly when `strategy` is `plugin`. */
  readonly plugin?: { readonly name: string; readonly config: RouteConfig } | undefined;
  /** Whether a session stays with its target. */
  readonly sessionAffinity: boolean;
  readonly failover: FailoverSetting;
  /** The paths that may use it, each with all paths below; empty for all callers. */
  readonly userPaths: readonly string[];
  readonly enabled: boolean;
  readonly description?: string | undefined;
}

/** Maximum number of virtual models in a chain. */
export const MAX_DEPTH = 8;

/** Whether it has targets; if not, it is a policy. */
export function isRedirect({ targets }: VirtualModel): boolean {
  return targets.length > 0;
}

/** Whether the paths include a caller at this path. A caller without a path counts as the root. */
export function isFor(userPaths: readonly string[], userPath: UserPath | undefined): boolean {
  if (userPaths.length === 0) return true;
  const path = userPath ?? '/';
  return userPaths.some((one) => one === '/' || path === one || (path.startsWith(one) && path[one.length] === '/'));
}

/** The virtual model that a target may name: never the model itself, whose name then means a provider's model. */
export function chainedName({ source }: VirtualModel, { provider, model }: VirtualTarget): string | undefined {
  return provider === undefined && model !== source ? model : undefined;
}
