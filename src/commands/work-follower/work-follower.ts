/**
 * Queries providers for the state of open work, also without a client: soon at first, then less and less often. It
 * starts with the work in the log, so that a restart loses none.
 */
import type { EpochMs, EventContext, StreamName } from '../../events/event.ts';
import type { OpenWork } from '../../projections/deferred-usage.ts';
import type { Provider } from '../../providers/provider.ts';
import type { DeferredUsage } from '../deferred/deferred-usage.ts';
import { outcomeIn } from '../deferred/open-work.ts';
import { askProvider } from '../provider-objects/ask-provider.ts';
import { batchKindOf } from '../provider-objects/tracked.ts';
import { Refusal } from '../refusal.ts';
import { callAboutResponse, type KeepDependencies, keepIfEnded } from '../response-lifecycle/lifecycle.ts';
import { isPending } from '../responses/storable-response.ts';
import { everything } from '../visibility.ts';

interface WorkFollowerOptions {
  /** The work that is not over, by the stream of its exchange. */
  readonly open: () => ReadonlyMap<StreamName, OpenWork>;
  /**
   * Checks one of them, and records its cost when it is over.
   * @param isTooOld the provider will not be queried again
   * @returns whether it is over
   */
  readonly look: (work: OpenWork, isTooOld: boolean, signal: AbortSignal) => Promise<boolean>;
  readonly now: () => EpochMs;
  readonly onError: (error: unknown) => void;
  /** Interval in ms at which it checks whether a query is due. Default 250. */
  readonly tickMs?: number;
}

interface Turn {
  dueAt: number;
  pauseMs: number;
}

const TICK_MS = 250;
const FIRST_PAUSE_MS = 1_000;
const GROWTH = 1.5;
const LONGEST_PAUSE_MS = { response: 30_000, batch: 120_000 };
/**
 * A batch may take a day, and its provider some more time to report its end; no provider keeps an unfinished response
 * longer.
 */
const TOO_OLD_MS = { response: 24 * 3600_000, batch: 4 * 24 * 3600_000 };
/** Maximum number of concurrent queries. */
const MAX_CONCURRENT = 4;
/** Pause after the end of work that the projection has not processed yet. */
const OVER_MS = 60_000;

export class WorkFollower {
  readonly #options: WorkFollowerOptions;
  readonly #turns = new Map<StreamName, Turn>();
  readonly #checking = new Map<StreamName, Promise<void>>();
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: WorkFollowerOptions) {
    this.#options = options;
  }

  begin(): void {
    this.#timer = setInterval(() => this.#tick(), this.#options.tickMs ?? TICK_MS);
    this.#timer.unref();
  }

  /** Resolves when no query to a provider is running. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopping.abort();
    await Promise.all(this.#checking.values());
  }

  #tick(): void {
    const { open, now } = this.#options;
    const works = open();
    if (works.size === 0 && this.#turns.size === 0) return;
    for (const stream of this.#turns.keys()) if (!works.has(stream)) this.#turns.delete(stream);
    const at = now();
    for (const [stream, work] of works) {
      if (this.#checking.size >= MAX_CONCURRENT) return;
      let turn = this.#turns.get(stream);
      if (turn === undefined) {
        turn = { dueAt: Math.max(at, work.since + FIRST_PAUSE_MS), pauseMs: FIRST_PAUSE_MS };
        this.#turns.set(stream, turn);
      }
      if (turn.dueAt > at || this.#checking.has(stream)) continue;
      const checking = this.#check(work, turn).finally(() => this.#checking.delete(stream));
      this.#checking.set(stream, checking);
    }
  }

  async #check(work: OpenWork, turn: Turn): Promise<void> {
    const { look, now, onError } = this.#options;
    let isOver = false;
    try {
      isOver = await look(work, now() - work.since > TOO_OLD_MS[work.kind], this.#stopping.signal);
    } catch (error) {
      if (!this.#stopping.signal.aborted) onError(error);
    }
    turn.pauseMs = Math.min(turn.pauseMs * GROWTH, LONGEST_PAUSE_MS[work.kind]);
    turn.dueAt = now() + (isOver ? OVER_MS : turn.pauseMs);
  }
}

/** Queries the provider for the state of some work, as its client could, and records its cost once it is over. */
export interface CheckDependencies extends Omit<KeepDependencies, 'deferred'> {
  readonly deferred: DeferredUsage;
  provider(name: string): Provider | undefined;
}

/** Milliseconds allowed for one query. */
const CHECK_TIMEOUT_MS = 5 * 60_000;

/** @returns whether the work is over and its cost recorded. @throws LogUnavailable */
export async function checkWork(
  work: OpenWork,
  isTooOld: boolean,
  stopping: AbortSignal,
  deps: CheckDependencies,
): Promise<boolean> {
  const signal = AbortSignal.any([stopping, AbortSignal.timeout(CHECK_TIMEOUT_MS)]);
  const isOver = await checkWithProvider(work, signal, deps).catch((error: unknown) => {
    // The state is unknown now: the provider is busy or unavailable, or the file does not exist yet.
    if (error instanceof Refusal) return false;
    throw error;
  });
  if (isOver === 'unknown' || (!isOver && isTooOld && !stopping.aborted)) {
    await deps.deferred.settleAtEstimate(work, 'lost');
    return true;
  }
  return isOver;
}

/** `unknown`: the provider does not have it. @throws Refusal when the state cannot be determined now */
async function checkWithProvider(
  work: OpenWork,
  signal: AbortSignal,
  deps: CheckDependencies,
): Promise<boolean | 'unknown'> {
  const requestId = work.requestId ?? work.exchangeId;
  return work.kind === 'batch'
    ? checkBatch(work, { requestId, signal }, deps)
    : responseOver(work, { requestId, signal }, deps);
}

interface Question {
  readonly requestId: string;
  readonly signal: AbortSignal;
}

async function checkBatch(work: OpenWork, question: Question, deps: CheckDependencies): Promise<boolean | 'unknown'> {
  const provider = deps.provider(work.provider);
  if (provider === undefined) return false;
  const path = `${batchKindOf(provider).endpoint}/${encodeURIComponent(work.workId)}`;
  const batch = await askProvider(provider, { method: 'GET', path, ...question });
  if (batch === undefined) return 'unknown';
  if (outcomeIn(batch) === undefined) return false;
  await deps.deferred.settleBatch(provider, { ...batch, id: work.workId }, question);
  return true;
}

async function responseOver(work: OpenWork, question: Question, deps: CheckDependencies): Promise<boolean | 'unknown'> {
  const { workId: id } = work;
  const stored = await deps.archive.find(id, everything);
  if (stored !== undefined && !isPending(stored)) {
    // The end was stored before this work was known to be open.
    await deps.deferred.responseSeen(work.provider, id, stored.response, []);
    return true;
  }
  const provider = deps.provider(work.provider);
  if (provider === undefined) return false;
  const found = await callAboutResponse(provider, 'GET', '', { id, query: '', ...question });
  if (found === undefined) return 'unknown';
  if (outcomeIn(found) === undefined) return false;
  const context: EventContext = { actor: 'system', userPath: work.userPath, requestId: work.requestId };
  if (stored === undefined) await deps.deferred.responseSeen(work.provider, id, found, []);
  else await keepIfEnded(stored, found, { context }, deps);
  return true;
}
