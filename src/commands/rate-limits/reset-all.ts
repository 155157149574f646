/**
 * Empties the windows of every rate limit in one append: all of them restart at the same position in the log, or none
 * does.
 */
import { rateLimitReset } from '../../events/catalogue/rate-limit.ts';
import type { EventContext, Position } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { type RateLimitSubject, rateLimitStream } from './rate-limit.ts';

/** @returns the position of the reset; undefined when there is no rate limit. @throws LogUnavailable */
export async function resetAllRateLimits(
  limits: Iterable<RateLimitSubject & { readonly periodSeconds: number }>,
  context: EventContext,
  log: EventLog,
): Promise<Position | undefined> {
  const streams = Map.groupBy(limits, rateLimitStream);
  if (streams.size === 0) return undefined;
  // A reset is compatible with every other change, so no revision is expected.
  const { position } = await log.append(
    [...streams].map(([stream, found]) => ({
      stream,
      events: found.map(({ scope, subject, periodSeconds }) =>
        rateLimitReset.create({ scope, subject, periodSeconds }, context),
      ),
      expectedRevision: 'exists' as const,
    })),
  );
  return position;
}
