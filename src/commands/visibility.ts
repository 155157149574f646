/** Who may read what was stored: the owner of an object is the user path that its creation was recorded with. */
import type { UserPath } from '../events/event.ts';

/**
 * A caller with a user path reads what was stored at that path or below it; one without a path, or at the root,
 * reads everything. What was stored without a path is for the latter alone. Whoever may not read an object is told
 * what is told about an object that does not exist.
 */
export function mayRead(caller: UserPath | undefined, owner: UserPath | undefined): boolean {
  if (!isScoped(caller)) return true;
  if (owner === undefined) return false;
  return owner === caller || owner.startsWith(`${caller}/`);
}

/** Whether there is anything that this caller may not read. */
export function isScoped(caller: UserPath | undefined): caller is UserPath {
  return caller !== undefined && caller !== '/';
}
