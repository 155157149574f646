/** Cancelling a run of another gateway: by an event in the stream of the run, which that gateway follows. */
import { replayCancelRequested, replayFinished } from '../../../events/catalogue/guardrail-replay.ts';
import { type EventContext, idOf, type StreamName } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import { newestEvent } from '../../../events/newest-event.ts';
import { refusals } from '../../refusal.ts';

const WAIT_MS = 15_000;

/** Resolves when the end of the run is recorded. @throws Refusal 503 when it does not end */
export async function cancelRunElsewhere(stream: StreamName, context: EventContext, log: EventLog): Promise<void> {
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
