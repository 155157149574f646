/** Decisions of administrators about read models of a running gateway. Each is an event with its actor. */
import {
  rebuildsStream,
  skippedStream,
  viewEventSkipped,
  viewRebuildRequested,
} from '../../events/catalogue/gateway.ts';
import { type EventContext, type Position, positionBefore } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { refusals } from '../refusal.ts';

export interface ChangeableView {
  /** The event that it could not apply. */
  readonly stoppedAt?: { readonly position: Position } | undefined;
  /** Whether the next start can build it anew: `elsewhere` for analytics, which another process builds. */
  readonly rebuild: 'possible' | 'always' | 'elsewhere';
}

export interface ChangeableViews {
  find(name: string): ChangeableView | undefined;
  isSkipped(name: string, position: Position): Promise<boolean>;
}

export interface SkipRequest {
  readonly view: string;
  readonly position: Position;
  readonly reason: string;
}

/**
 * Records that the view continues without the event on which it has stopped. Resolves when that is on disk; for an event
 * that is skipped already, without another record.
 * @throws Refusal 404, 409; LogUnavailable
 */
export async function skipEvent(
  { view, position, reason }: SkipRequest,
  views: ChangeableViews,
  log: EventLog,
  context: EventContext,
): Promise<void> {
  const { stoppedAt } = found(view, views);
  if (await views.isSkipped(view, position)) return;
  if (stoppedAt?.position !== position) throw refusals.viewNotStoppedAt(view, position);
  for await (const event of log.readAll({ after: positionBefore(position), maxCount: 1 })) {
    const { type: eventType, stream: eventStream } = event;
    const skipped = { view, position, eventType, eventStream, reason, by: context.actor };
    const events = [viewEventSkipped.create(skipped, context)];
    await log.append([{ stream: skippedStream, events, expectedRevision: 'any' }]);
  }
}

/**
 * Records that every gateway builds the view from the log at its next start.
 * @returns the position of that record
 * @throws Refusal 404, 409; LogUnavailable
 */
export async function requestRebuild(
  view: string,
  reason: string | undefined,
  views: ChangeableViews,
  log: EventLog,
  context: EventContext,
): Promise<Position> {
  const { rebuild } = found(view, views);
  if (rebuild === 'elsewhere') throw refusals.analyticsNotRebuildable();
  if (rebuild === 'always') throw refusals.viewNotSaved(view);
  const events = [viewRebuildRequested.create({ view, ...(reason !== undefined && { reason }) }, context)];
  return (await log.append([{ stream: rebuildsStream, events, expectedRevision: 'any' }])).position;
}

/** @throws Refusal 404 */
function found(view: string, views: ChangeableViews): ChangeableView {
  const one = views.find(view);
  if (one === undefined) throw refusals.notFound('read model', view, 'view_not_found');
  return one;
}
