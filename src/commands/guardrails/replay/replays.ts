/** The runs of drafts: one at a time, recorded when they start and when they end. Those of other gateways are found too. */
import type { z } from 'zod';
import { replayCancelRequested, replayFinished, replayStarted } from '../../../events/catalogue/guardrail.ts';
import {
  type EventContext,
  idOf,
  type NewEvent,
  type Position,
  type StreamName,
  streamName,
} from '../../../events/event.ts';
import { type EventLog, type ExpectedRevision, LogUnavailable, newestEvent } from '../../../events/log.ts';
import { refusals } from '../../refusal.ts';
import type { CheckedDraft } from './draft.ts';
import type { ReplayResult } from './result.ts';
import { type ReplayOptions, type ReplayProgress, ReplayRun, type RunDependencies } from './run-replay.ts';

type ReplayFacts = z.infer<typeof replayStarted.data>;
type ReplayOutcome = z.infer<typeof replayFinished.data>['outcome'];

export interface Replay {
  readonly id: string;
  readonly status: 'running' | ReplayOutcome;
  readonly startedAt: number;
  /** Who started it. */
  readonly actor: string;
  /** Undefined when the run was cut before its end was recorded. */
  readonly result: ReplayResult | undefined;
  /** While it runs. */
  readonly progress?: ReplayProgress | undefined;
  readonly durationMs?: number | undefined;
  readonly error?: string | undefined;
  readonly facts: ReplayFacts;
}

interface ReplaysOptions {
  readonly log: EventLog;
  /** Id of this gateway. */
  readonly gateway: string;
  /** Whether the lease of a gateway lasts. */
  isServing(gateway: string): boolean;
  /** The newest runs, the oldest first. */
  recorded(): Iterable<RecordedRun>;
  newId(): string;
  /** Resolves when the list of runs has processed everything up to this position. */
  whenProcessed(position: Position): Promise<void>;
  /** The parts of a run, with the workflows that are in force now. */
  runDependencies(): RunDependencies;
  /** An error that ended a run. */
  failed(error: unknown): void;
}

/** A run in the list of runs. */
interface RecordedRun {
  readonly id: string;
  readonly outcome?: ReplayOutcome | undefined;
  readonly gateway?: string | undefined;
}

interface Running {
  readonly run: ReplayRun;
  readonly started: Omit<Replay, 'result' | 'status'>;
  readonly stop: AbortController;
  outcome: 'cancelled' | 'interrupted';
  ended: Promise<void>;
}

export class GuardrailReplays {
  readonly #options: ReplaysOptions;
  #running: Running | undefined;
  #isStarting = false;

  constructor(options: ReplaysOptions) {
    this.#options = options;
  }

  /**
   * Records the start and begins the run.
   * @throws Refusal 409 while another run goes on, 503 when the log cannot be written
   */
  async start(draft: CheckedDraft, options: ReplayOptions, context: EventContext): Promise<Replay> {
    const { recorded } = this.#options;
    if (this.#running !== undefined || this.#isStarting) throw refusals.replayRunning(this.#running?.started.id);
    const other = [...recorded()].find((run) => this.isRunning(run));
    if (other !== undefined) throw refusals.replayRunning(other.id);
    this.#isStarting = true;
    try {
      const { newId, gateway, runDependencies } = this.#options;
      const id = newId();
      const facts = { ...factsOf(id, draft, options), gateway };
      const startedAt = Date.now();
      await this.#append(id, replayStarted.create(facts, context), 'noStream').catch((error: unknown) => {
        throw error instanceof LogUnavailable ? refusals.logUnavailable(error) : error;
      });
      const run = new ReplayRun(id, draft, options, runDependencies());
      const started = { id, startedAt, actor: context.actor, facts };
      const stop = new AbortController();
      const running: Running = { run, started, stop, outcome: 'cancelled', ended: Promise.resolve() };
      this.#running = running;
      running.ended = this.#follow(running, context);
      return viewOf(running);
    } finally {
      this.#isStarting = false;
    }
  }

  /** Whether it goes on, here or in another gateway. */
  isRunning({ id, outcome, gateway }: RecordedRun): boolean {
    if (outcome !== undefined) return false;
    if (gateway === undefined || gateway === this.#options.gateway) return this.#running?.started.id === id;
    return this.#options.isServing(gateway);
  }

  /** Undefined when there is no such run. */
  async get(id: string): Promise<Replay | undefined> {
    if (this.#running?.started.id === id) return viewOf(this.#running);
    const found = await readReplay(id, this.#options.log);
    const isRunning = found?.status === 'interrupted' && found.result === undefined && this.isRunning(runOf(found));
    return isRunning ? { ...found, status: 'running' } : found;
  }

  /** Resolves when the run has ended and its end is recorded; a run that has ended stays as it is. */
  async cancel(id: string, context: EventContext): Promise<Replay | undefined> {
    const { log } = this.#options;
    if (this.#running?.started.id === id) await this.#end('cancelled');
    else if ((await this.get(id))?.status === 'running') await cancelRunElsewhere(replayStream(id), context, log);
    return this.get(id);
  }

  /** Ends this run as cancelled if it goes on here. */
  cancelHere(id: string): void {
    if (this.#running?.started.id === id) void this.#end('cancelled');
  }

  /** Ends the run that goes on; its result so far is recorded. */
  async stop(): Promise<void> {
    await this.#end('interrupted');
  }

  async #end(outcome: Running['outcome']): Promise<void> {
    const running = this.#running;
    if (running === undefined) return;
    if (!running.stop.signal.aborted) running.outcome = outcome;
    running.stop.abort();
    await running.ended;
  }

  async #append(id: string, event: NewEvent, expectedRevision: ExpectedRevision): Promise<void> {
    const { log, whenProcessed } = this.#options;
    const { position } = await log.append([{ stream: replayStream(id), events: [event], expectedRevision }]);
    await whenProcessed(position);
  }

  /** Never rejects. */
  async #follow(running: Running, context: EventContext): Promise<void> {
    const { run, started, stop } = running;
    let outcome: ReplayOutcome = 'completed';
    let error: string | undefined;
    try {
      await run.run(stop.signal);
    } catch (thrown) {
      if (!stop.signal.aborted) {
        outcome = 'failed';
        error = thrown instanceof Error ? thrown.message : String(thrown);
        this.#options.failed(thrown);
      }
    }
    if (stop.signal.aborted) outcome = running.outcome;
    const durationMs = Date.now() - started.startedAt;
    const data = { id: started.id, outcome, durationMs, result: run.result(), ...(error !== undefined && { error }) };
    try {
      const { actor, requestId } = context;
      const event = replayFinished.create(data, { actor, ...(requestId !== undefined && { requestId }) });
      await this.#append(started.id, event, 'exists');
    } catch (thrown) {
      // The run then reads as interrupted.
      this.#options.failed(thrown);
    } finally {
      this.#running = undefined;
    }
  }
}

/** The run of one without a recorded end. */
function runOf({ id, facts }: Replay): RecordedRun {
  return { id, gateway: facts.gateway };
}

function viewOf({ run, started }: Running): Replay {
  return { ...started, status: 'running', progress: run.progress, result: run.result() };
}

/** A run as it is recorded. One without an end was cut by a stop. */
async function readReplay(id: string, log: Pick<EventLog, 'readStream'>): Promise<Replay | undefined> {
  let found: Replay | undefined;
  for await (const { type, data, at, context } of log.readStream(replayStream(id))) {
    if (type === replayStarted.type) {
      const facts = replayStarted.data.parse(data);
      found = { id, status: 'interrupted', startedAt: Math.floor(at), actor: context.actor, facts, result: undefined };
    } else if (type === replayFinished.type && found !== undefined) {
      const { outcome, durationMs, error, result } = replayFinished.data.parse(data);
      found = { ...found, status: outcome, durationMs, error, result };
    }
  }
  return found;
}

function replayStream(id: string): StreamName {
  return streamName('replay', id);
}

function factsOf(
  id: string,
  draft: CheckedDraft,
  { range, sample, maxCost, maxRequests }: ReplayOptions,
): Omit<ReplayFacts, 'gateway'> {
  const { scope, payload, sha256, guardrails } = draft;
  return {
    id,
    scope,
    payload,
    draftSha256: sha256,
    guardrails: guardrails.map(({ secrets: _secrets, ...definition }) => definition),
    from: range.from,
    until: range.until,
    ...(range.userPath !== undefined && { userPath: range.userPath }),
    sample,
    ...(maxCost !== undefined && { maxCost }),
    maxRequests,
  };
}

/** Cancelling a run of another gateway: by an event in the stream of the run, which that gateway follows. */
const WAIT_MS = 15_000;

/** Resolves when the end of the run is recorded. @throws Refusal 503 when it does not end */
async function cancelRunElsewhere(stream: StreamName, context: EventContext, log: EventLog): Promise<void> {
  const after = await log.head();
  if ((await newestEvent(stream, log))?.type === replayFinished.type) return;
  await log.append([{ stream, events: [replayCancelRequested.create({}, context)], expectedRevision: 'exists' }]);
  const signal = AbortSignal.timeout(WAIT_MS);
  const filter = { streams: [stream], types: [replayFinished.type] };
  for await (const { type } of log.subscribe({ after, filter, signal })) {
    if (type !== '$caughtUp') return;
  }
  throw refusals.replayNotCancelledYet();
}

/** Ends the runs that administrators cancel through other gateways, until the signal is aborted. */
export async function followCancelledRuns(
  log: EventLog,
  cancel: (id: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const filter = { types: [replayCancelRequested.type] };
  for await (const item of log.subscribe({ after: await log.head(), filter, signal })) {
    if (item.type !== '$caughtUp' && 'stream' in item) cancel(idOf(item.stream));
  }
}
