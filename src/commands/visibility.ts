/**
 * Which callers see which stored objects. One rule for responses, conversations, items, files, batches and the API of
 * providers: authentication computes a caller's visibility once, and every store checks it before it returns anything.
 * An object belongs to its creator, and to the user path that its creation was recorded with. For a caller who does
 * not see an object, the answer is the same as for an object that does not exist.
 */
import type { Actor, EventContext, RecordedEvent, UserPath } from '../events/event.ts';
import type { LimitSubject } from '../projections/limits.ts';

export interface Owner {
  /** Undefined when it was created without a path. */
  readonly userPath: UserPath | undefined;
  readonly createdBy: Actor;
}

export type VisibilityScope =
  /** The whole gateway, including objects that only a provider knows. */
  | { readonly of: 'everything' }
  /** Objects created at this path or below it. */
  | { readonly of: 'subtree'; readonly path: UserPath }
  /** Objects that this actor created, at any path. */
  | { readonly of: 'own'; readonly actor: Actor };

/** The visibility of the master key, of global administrators, and of the gateway itself. */
export const everything: VisibilityScope = { of: 'everything' };

/** The settings of a managed key that decide its visibility. */
export interface ScopedKey {
  readonly userPath: UserPath | undefined;
  readonly dashboardAccess: boolean;
}

/**
 * A key with a subtree sees that subtree. A key without one sees the objects that it created; with dashboard access
 * it sees everything, like the master key. A user path in a header narrows the visibility of a caller who sees everything,
 * and never changes the visibility of others.
 */
export function visibilityOf({
  actor,
  userPath,
  key,
}: {
  readonly actor: Actor;
  readonly userPath?: UserPath | undefined;
  readonly key?: ScopedKey | undefined;
}): VisibilityScope {
  const subtree = subtreeOf(key);
  if (subtree !== undefined) return { of: 'subtree', path: subtree };
  if (key === undefined ? actor.startsWith('key:') : !key.dashboardAccess) return { of: 'own', actor };
  return userPath === undefined || userPath === '/' ? everything : { of: 'subtree', path: userPath };
}

/** Whether the credential itself sees everything, whatever path its requests name in a header. */
export function maySeeEverything({ actor, key }: { readonly actor: Actor; readonly key?: ScopedKey | undefined }) {
  return seesEverything(visibilityOf({ actor, key }));
}

/**
 * Whether a key may read the amounts of a budget or a rate limit: those of its own path and below it. The amounts of
 * a path above, a label, a provider or a model show the usage of other callers. A plain key that is bound to no path
 * reads none.
 */
export function mayReadAmounts(key: ScopedKey | undefined, limit: LimitSubject): boolean {
  const path = subtreeOf(key);
  return path === undefined ? key === undefined || key.dashboardAccess : isOfSubtree(limit, path);
}

/**
 * Whether the refusal of a request may name the amounts. It is recorded under the path of the request, so every
 * caller that reads the requests of that path reads it.
 */
export function mayNameAmounts(
  { key, userPath = '/' }: { readonly key?: ScopedKey | undefined; readonly userPath?: string | undefined },
  limit: LimitSubject,
): boolean {
  return mayReadAmounts(key, limit) && (userPath === '/' || isOfSubtree(limit, userPath));
}

function isOfSubtree({ scope, subject }: LimitSubject, path: string): boolean {
  return scope === 'user_path' && (subject === path || subject.startsWith(`${path}/`));
}

/** The subtree that a key is bound to; undefined for the master key, and for keys bound to none or to the root. */
export function subtreeOf(key: Pick<ScopedKey, 'userPath'> | undefined): UserPath | undefined {
  return key?.userPath === '/' ? undefined : key?.userPath;
}

export function sees(visibility: VisibilityScope, owner: Owner): boolean {
  switch (visibility.of) {
    case 'everything':
      return true;
    case 'subtree':
      return owner.userPath === visibility.path || (owner.userPath?.startsWith(`${visibility.path}/`) ?? false);
    case 'own':
      return owner.createdBy === visibility.actor;
  }
}

export function seesEverything(visibility: VisibilityScope): boolean {
  return visibility.of === 'everything';
}

/** Whether callers that see the objects of one owner also see those of the other. */
export function isSameOwner(one: Owner, other: Owner): boolean {
  return one.userPath === other.userPath && one.createdBy === other.createdBy;
}

/** The owner of a recorded object. The event's data may name the creator; otherwise it is the event's actor. */
export function ownerOf({ context, data }: Pick<RecordedEvent, 'context' | 'data'>): Owner {
  const { createdBy = context.actor } = data as { readonly createdBy?: Actor };
  return { userPath: context.userPath, createdBy };
}

/** The context of an event about the owner's object; the same context object when its path is the owner's. */
export function contextFor({ userPath }: Owner, by: EventContext): EventContext {
  return by.userPath === userPath ? by : { ...by, userPath };
}

/** The creator for an event's data; empty when the creator is the actor of the event. */
export function creatorFact({ createdBy }: Pick<Owner, 'createdBy'>, { actor }: EventContext): { createdBy?: Actor } {
  return createdBy === actor ? {} : { createdBy };
}
