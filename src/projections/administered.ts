/** The read model of objects that administrators save and remove by a key: one fold for all kinds. */
import type { z } from 'zod';
import type { EventDefinition } from '../events/catalogue/define.ts';
import { isA, type Projection, savedAsItIs } from './projection.ts';

/** An object as it was saved last. It is replaced, never changed. Times are milliseconds since the epoch. */
export interface Saved<Value> {
  readonly value: Value;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Of the newest event of its stream. */
  readonly revision: number;
}

export interface SavedObjects<Value> {
  /** In the order of their creation. */
  readonly byKey: Map<string, Saved<Value>>;
  /** Changes with each change of an object. */
  version: number;
}

/** A kind of object that is saved as a whole. */
export interface AdministeredKind<Schema extends z.ZodObject> {
  /** Of the read model. */
  readonly name: string;
  readonly version: number;
  /** Its data is the complete value. */
  readonly saved: EventDefinition<string, Schema>;
  readonly removed: EventDefinition;
  /** The member of both events that names the object. */
  readonly key: keyof z.infer<Schema> & string;
}

export function administeredView<Schema extends z.ZodObject>({
  name,
  version,
  saved,
  removed,
  key: member,
}: AdministeredKind<Schema>): Projection<SavedObjects<z.infer<Schema>>> {
  return {
    name,
    version,
    filter: { types: [saved.type, removed.type] },
    initial: () => ({ byKey: new Map(), version: 0 }),
    apply(state, event) {
      const updatedAt = Math.floor(event.at);
      if (isA(event, saved)) {
        const key = String(event.data[member]);
        const createdAt = state.byKey.get(key)?.createdAt ?? updatedAt;
        state.byKey.set(key, { value: event.data, createdAt, updatedAt, revision: Number(event.revision) });
        state.version += 1;
      } else if (isA(event, removed) && state.byKey.delete(String(event.data[member]))) state.version += 1;
      return state;
    },
    ...savedAsItIs<SavedObjects<z.infer<Schema>>>(),
  };
}
