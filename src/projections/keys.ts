/** Every managed key, active or not, indexed for authentication and the admin API. */
import type { z } from 'zod';
import * as events from '../events/catalogue/key.ts';
import { idOf, type RecordedEvent, type UserPath } from '../events/event.ts';
import type { KeyRecord } from './key-record.ts';
import { isA } from './known-event.ts';
import type { Projection } from './projection.ts';
import { listKey, loadKeys, saveKeys } from './saved-keys.ts';

/** Most keys have no labels and no list of models: they share this empty list. */
const none: readonly string[] = Object.freeze([]);

/** Number of lists, beyond two for each key, after which unused lists are removed. */
const SPARE_LISTS = 1000;

export class KeysState {
  /** By the hash of the newest secret: every key once. */
  readonly #byNewestHash = new Map<string, KeyRecord>();
  /** By the hash of the secret before that; few keys have one. */
  readonly #byPreviousHash = new Map<string, KeyRecord>();
  /** The lists of keys, so that keys with equal lists share one object, and the values derived from it. */
  readonly #lists = new Map<string, readonly string[]>();
  #byId: Map<string, KeyRecord> | undefined;

  /** Made at the first access: with very many keys, a start is faster without it. */
  get byId(): ReadonlyMap<string, KeyRecord> {
    this.#byId ??= new Map(Array.from(this.all(), (key) => [key.id, key]));
    return this.#byId;
  }

  /** Every key once, in no order. */
  all(): Iterable<KeyRecord> {
    return this.#byNewestHash.values();
  }

  /** The key whose newest or previous secret has this hash. The caller decides whether the secret is accepted. */
  withHash(secretHash: string): KeyRecord | undefined {
    return this.#byNewestHash.get(secretHash) ?? this.#byPreviousHash.get(secretHash);
  }

  /** Adds or replaces a key. @param before the replaced record, when its secrets may differ */
  put(key: KeyRecord, before?: KeyRecord): void {
    if (before !== undefined && before.secretHash !== key.secretHash) this.#byNewestHash.delete(before.secretHash);
    const previous = key.previousSecret?.secretHash;
    const superseded = before?.previousSecret?.secretHash;
    if (superseded !== undefined && superseded !== previous) this.#byPreviousHash.delete(superseded);
    this.#byNewestHash.set(key.secretHash, key);
    if (previous !== undefined) this.#byPreviousHash.set(previous, key);
    this.#byId?.set(key.id, key);
  }

  /** The shared list of keys with these entries. */
  listOf(entries: readonly string[]): readonly string[] {
    if (entries.length === 0) return none;
    const name = listKey(entries);
    const known = this.#lists.get(name);
    if (known !== undefined) return known;
    // A key has only two lists, also after thousands of changes.
    if (this.#lists.size > 2 * this.#byNewestHash.size + SPARE_LISTS) this.#forgetUnused();
    this.#lists.set(name, entries);
    return entries;
  }

  /** The number of shared lists. */
  get listCount(): number {
    return this.#lists.size;
  }

  #forgetUnused(): void {
    this.#lists.clear();
    for (const { labels, allowedModels } of this.all()) {
      for (const list of [labels, allowedModels]) if (list.length > 0) this.#lists.set(listKey(list), list);
    }
  }
}

export const keysView: Projection<KeysState> = {
  name: 'keys',
  version: 3,
  filter: { types: ['key.'] },
  initial: () => new KeysState(),
  apply(state, event) {
    if (isA(event, events.keyCreated)) {
      state.put(created(state, event.data, Math.floor(event.at), Number(event.revision)));
      return state;
    }
    const key = state.byId.get(idOf(event.stream));
    if (key !== undefined) state.put(changed(state, key, event), key);
    return state;
  },
  save: (state) => saveKeys(state.all()),
  load(saved) {
    const state = keysView.initial();
    for (const key of loadKeys(saved, none)) {
      state.put(key);
      state.listOf(key.labels);
      state.listOf(key.allowedModels);
    }
    return state;
  },
};

function created(
  state: KeysState,
  data: z.infer<typeof events.keyCreated.data>,
  at: number,
  revision: number,
): KeyRecord {
  const { id, name, description, userPath, labels, allowedModels, dashboardAccess } = data;
  return {
    id,
    name,
    description,
    userPath: userPath as UserPath | undefined,
    labels: state.listOf(labels),
    allowedModels: state.listOf(allowedModels),
    dashboardAccess,
    userPathHeader: data.userPathHeader ?? true,
    secretHash: data.secretHash,
    lastCharacters: data.lastCharacters,
    previousSecret: undefined,
    expiresAt: data.expiresAt,
    deactivatedAt: undefined,
    createdAt: at,
    updatedAt: at,
    revision,
  };
}

function changed(state: KeysState, key: KeyRecord, event: RecordedEvent): KeyRecord {
  const updatedAt = Math.floor(event.at);
  const revision = Number(event.revision);
  if (isA(event, events.keyLabelsChanged))
    return { ...key, labels: state.listOf(event.data.labels), updatedAt, revision };
  if (isA(event, events.keyAllowedModelsChanged)) {
    return { ...key, allowedModels: state.listOf(event.data.allowedModels), updatedAt, revision };
  }
  if (isA(event, events.keyDashboardAccessChanged)) {
    return { ...key, dashboardAccess: event.data.dashboardAccess, updatedAt, revision };
  }
  if (isA(event, events.keyUserPathHeaderChanged)) {
    return { ...key, userPathHeader: event.data.userPathHeader, updatedAt, revision };
  }
  if (isA(event, events.keyRenamed)) {
    const { name, description } = event.data;
    return { ...key, name, description: description ?? undefined, updatedAt, revision };
  }
  if (isA(event, events.keyExpiryChanged)) {
    return { ...key, expiresAt: event.data.expiresAt ?? undefined, updatedAt, revision };
  }
  if (isA(event, events.keyRotated)) {
    const { secretHash, lastCharacters, previousValidUntil } = event.data;
    const previousSecret = { secretHash: key.secretHash, validUntil: previousValidUntil };
    return { ...key, secretHash, lastCharacters, previousSecret, updatedAt, revision };
  }
  if (isA(event, events.keyDeactivated)) {
    return { ...key, deactivatedAt: updatedAt, previousSecret: undefined, updatedAt, revision };
  }
  if (isA(event, events.keyReactivated)) return { ...key, deactivatedAt: undefined, updatedAt, revision };
  return key;
}
