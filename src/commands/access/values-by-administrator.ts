/** The last value that each administrator set for one setting, oldest first. Folded from the events of the setting. */
import type { Actor } from '../../events/event.ts';
import type { Authority } from './authority.ts';

interface AdministratorValue<Value> {
  readonly by: Actor;
  /** Undefined when the administrator removed the setting. */
  readonly value: Value | undefined;
}

export type ValuesByAdministrator<Value> = readonly AdministratorValue<Value>[];

export function withValue<Value>(
  values: ValuesByAdministrator<Value> = [],
  by: Actor,
  value: Value | undefined,
): ValuesByAdministrator<Value> {
  return [...values.filter((word) => word.by !== by), { by, value }];
}

/**
 * The newest value set by a higher-ranked administrator; undefined when there is none, or when it removes the
 * setting.
 */
export function bindingValue<Value>(
  values: ValuesByAdministrator<Value> = [],
  { isUnder }: Authority,
): Value | undefined {
  return values.findLast(({ by }) => isUnder(by))?.value;
}
