/** Who sent a request that is on record, for what is gone on with after a restart or when another caller asks. */
import type { Actor, UserPath } from '../../events/event.ts';
import { type Owner, type Sight, sightOf } from '../visibility.ts';
import type { KeyDirectory, KnownKey } from './key-directory.ts';

export interface RecordedAsker {
  readonly actor: Actor;
  readonly userPath: UserPath | undefined;
  /** Of a managed key; undefined for the master key. */
  readonly keyId: string | undefined;
  /** As it is now. Keys are never deleted, so it is there unless the log lost it. */
  readonly key: KnownKey | undefined;
  readonly sight: Sight;
}

export function recordedAsker({ createdBy: actor, userPath }: Owner, keys: Pick<KeyDirectory, 'byId'>): RecordedAsker {
  const keyId = actor.startsWith('key:') ? actor.slice('key:'.length) : undefined;
  const key = keyId === undefined ? undefined : keys.byId(keyId);
  return { actor, userPath, keyId, key, sight: sightOf({ actor, userPath, key }) };
}
