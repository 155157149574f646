/** One command on one stream: loaded, decided, appended at the very revision it was decided on. */
import type { NewEvent, RecordedEvent, StreamName } from '../events/event.ts';
import {
  type EventLog,
  LogUnavailable,
  StreamNotFound,
  type StreamWrite,
  WrongExpectedRevision,
} from '../events/log.ts';
import { untilMoved } from './newest-event.ts';
import { Refusal, refusals } from './refusal.ts';

/** An event as a fold sees it, before it is recorded or after. */
export type DecidedEvent = Pick<RecordedEvent, 'type' | 'data' | 'body' | 'context'>;

/** What may happen to one kind of stream. All three are pure, and `evolve` accepts every event that there may be. */
export interface Decider<State, Command> {
  readonly initial: State;
  /** No events: the state is what the command wants already. */
  decide(command: Command, state: State): readonly NewEvent[] | Refusal;
  evolve(state: State, event: DecidedEvent): State;
}

export interface LoadedState<State> {
  readonly state: State;
  /** What the next append has to expect. */
  readonly revision: bigint | 'noStream';
}

export interface HandleOptions<State> {
  readonly log: EventLog;
  readonly stream: StreamName;
  /** Writes to other streams that go into the same append. */
  alongside?(events: readonly NewEvent[], before: State): readonly StreamWrite[];
}

/** Others may append between our reading and our writing this many times before the caller is told to try again. */
const MAX_ATTEMPTS = 32;

export async function loadState<State>(
  { initial, evolve }: Pick<Decider<State, never>, 'initial' | 'evolve'>,
  stream: StreamName,
  log: EventLog,
): Promise<LoadedState<State>> {
  let state = initial;
  let revision: LoadedState<State>['revision'] = 'noStream';
  try {
    for await (const event of log.readStream(stream)) {
      state = evolve(state, event);
      revision = event.revision;
    }
  } catch (error) {
    if (!(error instanceof StreamNotFound)) throw error;
  }
  return { state, revision };
}

/**
 * @returns the state after the command, which is on disk by then
 * @throws Refusal: the decider's own, 409 when others kept changing the stream, 503 when the log cannot be written
 */
export async function handleCommand<State, Command>(
  decider: Decider<State, Command>,
  command: Command,
  { log, stream, alongside }: HandleOptions<State>,
): Promise<State> {
  for (let attempt = 1; ; attempt++) {
    const { state, revision } = await loadState(decider, stream, log);
    const decided = decider.decide(command, state);
    if (decided instanceof Refusal) throw decided;
    if (decided.length === 0) return state;
    try {
      const others = alongside?.(decided, state) ?? [];
      await log.append([{ stream, events: decided, expectedRevision: revision }, ...others]);
      return decided.reduce<State>((now, event) => decider.evolve(now, event), state);
    } catch (error) {
      if (error instanceof LogUnavailable) throw refusals.logUnavailable(error);
      if (!(error instanceof WrongExpectedRevision)) throw error;
      if (attempt === MAX_ATTEMPTS) throw refusals.changedMeanwhile(stream);
      // Whoever was faster cannot be read yet; to try again before that would only fail again.
      await untilMoved(stream, revision === 'noStream' ? undefined : revision, log);
    }
  }
}
