/** Exchanges without an end in the log: those of the last run are closed or resumed, those of this run are tracked. */
import type { Logger } from 'pino';
import { OpenExchangeTracker } from '../../commands/exchange/background/open-exchange-tracker.ts';
import {
  type RecoveryDependencies,
  recoverExchanges,
  resumableExchange,
} from '../../commands/exchange/background/recover-exchanges.ts';
import type { ResumableExchange } from '../../commands/exchange/background/resumable-exchange.ts';
import type { RecordedExchange } from '../../commands/exchange/record/read-exchange.ts';
import { type InFlight, openExchanges } from '../../projections/in-flight.ts';
import { OpenExchangesView } from '../../projections/open-exchanges-view.ts';
import type { GatewayLog } from './event-log.ts';
import type { GatewayViews } from './views.ts';

/**
 * To be called before anything else is appended to the log.
 * @returns background responses that are to be resumed
 * @throws LogUnavailable
 */
export async function closeLastRun(
  leftOpen: InFlight,
  recorded: RecoveryDependencies,
  logger: Logger,
): Promise<RecordedExchange[]> {
  const streams = openExchanges(leftOpen).map(({ stream }) => stream);
  const interrupted = await recoverExchanges(streams, recorded, 'gateway_stopped');
  if (streams.length > 0) {
    logger.warn(`closed ${streams.length - interrupted.length} exchanges that the previous run left open`);
  }
  return interrupted;
}

export interface OpenExchangesOptions {
  readonly log: GatewayLog;
  readonly recorded: RecoveryDependencies;
  readonly views: GatewayViews;
  readonly logger: Logger;
  /** Runs an exchange that was left open before the client received anything. Must not throw. */
  resume(run: ResumableExchange): void;
}

/** When the log can be written again, exchanges whose end could not be recorded are closed. */
export function trackOpenExchanges(options: OpenExchangesOptions) {
  const { log, recorded, views, logger } = options;
  const onError = (error: unknown) => logger.error(error);
  const resume = (exchange: RecordedExchange) => {
    const run = resumableExchange(exchange, recorded.dialects, log, recorded.keys);
    if (run !== undefined) options.resume(run);
  };
  const records = new OpenExchangeTracker({
    log,
    close: (streams, why) => recoverExchanges(streams, recorded, why),
    resume,
    onError,
  });
  const { store, projections } = views;
  const view = new OpenExchangesView({ log, views: store, projections, foldFrom: () => records.allAfter(), onError });
  log.onStatusChange(({ state, reason }) => {
    if (state === 'ok') {
      logger.info('the event log can be written again');
      void records.closeUnfinished();
    } else logger.error(`the event log cannot be written: ${reason}`);
  });
  return {
    records,
    /** For listeners of the live tail. */
    view,
    resume,
    /** Records where the fold of open exchanges starts at the next start. @throws what SQLite throws when the disk is full */
    saveView() {
      view.close();
      return view.mark();
    },
  };
}
