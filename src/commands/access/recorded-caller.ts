/** The caller of a recorded request, for work that continues after a restart or that another caller triggers. */
import type { Actor, UserPath } from '../../events/event.ts';
import { type Owner, type Sight, sightOf } from '../visibility.ts';
import type { KeyDirectory, KnownKey } from './key-directory.ts';

export interface RecordedCaller {
  readonly actor: Actor;
  readonly userPath: UserPath | undefined;
  /** The id of a managed key; undefined for the master key. */
  readonly keyId: string | undefined;
  /** The key in its current state. Keys are never deleted, so it exists unless the log lost it. */
  readonly key: KnownKey | undefined;
  readonly sight: Sight;
}

export function recordedCaller(
  { createdBy: actor, userPath }: Owner,
  keys: Pick<KeyDirectory, 'byId'>,
): RecordedCaller {
  const keyId = actor.startsWith('key:') ? actor.slice('key:'.length) : undefined;
  const key = keyId === undefined ? undefined : keys.byId(keyId);
  return { actor, userPath, keyId, key, sight: sightOf({ actor, userPath, key }) };
}
