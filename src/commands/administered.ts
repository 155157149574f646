/**
 * Objects that administrators save and remove, and that the configuration may declare: the part of their decisions
 * and of their use that is the same for all kinds.
 */
import type { z } from 'zod';
import type { EventDefinition } from '../events/catalogue/define.ts';
import type { EventContext } from '../events/event.ts';
import type { AdministeredKind, Saved, SavedObjects } from '../projections/administered.ts';
import { canonicalJson } from './canonical-json.ts';
import type { DecidedEvent, Decider } from './handle-command.ts';
import { refusals } from './refusal.ts';

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

/** The command on an object that depends on nothing else. */
export type ObjectCommand<Value> = {
  readonly key: string;
  readonly context: EventContext;
  /** Whether the caller may know this object. */
  isVisible(value: Value): boolean;
} & ({ readonly kind: 'save'; readonly value: Value } | { readonly kind: 'remove' });

/** @param noun of the kind, in errors */
export function objectDecider<Schema extends z.ZodObject>(
  { saved, removed, key: member }: AdministeredKind<Schema>,
  noun: string,
): Decider<z.infer<Schema> | undefined, ObjectCommand<z.infer<Schema>>> {
  return {
    initial: undefined,
    dependsOn: 'its stream',
    decide({ key, context, isVisible, ...command }, state) {
      if (state === undefined ? command.kind === 'remove' : !isVisible(state)) return refusals.notFound(noun, key);
      if (command.kind === 'save') {
        const isSame = state !== undefined && canonicalJson(state) === canonicalJson(command.value);
        return isSame ? [] : [saved.create(command.value, context)];
      }
      return [removed.create({ [member]: key }, context)];
    },
    evolve: evolveSaved(saved, removed),
  };
}

/** The objects in force: those that administrators saved, and over them those that the configuration declares. */
export class ObjectsInForce<Value> {
  readonly #saved: { readonly state: SavedObjects<Value> };
  readonly #declared: Map<string, Value>;
  #seen: SavedObjects<Value> | undefined;
  #seenVersion = -1;
  #version = 0;

  /**
   * @param saved now, or at an earlier time
   * @param declared changes with `redeclare`
   */
  constructor(saved: { readonly state: SavedObjects<Value> }, declared: Map<string, Value>) {
    this.#saved = saved;
    this.#declared = declared;
  }

  /** Differs after each change. */
  get version(): number {
    const saved = this.#saved.state;
    if (saved !== this.#seen || saved.version !== this.#seenVersion) {
      this.#seen = saved;
      this.#seenVersion = saved.version;
      this.#version += 1;
    }
    return this.#version;
  }

  /** Replaces the objects that the configuration declares. */
  redeclare(declared: ReadonlyMap<string, Value>): void {
    const entries = [...declared];
    this.#declared.clear();
    for (const [key, value] of entries) this.#declared.set(key, value);
    this.#version += 1;
  }

  get(key: string): Value | undefined {
    return this.#declared.get(key) ?? this.#saved.state.byKey.get(key)?.value;
  }

  /** Sorted. */
  get keys(): string[] {
    return [...new Set([...this.#saved.state.byKey.keys(), ...this.#declared.keys()])].sort();
  }

  isDeclared(key: string): boolean {
    return this.#declared.has(key);
  }

  /** Undefined for a declared one. */
  savedAs(key: string): Saved<Value> | undefined {
    return this.#declared.has(key) ? undefined : this.#saved.state.byKey.get(key);
  }

  /** A value that is computed from all objects when it is first read after a change. */
  derive<Derived>(compute: (all: ReadonlyMap<string, Value>) => Derived): () => Derived {
    let known: { readonly version: number; readonly value: Derived } | undefined;
    return () => {
      const { version } = this;
      if (known?.version !== version) {
        const all = new Map(Array.from(this.#saved.state.byKey, ([key, { value }]) => [key, value]));
        for (const [key, value] of this.#declared) all.set(key, value);
        known = { version, value: compute(all) };
      }
      return known.value;
    };
  }
}
