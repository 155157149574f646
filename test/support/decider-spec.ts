/** Specs of a decider: given these events, when this command comes, then these events follow, or this refusal. */
import { expect } from 'vitest';
import type { DecidedEvent, Decider } from '../../src/commands/handle-command.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import type { NewEvent } from '../../src/events/event.ts';

/** A refusal by its code, or by any of its facts. */
type ExpectedRefusal = string | { status?: number; code?: string | null; param?: string | null; message?: unknown };

export interface Outcome<State> {
  /** Events in their order (none: nothing has changed), or a refusal. Contexts and ids are not compared. */
  then(expected: readonly NewEvent[] | ExpectedRefusal): void;
  /** The state after the command's own events. */
  readonly state: State;
}

/** `specify(decider).given(...events).when(command).then([events])`. */
export function specify<State, Command>(decider: Decider<State, Command>) {
  return {
    given(...history: readonly NewEvent[]) {
      const before = evolved(decider, decider.initial, history);
      return {
        state: before,
        when(command: Command): Outcome<State> {
          const decided = decider.decide(command, before);
          return {
            // biome-ignore lint/suspicious/noThenProperty: the word of the method; a specification is never awaited
            then(expected) {
              if (decided instanceof Refusal) expectRefusal(decided, expected);
              else expect(decided.map(facts)).toEqual(Array.isArray(expected) ? expected.map(facts) : expected);
            },
            get state() {
              return decided instanceof Refusal ? before : evolved(decider, before, decided);
            },
          };
        },
      };
    },
  };
}

function evolved<State>(
  { evolve }: Pick<Decider<State, never>, 'evolve'>,
  from: State,
  events: readonly DecidedEvent[],
): State {
  return events.reduce<State>((state, event) => evolve(state, event), from);
}

function expectRefusal(refusal: Refusal, expected: readonly NewEvent[] | ExpectedRefusal): void {
  const { status, code, param, message } = refusal;
  expect({ status, code, param, message }).toMatchObject(typeof expected === 'string' ? { code: expected } : expected);
}

function facts({ type, data, body }: NewEvent) {
  return body === undefined ? { type, data } : { type, data, body };
}
