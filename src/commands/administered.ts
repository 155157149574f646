/**
 * Objects that administrators save and remove, and that the configuration may declare: the part of their decisions
 * and of their use that is the same for all kinds.
 */
import type { z } from 'zod';
import type { EventDefinition } from '../events/catalogue/define.ts';
import type { Saved, SavedObjects } from '../projections/administered.ts';
import type { DecidedEvent } from './handle-command.ts';

/** The `evolve` of an object whose newest event is its whole value. Undefined: there is none. */
export function evolveSaved<Schema extends z.ZodObject>(
  saved: EventDefinition<string, Schema>,
  removed: EventDefinition,
) {
  return (state: z.infer<Schema> | undefined, { type, data }: DecidedEvent): z.infer<Schema> | undefined => {
    if (type === saved.type) return saved.data.parse(data);
    return type === removed.type ? undefined : state;
  };
}

/** The objects in force: those that administrators saved, and over them those that the configuration declares. */
export class ObjectsInForce<Value> {
  readonly #saved: () => SavedObjects<Value>;
  readonly #declared: ReadonlyMap<string, Value>;
  #seen: SavedObjects<Value> | undefined;
  #seenVersion = -1;
  #version = 0;

  /** @param saved now, or at an earlier time */
  constructor(saved: () => SavedObjects<Value>, declared: ReadonlyMap<string, Value>) {
    this.#saved = saved;
    this.#declared = declared;
  }

  /** Differs after each change. */
  get version(): number {
    const saved = this.#saved();
    if (saved !== this.#seen || saved.version !== this.#seenVersion) {
      this.#seen = saved;
      this.#seenVersion = saved.version;
      this.#version += 1;
    }
    return this.#version;
  }

  get(key: string): Value | undefined {
    return this.#declared.get(key) ?? this.#saved().byKey.get(key)?.value;
  }

  /** Sorted. */
  get keys(): string[] {
    return [...new Set([...this.#saved().byKey.keys(), ...this.#declared.keys()])].sort();
  }

  isDeclared(key: string): boolean {
    return this.#declared.has(key);
  }

  /** Undefined for a declared one. */
  savedAs(key: string): Saved<Value> | undefined {
    return this.#declared.has(key) ? undefined : this.#saved().byKey.get(key);
  }

  /** A value that is computed from all objects when it is first read after a change. */
  derive<Derived>(compute: (all: ReadonlyMap<string, Value>) => Derived): () => Derived {
    let known: { readonly version: number; readonly value: Derived } | undefined;
    return () => {
      const { version } = this;
      if (known?.version !== version) {
        const all = new Map(Array.from(this.#saved().byKey, ([key, { value }]) => [key, value]));
        for (const [key, value] of this.#declared) all.set(key, value);
        known = { version, value: compute(all) };
      }
      return known.value;
    };
  }
}
