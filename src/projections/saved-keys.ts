/**
 * Very many keys as one JSON value, column by column: a few long texts and lists of numbers are written, and above all
 * read, in a fraction of the time and the memory that a list of objects would take. Paths and lists that many keys
 * share are saved once, and are shared objects again after loading.
 */
import { z } from 'zod';
import type { UserPath } from '../events/event.ts';
import type { KeyRecord } from './key-record.ts';

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
  /** The indexes of the keys that have it. */
  dashboardAccess: numbers,
  /** The indexes of the keys for which no header may name the user path. */
  noUserPathHeader: numbers,
  createdAt: numbers,
  updatedAt: numbers,
  revision: numbers,
  expiresAt: few(z.number()),
  deactivatedAt: few(z.number()),
});

export type SavedKeys = z.infer<typeof savedKeys>;

export function saveKeys(keys: Iterable<KeyRecord>): SavedKeys {
  const all = [...keys];
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
    paths: paths.values,
    lists: lists.values.map((list) => [...list]),
    dashboardAccess: all.flatMap(({ dashboardAccess }, place) => (dashboardAccess ? [place] : [])),
    noUserPathHeader: all.flatMap(({ userPathHeader }, place) => (userPathHeader ? [] : [place])),
    createdAt: all.map(({ createdAt }) => createdAt),
    updatedAt: all.map(({ updatedAt }) => updatedAt),
    revision: all.map(({ revision }) => revision),
    expiresAt: someHave(({ expiresAt }) => expiresAt),
    deactivatedAt: someHave(({ deactivatedAt }) => deactivatedAt),
  };
}

/** @throws when the value was not made by `saveKeys` */
export function* loadKeys(value: unknown, none: readonly string[]): Generator<KeyRecord> {
  const saved = savedKeys.parse(value);
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
export function listKey(list: readonly string[]): string {
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
