/** Resets limits in one append: all of them restart at the same position in the log, or none does. */
import type { NewEvent, Position, StreamName } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';

interface Limit<Scope> {
  readonly scope: Scope;
  readonly subject: string;
  readonly periodSeconds: number;
}

/** @returns the position of the reset; undefined when there is no limit. @throws LogUnavailable */
export async function resetLimits<Scope extends string>(
  limits: Iterable<Limit<Scope>>,
  streamOf: (limit: Limit<Scope>) => StreamName,
  resetOf: (limit: Limit<Scope>) => NewEvent,
  log: EventLog,
): Promise<Position | undefined> {
  const streams = Map.groupBy(limits, streamOf);
  if (streams.size === 0) return undefined;
  // A reset is compatible with every other change, so no revision is expected.
  const { position } = await log.append(
    [...streams].map(([stream, found]) => ({
      stream,
      events: found.map(({ scope, subject, periodSeconds }) => resetOf({ scope, subject, periodSeconds })),
      expectedRevision: 'exists' as const,
    })),
  );
  return position;
}
