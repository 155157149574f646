/**
 * A virtual model: under a name of its own it leads to one or several others, or, without targets, it says who may
 * use those that its selector means.
 */
import type { strategies } from '../../events/catalogue/virtual-model.ts';
import type { UserPath } from '../../events/event.ts';

/** How one of several targets is chosen. */
export type Strategy = (typeof strategies)[number];

export interface VirtualTarget {
  /** A provider's name or type, which pins the model to it. Absent: another virtual model, or whoever serves it. */
  readonly provider?: string | undefined;
  readonly model: string;
  /** Positive. Its share, beside those of the others; 1 when absent. */
  readonly weight?: number | undefined;
}

export interface FailoverSetting {
  readonly enabled: boolean;
  /** In place of those that are set for all. */
  readonly statuses?: readonly number[] | undefined;
  readonly phrases?: readonly string[] | undefined;
}

export interface VirtualModel {
  /** The name that clients use; of a policy, a canonical selector. */
  readonly source: string;
  /** Empty: it is a policy. */
  readonly targets: readonly VirtualTarget[];
  readonly strategy: Strategy;
  /** Whether a session stays with its target. */
  readonly sessionAffinity: boolean;
  readonly failover: FailoverSetting;
  /** Who may use it, each with all below; empty: everybody. */
  readonly userPaths: readonly string[];
  readonly enabled: boolean;
  readonly description?: string | undefined;
}

/** How many virtual models may lead through one another. */
export const MAX_DEPTH = 8;

/** Whether it leads somewhere; if not, it is a policy. */
export function isRedirect({ targets }: VirtualModel): boolean {
  return targets.length > 0;
}

/** Whether a caller at this path is among those that are meant. A caller without a path counts as the root. */
export function isFor(userPaths: readonly string[], userPath: UserPath | undefined): boolean {
  if (userPaths.length === 0) return true;
  const path = userPath ?? '/';
  return userPaths.some((one) => one === '/' || path === one || (path.startsWith(one) && path[one.length] === '/'));
}

/** The virtual model that a target may mean, by its name: never its own, which is then the model of a provider. */
export function chainedName({ source }: VirtualModel, { provider, model }: VirtualTarget): string | undefined {
  return provider === undefined && model !== source ? model : undefined;
}
