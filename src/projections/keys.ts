/** Every managed key, active or not, indexed for authentication and the admin API. */
import { z } from 'zod';
import * as events from '../events/catalogue/access.ts';
import { taggingChanged, userPolicyRemoved, userPolicySet } from '../events/catalogue/access.ts';
import { idOf, type RecordedEvent, type UserPath } from '../events/event.ts';
import { administeredView } from './administered.ts';
import { isA, type Projection, savedAsItIs } from './projection.ts';

/** The administrators' rules by which request headers become labels. */
export interface TaggingState {
  readonly headers: z.infer<typeof taggingChanged.data>['headers'];
  /** Of the newest event; undefined while nothing was set. */
  readonly revision?: string;
}

/** Each state is a new object: callers detect changes by comparing references. */
export const taggingView: Projection<TaggingState> = {
  name: 'tagging',
  version: 1,
  filter: { types: ['tagging.'] },
  initial: () => ({ headers: [] }),
  apply: (state, event) =>
    isA(event, taggingChanged) ? { headers: event.data.headers, revision: String(event.revision) } : state,
  ...savedAsItIs<TaggingState>(),
};

export const usersView = administeredView({
  name: 'users',
  version: 2,
  saved: userPolicySet,
  removed: userPolicyRemoved,
  key: 'userPath',
});

// Very many keys as one JSON value, column by column: a few long texts and lists of numbers are written, and above all
// read, in a fraction of the time and the memory that a list of objects would take. Paths and lists that many keys
// share are saved once, and are shared objects again after loading.

/** A separator that no id, name or hash contains: names have no control characters. */
const SEPARATOR = '\n';

/** The elements are not checked: there may be very many, and `saveKeys` has written them. */
const numbers = z.custom<number[]>((value) => Array.isArray(value));
/** By the index of the key; most keys have none. */
const few = <Value extends z.ZodType>(value: Value) => z.record(z.string(), value);

const savedKeys = z.object({
  count: z.number(),
  ids: z.string(),
  names: z.string(),
  hashes: z.string(),
  lastCharacters: z.string(),
  previousSecrets: few(z.object({ secretHash: z.string(), validUntil: z.number() })),
  descriptions: few(z.string()),
  paths: z.array(z.string()),
  lists: z.array(z.array(z.string())),
  /** Indexes in `paths` and `lists`; -1: the key has none. */
  path: numbers,
  labels: numbers,
  allowedModels: numbers,
  /** The keys that may be used from some networks only. */
  allowedCidrs: few(z.array(z.string())),
  /** The indexes of the keys that have it. */
  dashboardAccess: numbers,
  /** The indexes of the keys for which no header may name the user path. */
  noUserPathHeader: numbers,
  createdAt: numbers,
  updatedAt: numbers,
  revision: numbers,
  expiresAt: few(z.number()),
  deactivatedAt: few(z.number()),
  /** Every hash of another gateway's secret that a key has or had, in the order of creation. */
  imported: z.string(),
});

type SavedKeys = z.infer<typeof savedKeys>;

function saveKeys(state: KeysState): SavedKeys {
  const all = [...state.all()];
  const paths = new Places<string>((path) => path);
  const lists = new Places<readonly string[]>(listKey);
  const text = (of: (key: KeyRecord) => string) => all.map(of).join(SEPARATOR);
  const someHave = <Value>(of: (key: KeyRecord) => Value | undefined): Record<string, Value> => {
    const found: Record<string, Value> = {};
    all.forEach((key, place) => {
      const value = of(key);
      if (value !== undefined) found[place] = value;
    });
    return found;
  };
  return {
    count: all.length,
    ids: text(({ id }) => id),
    names: text(({ name }) => name),
    hashes: text(({ secretHash }) => secretHash),
    lastCharacters: text(({ lastCharacters }) => lastCharacters),
    previousSecrets: someHave(({ previousSecret }) => previousSecret),
    descriptions: someHave(({ description }) => description),
    path: all.map(({ userPath }) => (userPath === undefined ? -1 : paths.of(userPath))),
    labels: all.map(({ labels }) => (labels.length === 0 ? -1 : lists.of(labels))),
    allowedModels: all.map(({ allowedModels }) => (allowedModels.length === 0 ? -1 : lists.of(allowedModels))),
    allowedCidrs: someHave(({ allowedCidrs }) => (allowedCidrs.length === 0 ? undefined : [...allowedCidrs])),
    paths: paths.values,
    lists: lists.values.map((list) => [...list]),
    dashboardAccess: all.flatMap(({ dashboardAccess }, place) => (dashboardAccess ? [place] : [])),
    noUserPathHeader: all.flatMap(({ userPathHeader }, place) => (userPathHeader ? [] : [place])),
    createdAt: all.map(({ createdAt }) => createdAt),
    updatedAt: all.map(({ updatedAt }) => updatedAt),
    revision: all.map(({ revision }) => revision),
    expiresAt: someHave(({ expiresAt }) => expiresAt),
    deactivatedAt: someHave(({ deactivatedAt }) => deactivatedAt),
    imported: [...(state.imported?.turns.keys() ?? [])].join(SEPARATOR),
  };
}

/** @throws Error when its columns differ in length */
function* loadKeys(saved: SavedKeys, none: readonly string[]): Generator<KeyRecord> {
  const { count, paths, lists } = saved;
  const column = (text: string) => (count === 0 ? [] : text.split(SEPARATOR));
  const ids = column(saved.ids);
  const names = column(saved.names);
  const hashes = column(saved.hashes);
  const lastCharacters = column(saved.lastCharacters);
  const dashboardAccess = new Set(saved.dashboardAccess);
  const noUserPathHeader = new Set(saved.noUserPathHeader);
  const columns = [ids, names, hashes, lastCharacters, saved.path, saved.labels, saved.allowedModels];
  for (const { length } of [...columns, saved.createdAt, saved.updatedAt, saved.revision]) {
    if (length !== count) throw new Error(`there are ${count} saved keys, and a column of ${length}`);
  }
  const listAt = (place: number | undefined) => (place === undefined ? none : (lists[place] ?? none));
  for (let place = 0; place < count; place++) {
    yield {
      id: ids[place] ?? '',
      name: names[place] ?? '',
      description: saved.descriptions[place],
      userPath: paths[saved.path[place] ?? -1] as UserPath | undefined,
      labels: listAt(saved.labels[place]),
      allowedModels: listAt(saved.allowedModels[place]),
      allowedCidrs: saved.allowedCidrs[place] ?? none,
      dashboardAccess: dashboardAccess.has(place),
      userPathHeader: !noUserPathHeader.has(place),
      secretHash: hashes[place] ?? '',
      lastCharacters: lastCharacters[place] ?? '',
      previousSecret: saved.previousSecrets[place],
      expiresAt: saved.expiresAt[place],
      deactivatedAt: saved.deactivatedAt[place],
      createdAt: saved.createdAt[place] ?? 0,
      updatedAt: saved.updatedAt[place] ?? 0,
      revision: saved.revision[place] ?? 0,
    };
  }
}

/** A key that is equal for two lists of the same entries. */
function listKey(list: readonly string[]): string {
  return list.join(SEPARATOR);
}

/** Numbers distinct values in the order of their first use. */
class Places<Value> {
  readonly values: Value[] = [];
  readonly #places = new Map<string, number>();
  readonly #keyOf: (value: Value) => string;

  constructor(keyOf: (value: Value) => string) {
    this.#keyOf = keyOf;
  }

  of(value: Value): number {
    const key = this.#keyOf(value);
    let place = this.#places.get(key);
    if (place === undefined) {
      place = this.values.length;
      this.#places.set(key, place);
      this.values.push(value);
    }
    return place;
  }
}

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
  #imported: { readonly prefixes: Set<string>; readonly turns: Map<string, number> } | undefined;

  /** The prefixes, and the place of each hash in the order of creation; undefined: there is none. */
  get imported(): { readonly prefixes: ReadonlySet<string>; readonly turns: ReadonlyMap<string, number> } | undefined {
    return this.#imported;
  }

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
    this.noteImported(key.secretHash);
    this.#byId?.set(key.id, key);
  }

  /** Without effect for a secret that this gateway made, and for a known one. */
  noteImported(secretHash: string): void {
    const prefix = importedPrefixOf(secretHash);
    if (prefix === undefined || this.#imported?.turns.has(secretHash)) return;
    this.#imported ??= { prefixes: new Set(), turns: new Map() };
    this.#imported.prefixes.add(prefix);
    this.#imported.turns.set(secretHash, this.#imported.turns.size);
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
  version: 5,
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
  save: (state) => saveKeys(state),
  load(value) {
    const saved = savedKeys.parse(value);
    const state = keysView.initial();
    for (const hash of saved.imported.split(SEPARATOR)) state.noteImported(hash);
    for (const key of loadKeys(saved, none)) {
      state.put(key);
      state.listOf(key.labels);
      state.listOf(key.allowedModels);
    }
    return state;
  },
};

/** What the hash of another gateway's secret leaves out, often nothing; undefined for a secret that this gateway made. */
export function importedPrefixOf(secretHash: string): string | undefined {
  const end = secretHash.lastIndexOf(':');
  return end === -1 ? undefined : secretHash.slice(0, end);
}

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
    allowedCidrs: data.allowedCidrs ?? none,
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
  if (isA(event, events.keyAllowedCidrsChanged)) {
    return { ...key, allowedCidrs: event.data.allowedCidrs, updatedAt, revision };
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

/** A replaced secret, which is accepted until `validUntil`. */
interface PreviousSecret {
  readonly secretHash: string;
  /** Milliseconds since the epoch. The secret is kept after that, so that its use is not reported as an unknown key. */
  readonly validUntil: number;
}

/** One flat record for each key, since there may be very many. It is replaced, never changed. */
export interface KeyRecord {
  readonly id: string;
  readonly name: string;
  readonly description: string | undefined;
  readonly userPath: UserPath | undefined;
  readonly labels: readonly string[];
  readonly allowedModels: readonly string[];
  /** Networks of the clients that may use it; empty: all. */
  readonly allowedCidrs: readonly string[];
  readonly dashboardAccess: boolean;
  /** Whether a request header may name the user path. */
  readonly userPathHeader: boolean;
  /** SHA-256 of the secret, in hexadecimal; of another gateway's secret after a prefix and a colon. */
  readonly secretHash: string;
  readonly lastCharacters: string;
  /** The secret before the newest one; undefined when there is none, or when a deactivation removed it. */
  readonly previousSecret: PreviousSecret | undefined;
  /** Milliseconds since the epoch, like all times here. */
  readonly expiresAt: number | undefined;
  readonly deactivatedAt: number | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Of its newest event. */
  readonly revision: number;
}
