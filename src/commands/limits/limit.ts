/**
 * Commands and events of the limits of one subject, of which it may have one for each period. Budgets and rate limits
 * are the two kinds: they differ in their unit.
 */
import type { EventContext, NewEvent, Position, StreamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import type { LimitEvents, LimitName, LimitSubject } from '../../projections/limits.ts';
import { type Authority, bindingValue, type ValuesByAdministrator, withValue } from '../access/authority.ts';
import { type Decider, executeCommand } from '../handle-command.ts';
import { type Refusal, refusals } from '../refusal.ts';

type Source = { readonly source: 'manual' | 'config' };

/** What differs between budgets and rate limits. */
export interface LimitKind<Scope extends string, Value extends object>
  extends LimitEvents<LimitName<Scope> & Value & Source, LimitName<Scope>> {
  /** `budget`. */
  readonly noun: string;
  /** The code of the error when there is none. */
  readonly notFound: string;
  streamOf(of: LimitSubject<Scope>): StreamName;
  /** Seconds, from a word or a number in text; undefined when it is no period of such a limit. */
  periodOf(text: string): number | undefined;
  periodLabel(seconds: number): string;
  /** Whether the value admits no more than the bound. */
  isWithin(bound: Value, value: Value): boolean;
  textOf(value: Value): string;
  /** For a limit that the configuration declares. */
  managed(name: string): Refusal;
}

interface PeriodLimit<Value> {
  /** Undefined when there is none. */
  readonly current: (Value & Source) | undefined;
  /** The values that administrators set. */
  readonly values: ValuesByAdministrator<Value>;
}

/** The limits of a subject by the seconds of their period, including removed ones. */
export type SubjectLimits<Value> = ReadonlyMap<number, PeriodLimit<Value>>;

export interface DeclaredLimit<Value> {
  readonly periodSeconds: number;
  readonly value: Value;
}

export type LimitCommand<Scope extends string, Value> = {
  readonly of: LimitSubject<Scope>;
  readonly context: EventContext;
} & (
  | { readonly do: 'set'; readonly periodSeconds: number; readonly value: Value; readonly authority: Authority }
  | { readonly do: 'remove' | 'reset'; readonly periodSeconds: number; readonly authority: Authority }
  /** All limits that the configuration declares for the subject; those declared before are removed. */
  | { readonly do: 'declare'; readonly limits: readonly DeclaredLimit<Value>[] }
);

export function limitDecider<Scope extends string, Value extends object>(
  kind: LimitKind<Scope, Value>,
): Decider<SubjectLimits<Value>, LimitCommand<Scope, Value>> {
  const isSame = (one: Value, other: Value) => kind.isWithin(one, other) && kind.isWithin(other, one);

  function declare(
    of: LimitSubject<Scope>,
    limits: readonly DeclaredLimit<Value>[],
    state: SubjectLimits<Value>,
    context: EventContext,
  ): NewEvent[] {
    const declared = new Map(limits.map(({ periodSeconds, value }) => [periodSeconds, value]));
    const gone = [...state].filter(([seconds, { current }]) => current?.source === 'config' && !declared.has(seconds));
    const changed = [...declared].filter(([seconds, value]) => {
      const current = state.get(seconds)?.current;
      return current?.source !== 'config' || !isSame(current, value);
    });
    return [
      ...gone.map(([periodSeconds]) => kind.removed.create({ ...of, periodSeconds }, context)),
      ...changed.map(([periodSeconds, value]) =>
        kind.set.create({ ...of, periodSeconds, ...value, source: 'config' }, context),
      ),
    ];
  }

  return {
    initial: new Map(),
    dependsOn: 'its stream',
    decide(command, state) {
      const { of, context } = command;
      if (command.do === 'declare') return declare(of, command.limits, state, context);
      const { periodSeconds, authority } = command;
      const { current, values } = state.get(periodSeconds) ?? { current: undefined, values: [] };
      const name = `${of.subject} ${kind.periodLabel(periodSeconds)}`;
      const bound = bindingValue(values, authority);
      const tooLoose = (by: Value) => refusals.setByHigherAdministrator(`The ${kind.noun} ${name}`, kind.textOf(by));
      if (current?.source === 'config' && command.do !== 'reset') return kind.managed(name);
      if (command.do === 'set') {
        if (current !== undefined && isSame(current, command.value)) return [];
        if (bound !== undefined && !kind.isWithin(bound, command.value)) return tooLoose(bound);
        return [kind.set.create({ ...of, periodSeconds, ...command.value, source: 'manual' }, context)];
      }
      if (current === undefined) return refusals.notFound(kind.noun, name, kind.notFound);
      if (bound !== undefined) return tooLoose(bound);
      return [kind[command.do === 'reset' ? 'reset' : 'removed'].create({ ...of, periodSeconds }, context)];
    },
    evolve(state, { type, data, context: { actor } }) {
      const next = new Map(state);
      const values = (seconds: number, value: Value | undefined) => withValue(state.get(seconds)?.values, actor, value);
      if (type === kind.set.type) {
        const current = kind.set.data.parse(data);
        next.set(current.periodSeconds, { current, values: values(current.periodSeconds, current) });
      } else if (type === kind.removed.type) {
        const { periodSeconds } = kind.removed.data.parse(data);
        next.set(periodSeconds, { current: undefined, values: values(periodSeconds, undefined) });
      }
      return next;
    },
  };
}

/**
 * Resets limits in one append: all of them restart at the same position in the log, or none does.
 * @returns the position; undefined when there is no limit. @throws LogUnavailable
 */
export async function resetLimits<Scope extends string, Value extends object>(
  kind: LimitKind<Scope, Value>,
  limits: Iterable<LimitName<Scope>>,
  context: EventContext,
  log: EventLog,
): Promise<Position | undefined> {
  const streams = Map.groupBy(limits, kind.streamOf);
  if (streams.size === 0) return undefined;
  // A reset is compatible with every other change, so no revision is expected.
  const { position } = await log.append(
    [...streams].map(([stream, found]) => ({
      stream,
      events: found.map(({ scope, subject, periodSeconds }) =>
        kind.reset.create({ scope, subject, periodSeconds }, context),
      ),
      expectedRevision: 'exists' as const,
    })),
  );
  return position;
}

/**
 * Records the limits that the configuration declares, where they differ from the log.
 * @param stored the existing ones
 * @returns the position of the last change; undefined without a change
 */
export async function declareLimits<Scope extends string, Value extends object>(
  kind: LimitKind<Scope, Value>,
  declared: readonly (LimitSubject<Scope> & DeclaredLimit<Value>)[],
  stored: Iterable<LimitSubject<Scope> & Source>,
  log: EventLog,
): Promise<Position | undefined> {
  const decider = limitDecider(kind);
  const subjects = new Map<StreamName, LimitSubject<Scope>>();
  const before = [...stored].filter(({ source }) => source === 'config');
  for (const { scope, subject } of [...declared, ...before]) {
    subjects.set(kind.streamOf({ scope, subject }), { scope, subject });
  }
  let last: Position | undefined;
  for (const [stream, of] of subjects) {
    const limits = declared.filter((one) => kind.streamOf(one) === stream);
    const command = { do: 'declare', of, limits, context: { actor: 'system' } } as const;
    const { position } = await executeCommand(decider, command, { log, stream });
    last = position ?? last;
  }
  return last;
}
