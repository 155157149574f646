/**
 * Executes one command on one stream: the state is loaded, the events are decided and appended at the revision that
 * the decision was based on.
 */

import { guardAdvanced } from '../events/catalogue/gateway.ts';
import {
  type EventContext,
  type NewEvent,
  type Position,
  type RecordedEvent,
  type StreamName,
  streamName,
} from '../events/event.ts';
import {
  type EventLog,
  LogUnavailable,
  newestEvent,
  type StreamWrite,
  WrongExpectedRevision,
  whenNewerEvent,
} from '../events/log.ts';
import { Refusal, refusals } from './refusal.ts';

/** An event as a fold sees it, recorded or not yet. */
export type DecidedEvent = Pick<RecordedEvent, 'type' | 'data' | 'body' | 'context'>;

/** The rules of one kind of stream. All three are pure, and `evolve` accepts every event of the stream. */
export interface Decider<State, Command> {
  readonly initial: State;
  /** `other streams`: commands carry facts of other streams, and are executed under `conditions` on those. */
  readonly dependsOn: 'its stream' | 'other streams';
  /** Returns no events when the state is already the one that the command requests. */
  decide(command: Command, state: State): readonly NewEvent[] | Refusal;
  evolve(state: State, event: DecidedEvent): State;
}

interface LoadedState<State> {
  readonly state: State;
  /** The revision that the next append has to expect. */
  readonly revision: bigint | 'noStream';
}

export interface HandleOptions<State> {
  readonly log: EventLog;
  readonly stream: StreamName;
  /**
   * The revision that the caller read last, from its `If-Match`: a newer one is refused instead of being decided on.
   */
  readonly ifRevision?: bigint | 'noStream' | undefined;
  /**
   * Under which the facts in the command hold: writes that expect revisions of other streams. Required by deciders that
   * depend on other streams.
   */
  readonly conditions?: readonly StreamWrite[];
  /** Awaited with the position of a change: resolves when the read model has it. */
  whenProcessed?(position: Position): Promise<unknown>;
  /** Writes to other streams that go into the same append. */
  alsoWrite?(events: readonly NewEvent[], before: State): readonly StreamWrite[];
}

/** Attempts after concurrent appends by others, before the caller gets 409. */
const MAX_ATTEMPTS = 32;

export async function loadState<State>(
  { initial, evolve }: Pick<Decider<State, never>, 'initial' | 'evolve'>,
  stream: StreamName,
  log: EventLog,
): Promise<LoadedState<State>> {
  let state = initial;
  let revision: LoadedState<State>['revision'] = 'noStream';
  for await (const event of log.readStream(stream)) {
    state = evolve(state, event);
    revision = event.revision;
  }
  return { state, revision };
}

/** The result of a command. */
export interface Handled<State> {
  readonly state: State;
  readonly revision: bigint | 'noStream';
  /** Position of the newest appended event; undefined when the state was already the requested one. */
  readonly position: Position | undefined;
}

/**
 * @returns the state after the command, which is on disk
 * @throws Refusal: the decider's own, 409 when others kept changing the stream, 503 when the log cannot be written;
 *   WrongExpectedRevision of another stream that `conditions` or `alsoWrite` name
 */
export async function handleCommand<State, Command>(
  decider: Decider<State, Command>,
  command: Command,
  options: HandleOptions<State>,
): Promise<State> {
  return (await executeCommand(decider, command, options)).state;
}

/**
 * Like `handleCommand`, and returns the position in the log. @throws Refusal, also 409 when `ifRevision` is not the
 * newest
 */
export async function executeCommand<State, Command>(
  decider: Decider<State, Command>,
  command: Command,
  { log, stream, ifRevision, conditions: given, whenProcessed, alsoWrite }: HandleOptions<State>,
): Promise<Handled<State>> {
  const conditions = given ?? [];
  if (decider.dependsOn === 'other streams' && given === undefined) {
    throw new Error(`a change of ${stream} depends on other streams, and has no conditions on them`);
  }
  for (let attempt = 1; ; attempt++) {
    const { state, revision } = await loadState(decider, stream, log);
    if (ifRevision !== undefined && revision !== ifRevision) throw refusals.revisionMismatch(stream, revision);
    const decided = decider.decide(command, state);
    if (decided instanceof Refusal) throw decided;
    try {
      if (decided.length === 0) {
        await confirmUnchanged(stream, revision, log);
        return { state, revision, position: undefined };
      }
      const others = alsoWrite?.(decided, state) ?? [];
      // Last of all what is in force: other gateways confirm the position of that.
      const { position, revisions } = await log.append([
        ...conditions,
        { stream, events: decided, expectedRevision: revision },
        ...others,
      ]);
      await whenProcessed?.(position);
      const next = decided.reduce<State>((now, event) => decider.evolve(now, event), state);
      return { state: next, revision: revisions[conditions.length] ?? revision, position };
    } catch (error) {
      if (error instanceof LogUnavailable) throw refusals.logUnavailable(error);
      if (!(error instanceof WrongExpectedRevision) || error.stream !== stream) throw error;
      if (attempt === MAX_ATTEMPTS) throw refusals.changedMeanwhile(stream);
      // The concurrent append cannot be read yet; a retry before that would fail again.
      await whenNewerEvent(stream, revision === 'noStream' ? undefined : revision, log);
    }
  }
}

/**
 * Resolves when the newest event of the stream is confirmed: a change that is requested again may have been recorded a
 * moment ago, through another gateway, and not be in force everywhere.
 * @throws WrongExpectedRevision when the stream has changed, LogUnavailable
 */
async function confirmUnchanged(stream: StreamName, revision: bigint | 'noStream', log: EventLog): Promise<void> {
  if (revision !== 'noStream') await log.append([{ stream, events: [], expectedRevision: revision }]);
}

// A rule over several streams, such as that virtual models form no cycle. Each change that can break it is decided on the
// state up to the latest event of the guard stream, and appends to that stream at this revision. Of two changes that two
// gateways decide at the same time, the log therefore refuses one, which is decided again.

/** Where changes are recorded, and the state on which they are decided. */
export interface Decided {
  readonly log: EventLog;
  /** Resolves when the state has everything up to this position. */
  whenProcessed(position: Position): Promise<unknown>;
}

interface GuardOptions extends Decided {
  readonly rule: GuardedRule;
}

/** `virtual-models`: no cycles, bounded depth, no missing names. `workflows`: they name guardrails that exist and fit. */
type GuardedRule = 'virtual-models' | 'workflows';

/** Who makes a change, and the revision that the caller read last. */
export interface RequestedChange {
  readonly context: EventContext;
  readonly ifRevision?: bigint | 'noStream' | undefined;
}

/** Executes a command under the conditions of a guard, and waits until the state has its events. @throws Refusal */
export type ExecuteGuarded = <State, Command>(
  decider: Decider<State, Command>,
  command: Command,
  options: Pick<HandleOptions<State>, 'stream' | 'ifRevision' | 'alsoWrite'>,
) => Promise<Handled<State>>;

export class Guard {
  readonly #options: GuardOptions;
  readonly #stream: StreamName;
  readonly #inTurn = new InTurn();

  constructor(options: GuardOptions) {
    this.#options = options;
    this.#stream = streamName('guard', options.rule);
  }

  /**
   * Runs one change after another; repeats a change when another gateway has made one meanwhile.
   * @param change decides on the present state, and executes a command. It must have no other effects.
   * @throws what `change` throws; Refusal 409, 503
   */
  run<Result>(context: EventContext, change: (execute: ExecuteGuarded) => Promise<Result>): Promise<Result> {
    const { log, whenProcessed } = this.#options;
    const stream = this.#stream;
    return this.#inTurn.run(() =>
      whileConditionsChange(this.#options, async () => {
        const newest = await newestEvent(stream, log);
        if (newest !== undefined) await whenProcessed(newest.position);
        const events = [guardAdvanced.create({}, context)];
        const conditions = [{ stream, events, expectedRevision: newest?.revision ?? ('noStream' as const) }];
        return change((decider, command, options) =>
          executeCommand(decider, command, { ...options, log, conditions, whenProcessed }),
        );
      }),
    );
  }
}

/** Repeats a change whose conditions on other streams do not hold any more. @throws what it throws; Refusal 409, 503 */
export async function whileConditionsChange<Result>(
  { log, whenProcessed }: Decided,
  change: () => Promise<Result>,
): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await change();
    } catch (error) {
      if (error instanceof LogUnavailable) throw refusals.logUnavailable(error);
      if (!(error instanceof WrongExpectedRevision)) throw error;
      const { stream, expected } = error;
      if (attempt === MAX_ATTEMPTS) throw refusals.changedMeanwhile(stream);
      // The concurrent append cannot be read yet; a retry before that would fail again.
      await whenNewerEvent(stream, typeof expected === 'bigint' ? expected : undefined, log);
      await whenProcessed(await log.head());
    }
  }
}

/** Runs one piece of work after another: a decision that depends on other streams must not overlap with their changes. */
class InTurn {
  #last: Promise<unknown> = Promise.resolve();

  /** Starts `work` when everything before it has ended, also when that failed. */
  run<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {});
    return turn;
  }
}
