/** What each administrator said last of one setting, the oldest word first. Folded from the events of the setting. */
import type { Actor } from '../../events/event.ts';
import type { Authority } from './authority.ts';

interface Word<Value> {
  readonly by: Actor;
  /** Undefined: that there be none. */
  readonly value: Value | undefined;
}

export type Words<Value> = readonly Word<Value>[];

export function withWord<Value>(words: Words<Value> = [], by: Actor, value: Value | undefined): Words<Value> {
  return [...words.filter((word) => word.by !== by), { by, value }];
}

/** What the newest word of those sets who stand above; undefined when there is none, or when it removes the setting. */
export function bindingWord<Value>(words: Words<Value> = [], { isUnder }: Authority): Value | undefined {
  return words.findLast(({ by }) => isUnder(by))?.value;
}
