/** The last value that each administrator set for one setting, oldest first. Folded from the events of the setting. */
import type { Actor } from '../../events/event.ts';
import type { Authority } from './authority.ts';

interface Word<Value> {
  readonly by: Actor;
  /** Undefined when the administrator removed the setting. */
  readonly value: Value | undefined;
}

export type Words<Value> = readonly Word<Value>[];

export function withWord<Value>(words: Words<Value> = [], by: Actor, value: Value | undefined): Words<Value> {
  return [...words.filter((word) => word.by !== by), { by, value }];
}

/**
 * The newest value set by a higher-ranked administrator; undefined when there is none, or when it removes the
 * setting.
 */
export function bindingWord<Value>(words: Words<Value> = [], { isUnder }: Authority): Value | undefined {
  return words.findLast(({ by }) => isUnder(by))?.value;
}
