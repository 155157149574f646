/**
 * The end of work that continued after an answer: its cost is recorded once, by the first process that learns of its
 * end.
 */
import { usageDeferred, usageSettled } from '../../events/catalogue/exchange.ts';
import type { EventContext, NewEvent, StreamName } from '../../events/event.ts';
import { streamName } from '../../events/event.ts';
import { type EventLog, type StreamWrite, WrongExpectedRevision } from '../../events/log.ts';
import { usageEvent } from '../exchange/record/end-events.ts';
import { unknownUsage } from '../model-request/usage.ts';
import type { PricedUsage, Pricing } from '../pricing/pricing.ts';
import type { OpenWork, WorkOutcome } from './open-work.ts';

/** The usage of one model. */
export type WorkSpent = Pick<PricedUsage, 'model' | 'usage' | 'answers' | 'estimate'>;

export interface SettleDependencies {
  readonly log: Pick<EventLog, 'append' | 'readStream'>;
  readonly pricing: Pricing;
}

/**
 * Records the cost of the work and its end, together with `others`.
 * @returns whether this call recorded it: when another call did so before, nothing is appended
 * @throws LogUnavailable; WrongExpectedRevision of one of the others
 */
export async function settleWork(
  work: OpenWork,
  outcome: WorkOutcome,
  spent: readonly WorkSpent[],
  { log, pricing }: SettleDependencies,
  others: readonly StreamWrite[] = [],
): Promise<boolean> {
  const stream = streamName('exchange', work.exchangeId);
  const events = eventsOf(work, outcome, spent, pricing);
  for (;;) {
    const revision = await unsettledRevision(stream, log);
    if (revision === undefined) return false;
    try {
      await log.append([{ stream, events, expectedRevision: revision }, ...others]);
      return true;
    } catch (error) {
      // The stream was changed by a correction of an attempt's cost, or by another call that recorded the end: it is
      // read again.
      if (!(error instanceof WrongExpectedRevision) || error.stream !== stream) throw error;
    }
  }
}

/** Undefined when the cost of the work is on record already. */
async function unsettledRevision(stream: StreamName, log: SettleDependencies['log']): Promise<bigint | undefined> {
  let newest: bigint | undefined;
  for await (const event of log.readStream(stream, { direction: 'backwards' })) {
    newest ??= event.revision;
    if (event.type === usageSettled.type) return undefined;
    if (event.type === usageDeferred.type) return newest;
  }
  return undefined;
}

function eventsOf(work: OpenWork, outcome: WorkOutcome, spent: readonly WorkSpent[], pricing: Pricing): NewEvent[] {
  const { kind, workId, actor, userPath, requestId, provider, providerType, endpoint } = work;
  const context: EventContext = { actor, userPath, requestId };
  const usages = spent.map((one) => {
    const priced = { ...one, provider, providerType, endpoint, answerId: workId };
    return usageEvent(context, priced, pricing.costOf(priced), work);
  });
  return [...usages, usageSettled.create({ kind, workId, outcome }, context)];
}

/** The charge for work of which only the request is known. */
export function spentUnknown({ model, parts }: OpenWork): readonly WorkSpent[] {
  if (parts === undefined) return [{ model, usage: unknownUsage }];
  return parts.map(({ model: named, answers, inputTokens, outputTokens }) => ({
    model: named,
    usage: unknownUsage,
    answers,
    estimate: { inputTokens, outputTokens },
  }));
}
