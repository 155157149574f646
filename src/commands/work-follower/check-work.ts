/** Queries the provider for the state of some work, as its client could, and records its cost once it is over. */
import type { EventContext } from '../../events/event.ts';
import type { Provider } from '../../providers/provider.ts';
import type { DeferredUsage } from '../deferred/deferred-usage.ts';
import type { OpenWork } from '../deferred/open-work.ts';
import { outcomeIn } from '../deferred/work-end.ts';
import { askProvider } from '../provider-objects/ask-provider.ts';
import { batchKindOf } from '../provider-objects/tracked.ts';
import { Refusal } from '../refusal.ts';
import { callAboutResponse, type KeepDependencies, keepIfEnded } from '../response-lifecycle/lifecycle.ts';
import { isPending } from '../responses/pending-response.ts';
import { everything } from '../visibility.ts';

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
