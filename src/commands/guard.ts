/**
 * A rule over several streams, such as that virtual models form no cycle. Each change that can break it is decided on the
 * state up to the latest event of the guard stream, and appends to that stream at this revision. Of two changes that two
 * gateways decide at the same time, the log therefore refuses one, which is decided again.
 */
import { guardAdvanced } from '../events/catalogue/guard.ts';
import { type EventContext, type Position, type StreamName, streamName } from '../events/event.ts';
import { type EventLog, LogUnavailable, type StreamWrite, WrongExpectedRevision } from '../events/log.ts';
import { newestEvent, whenNewerEvent } from '../events/newest-event.ts';
import { refusals } from './refusal.ts';

/** Where changes are recorded, and the state on which they are decided. */
export interface Decided {
  readonly log: EventLog;
  /** Resolves when the state has everything up to this position. */
  whenProcessed(position: Position): Promise<unknown>;
}

export interface GuardOptions extends Decided {
  readonly rule: GuardedRule;
}

/** `virtual-models`: no cycles, bounded depth, no missing names. `workflows`: they name guardrails that exist and fit. */
export type GuardedRule = 'virtual-models' | 'workflows';

/** Attempts after changes by other gateways, before the caller gets 409. */
const MAX_ATTEMPTS = 32;

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
   * @param change decides on the present state, and appends under the conditions. It must have no other effects.
   * @throws what `change` throws; Refusal 409, 503
   */
  run<Result>(context: EventContext, change: (conditions: readonly StreamWrite[]) => Promise<Result>): Promise<Result> {
    const { log, whenProcessed } = this.#options;
    const stream = this.#stream;
    return this.#inTurn.run(() =>
      whileConditionsChange(this.#options, async () => {
        const newest = await newestEvent(stream, log);
        if (newest !== undefined) await whenProcessed(newest.position);
        const events = [guardAdvanced.create({}, context)];
        return change([{ stream, events, expectedRevision: newest?.revision ?? 'noStream' }]);
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
