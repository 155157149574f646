/** Cancelling a background response that another gateway generates: by an event, which that gateway follows. */
import { exchangeEnds } from '../../events/catalogue/exchange.ts';
import { responseCancelRequested } from '../../events/catalogue/response.ts';
import { type EventContext, idOf, type StreamName, streamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { cancellationStream } from '../exchange/background/left-open.ts';
import { refusals } from '../refusal.ts';
import type { StoredResponse } from '../responses/archive.ts';

/**
 * Asks the gateway that generates the response to end it, and waits for the end. One that takes over from a gateway that has
 * ended does so as well.
 * @param waitMs longer than a takeover
 * @returns whether it was generated until now; false when its exchange has ended already
 * @throws Refusal when it does not end
 */
export async function cancelElsewhere(
  { id, exchangeId }: Pick<StoredResponse, 'id' | 'exchangeId'>,
  context: EventContext,
  log: EventLog,
  waitMs: number,
): Promise<boolean> {
  const exchange = streamName('exchange', exchangeId);
  const after = await log.head();
  if (await hasEnded(exchange, log)) return false;
  const events = [responseCancelRequested.create({}, context)];
  await log.append([{ stream: cancellationStream(id), events, expectedRevision: 'any' }]);
  const signal = AbortSignal.timeout(waitMs);
  const filter = { streams: [exchange], types: [...exchangeEnds] };
  for await (const { type } of log.subscribe({ after, filter, signal })) {
    if (type !== '$caughtUp') return true;
  }
  throw refusals.notCancelledYet();
}

async function hasEnded(exchange: StreamName, log: EventLog): Promise<boolean> {
  for await (const { type } of log.readStream(exchange, { direction: 'backwards' })) {
    if (exchangeEnds.has(type)) return true;
  }
  return false;
}

/** Ends the responses that clients of other gateways cancel. Runs until the signal is aborted. */
export async function followCancellations(
  log: EventLog,
  cancel: (responseId: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const filter = { types: [responseCancelRequested.type] };
  for await (const item of log.subscribe({ after: await log.head(), filter, signal })) {
    if (item.type !== '$caughtUp' && 'stream' in item) cancel(idOf(item.stream));
  }
}
