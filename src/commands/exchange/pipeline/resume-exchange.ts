/**
 * After a restart: generates a background response of which no chunk was recorded. It can be cancelled or deleted at
 * any time, also before its provider is known to be available.
 */
import { exchangeResumed } from '../../../events/catalogue/exchange.ts';
import { LogUnavailable } from '../../../events/log.ts';
import { responseCancelled } from '../../model-request/stream-refusals.ts';
import { isPending } from '../../responses/pending-response.ts';
import { responseIdOf } from '../../responses/response-id.ts';
import { everything } from '../../visibility.ts';
import {
  inProgressWrite,
  type PendingResponse,
  storedPendingResponse,
} from '../background/announce-pending-response.ts';
import type { ResumableExchange } from '../background/resumable-exchange.ts';
import * as events from '../record/end-events.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import { runPipeline } from './run-exchange.ts';
import { RunningExchange } from './running-exchange.ts';

/** Never rejects. */
export async function resumeExchange(resumable: ResumableExchange, deps: ExchangeDependencies): Promise<void> {
  const { record, resumed, recordedAfter } = resumable;
  deps.open.begun(record.stream, recordedAfter);
  const id = responseIdOf(record.id);
  const client = deps.detached.detach(resumable.client, id);
  try {
    record.note(exchangeResumed.create({ attempts: resumed.attempts }, record.context));
    const pending = await takeOver(id, resumable, deps);
    if (pending !== undefined) {
      const exchange = new RunningExchange({ ...resumable, client }, resumed);
      exchange.pendingResponse = pending;
      return await runPipeline(exchange, deps);
    }
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
 * Records the new state of the pending response and returns it; undefined when the response has ended already.
 * @throws LogUnavailable
 */
async function takeOver(
  id: string,
  { record }: ResumableExchange,
  deps: ExchangeDependencies,
): Promise<PendingResponse | undefined> {
  const stored = await deps.archive.find(id, everything);
  if (stored === undefined || !isPending(stored)) return undefined;
  const pending = storedPendingResponse(stored, record);
  return (await record.flushIf(inProgressWrite(pending, stored))) ? pending : undefined;
}
