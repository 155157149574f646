/** Removes answers from the response cache. They stay on the record of their exchanges. */
import { cachePurged } from '../../../events/catalogue/cache.ts';
import { type EventContext, type Position, streamName } from '../../../events/event.ts';
import { type EventLog, LogUnavailable } from '../../../events/log.ts';
import { refusals } from '../../refusal.ts';

/** The answers that match every given member; without any, all. */
export interface PurgeSelection {
  /** Answers of requests at this path or below. */
  readonly userPath?: string | undefined;
  /** Name of the provider. */
  readonly provider?: string | undefined;
  /** The provider's own id of the model. */
  readonly model?: string | undefined;
}

/** What a purge needs of the index of cached answers. */
export interface PurgedIndex {
  /** Resolves when the index knows the whole log. Rejects when it stopped. */
  readonly caughtUp: Promise<unknown>;
  /** How many answers of the index a purge would remove. */
  matching(selection: PurgeSelection): number;
  /** Resolves when everything up to `position` is in the index. Rejects when the index stopped. */
  whenProcessed(position: Position): Promise<void>;
}

const stream = streamName('settings', 'cache');

/**
 * The purge is on disk and in force when this resolves. Answers to requests that are older than it are not cached.
 * @returns how many answers were removed
 * @throws Refusal 503 when the log cannot be written
 */
export async function purgeCache(
  selection: PurgeSelection,
  context: EventContext,
  { log, index }: { readonly log: Pick<EventLog, 'append'>; readonly index: PurgedIndex },
): Promise<number> {
  await index.caughtUp;
  const removed = index.matching(selection);
  const { userPath, provider, model } = selection;
  const event = cachePurged.create({ userPath, provider, model }, context);
  try {
    const { position } = await log.append([{ stream, events: [event], expectedRevision: 'any' }]);
    await index.whenProcessed(position);
  } catch (error) {
    if (error instanceof LogUnavailable) throw refusals.logUnavailable(error);
    throw error;
  }
  return removed;
}
