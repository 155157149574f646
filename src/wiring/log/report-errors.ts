/** Errors of background work in the gateway's own log: why the event log cannot be written is one line, not one per failure. */
import type { Logger } from 'pino';
import { type EventLog, LogUnavailable } from '../../events/log.ts';

/**
 * Reports each change of the log's state.
 * @returns reports an error; a `LogUnavailable` as one line, and only when its reason is not the latest that was reported
 */
export function errorReporter(
  logger: Pick<Logger, 'error' | 'info'>,
  log: Pick<EventLog, 'onStatusChange'>,
): (error: unknown) => void {
  let reported: string | undefined;
  const report = (error: unknown) => {
    if (!(error instanceof LogUnavailable)) return logger.error(error);
    if (error.message !== reported) logger.error(error.message);
    reported = error.message;
  };
  log.onStatusChange(({ state, reason = 'unknown reason' }) => {
    if (state === 'unavailable') return report(new LogUnavailable(reason, 'none'));
    reported = undefined;
    logger.info('the event log can be written again');
  });
  return report;
}
