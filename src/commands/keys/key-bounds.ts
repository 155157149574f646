/**
 * The limits of what an administrator may give to a key: never more than its own key has, and nothing that a higher
 * administrator forbids.
 */
import type { UserPath } from '../../events/event.ts';
import { coversNetworks } from '../../network/networks.ts';
import { type Authority, bindingValue, type ValuesByAdministrator } from '../access/authority.ts';
import { covers } from '../access/selector.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { subtreeOf } from '../visibility.ts';

/** The administrator who creates or changes a key. */
export interface KeyAdministrator {
  readonly authority: Authority;
  /** The key of the caller; undefined for the master key. */
  readonly key: AdministeringKey | undefined;
}

/** The access that a secret gives. */
export interface KeyAccess {
  readonly userPath: UserPath | undefined;
  readonly allowedModels: readonly string[];
  readonly allowedCidrs: readonly string[];
  readonly userPathHeader: boolean;
  /** Milliseconds since the epoch; undefined when it never expires. */
  readonly expiresAt: number | undefined;
}

/** The upper limit for a new key, or for a new secret of a key. */
export interface AdministeringKey extends KeyAccess {
  readonly id: string;
  /** Of its last event. */
  readonly revision: number;
}

/** A change of the key `id`. */
export interface ByAdministrator {
  readonly id: string;
  readonly by: KeyAdministrator;
}

/** The value that a higher administrator set on the caller's own key. */
export function bindingOwnValue<Value>(
  values: ValuesByAdministrator<Value>,
  { id, by }: ByAdministrator,
): Value | undefined {
  return by.key?.id === id ? bindingValue(values, by.authority) : undefined;
}

/** A list of a key that restricts it. An empty list restricts nothing. */
interface Restriction {
  readonly of: (key: KeyAccess) => readonly string[];
  readonly member: string;
  readonly noun: string;
  /** Whether the second list allows no more than the first. */
  readonly covers: (wide: readonly string[], narrow: readonly string[]) => boolean;
}

const models = {
  of: (key) => key.allowedModels,
  member: 'allowed_models',
  noun: 'models',
  covers,
} satisfies Restriction;
const networks = {
  of: (key) => key.allowedCidrs,
  member: 'allowed_cidrs',
  noun: 'networks',
  covers: coversNetworks,
} satisfies Restriction;
export const restrictions = { allowedModels: models, allowedCidrs: networks };

/**
 * A key never gives more models, or more networks, than it has itself. It may shorten a list, and restore what a higher
 * administrator gave.
 */
export function widerThanAllowed(
  requested: readonly string[],
  state: KeyAccess,
  { of, noun, covers, ...restriction }: Restriction,
  values: ValuesByAdministrator<readonly string[]>,
  { id, by: { key, authority } }: ByAdministrator,
): Refusal | undefined {
  if (key === undefined || covers(of(state), requested)) return undefined;
  const bound = bindingValue(values, authority);
  if (bound !== undefined && covers(bound, requested)) return undefined;
  if (key.id !== id && covers(of(key), requested)) return undefined;
  return key.id !== id || bound === undefined
    ? beyond(key, { of, ...restriction })
    : refusals.setByHigherAdministrator(`The list of ${noun} of key ${id}`, JSON.stringify(bound));
}

/** The same rule for the expiry. @param values with `null` for a key that never expires */
export function laterThanAllowed(
  requested: number | undefined,
  expiresAt: number | undefined,
  values: ValuesByAdministrator<number | null>,
  { id, by: { key, authority } }: ByAdministrator,
): Refusal | undefined {
  if (key === undefined || !isLater(requested, expiresAt)) return undefined;
  const bound = bindingValue(values, authority);
  if (bound !== undefined && !isLater(requested, bound ?? undefined)) return undefined;
  if (key.id !== id) return isLater(requested, key.expiresAt) ? beyondExpiry(key) : undefined;
  return bound === undefined || bound === null
    ? beyondExpiry(key)
    : refusals.setByHigherAdministrator(`The expiry of key ${id}`, timeOf(bound));
}

/** The refusal when a new key would have more access than the key that creates it. */
export function beyondCreator(requested: KeyAccess, creator: AdministeringKey): Refusal | undefined {
  const scope = subtreeOf(creator);
  if (scope !== undefined && requested.userPath !== scope && requested.userPath?.startsWith(`${scope}/`) !== true) {
    return refusals.userPathOutOfScope(requested.userPath ?? '/', scope, 'user_path');
  }
  const wider = Object.values(restrictions).find(({ of, covers }) => !covers(of(creator), of(requested)));
  if (wider !== undefined) return beyond(creator, wider);
  if (isLater(requested.expiresAt, creator.expiresAt)) return beyondExpiry(creator);
  return requested.userPathHeader && !creator.userPathHeader
    ? refusals.exceedsOwnAccess('user_path_header', 'no header names its user path')
    : undefined;
}

/** The caller receives the secret and can use it: the same rule as for a new key, except for the caller's own key. */
export function beyondOwnAccess(access: KeyAccess, { id, by: { key } }: ByAdministrator): Refusal | undefined {
  if (key === undefined || key.id === id) return undefined;
  // For a key that is bound to a path, no header can name another path.
  return beyondCreator({ ...access, userPathHeader: access.userPathHeader && access.userPath === undefined }, key);
}

function beyond(key: AdministeringKey, { of, member }: Pick<Restriction, 'of' | 'member'>): Refusal {
  return refusals.exceedsOwnAccess(member, `it has ${JSON.stringify(of(key))}`);
}

function beyondExpiry({ expiresAt }: AdministeringKey): Refusal {
  return refusals.exceedsOwnAccess('expires_at', `it expires at ${timeOf(expiresAt)}`);
}

function isLater(one: number | undefined, other: number | undefined): boolean {
  return other !== undefined && (one === undefined || one > other);
}

function timeOf(at: number | undefined): string {
  return at === undefined ? 'no time' : new Date(at).toISOString();
}
