/**
 * After the gateway went down: a background response of which nothing had been said is made after all. It can be
 * cancelled or deleted from the first moment on, also before anybody knows whether its provider is still there.
 */
import { exchangeResumed } from '../../../events/catalogue/exchange.ts';
import { LogUnavailable } from '../../../events/log.ts';
import { responseCancelled } from '../../model-request/stream-refusals.ts';
import { isPending } from '../../responses/pending-response.ts';
import { everything } from '../../visibility.ts';
import { inProgressWrite, type PromisedResponse, storedPromise } from '../background/background.ts';
import { responseIdOf } from '../dialects/responses/responses-dialect.ts';
import * as events from '../record/end-events.ts';
import { answer, type ExchangeDependencies } from './exchange.ts';
import type { ResumableRun } from './run.ts';

/** Never throws. */
export async function resumeExchange(run: ResumableRun, deps: ExchangeDependencies): Promise<void> {
  const { record, begun } = run;
  deps.open.begun(record.stream, run.recordedAfter);
  const id = responseIdOf(record.id);
  const client = deps.detached.detach(run.client, id);
  try {
    record.note(exchangeResumed.create({ attempts: begun.attempts }, record.context));
    const promise = await taken(id, run, deps);
    if (promise !== undefined) return await answer({ ...run, client, begun: { ...begun, promise } }, deps);
    events.noteFailed(record, responseCancelled(), { status: 0, reason: 'cancelled', chunks: 0 });
    await record.flush('durable');
  } catch (error) {
    if (error instanceof LogUnavailable) deps.open.leftOpen(record.stream);
    else deps.failed(error);
  }
  deps.open.over(record.stream);
  deps.detached.over(id);
}

/**
 * The promise, once it is on record that it is being kept; undefined when somebody ended the response before.
 * @throws LogUnavailable
 */
async function taken(
  id: string,
  { record }: ResumableRun,
  deps: ExchangeDependencies,
): Promise<PromisedResponse | undefined> {
  const stored = await deps.archive.find(id, everything);
  if (stored === undefined || !isPending(stored)) return undefined;
  const promise = storedPromise(stored, record);
  return (await record.flushIf(inProgressWrite(promise, stored))) ? promise : undefined;
}
