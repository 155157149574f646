/**
 * Exchanges without an end in the log: those that this gateway has inherited are closed or resumed, its own are tracked.
 */
import type { Logger } from 'pino';
import type { ResumableExchange } from '../../commands/exchange/background/background-response.ts';
import { InheritedExchanges, OpenExchangeTracker } from '../../commands/exchange/background/open-exchange-tracker.ts';
import {
  type RecoveryDependencies,
  recoverExchanges,
  resumableExchange,
} from '../../commands/exchange/background/recover-exchanges.ts';
import type { RecordedExchange } from '../../commands/exchange/record/read-exchange.ts';
import type { StreamName } from '../../events/event.ts';
import { type InFlight, OpenExchangesView, openExchanges } from '../../projections/in-flight.ts';
import type { GatewayLog } from './event-log.ts';
import type { GatewayLease } from './gateways.ts';
import type { GatewayViews } from './views.ts';

/** The exchanges that the gateway has inherited. */
function leftTo(gateway: string, open: InFlight): StreamName[] {
  const left = openExchanges(open).filter(({ exchange }) => exchange.gateway === gateway && exchange.isInherited);
  return left.map(({ stream }) => stream);
}

/**
 * To be called before this gateway begins an exchange.
 * @param gateway id of this gateway, which has its lease
 * @returns background responses that are to be resumed
 * @throws LogUnavailable
 */
export async function closeLastRun(
  gateway: string,
  leftOpen: InFlight,
  recorded: RecoveryDependencies,
  logger: Logger,
): Promise<RecordedExchange[]> {
  const streams = leftTo(gateway, leftOpen);
  const interrupted = await recoverExchanges(streams, recorded, 'gateway_stopped');
  if (streams.length > 0) {
    logger.warn(`closed ${streams.length - interrupted.length} exchanges that the previous run left open`);
  }
  return interrupted;
}

export interface OpenExchangesOptions {
  readonly log: GatewayLog;
  readonly lease: Pick<GatewayLease, 'gateway' | 'onInherited'>;
  /** Whether other gateways use the log. */
  readonly isShared: boolean;
  readonly recorded: RecoveryDependencies;
  readonly views: GatewayViews;
  readonly onError: (error: unknown) => void;
  /** Runs an exchange that was left open before the client received anything. Must not throw. */
  resume(run: ResumableExchange): void;
}

/** When the log can be written again, exchanges whose end could not be recorded are closed. */
export function trackOpenExchanges(options: OpenExchangesOptions) {
  const { log, lease, isShared, recorded, views, onError } = options;
  const resume = (exchange: RecordedExchange) => {
    const run = resumableExchange(exchange, recorded.dialects, log, recorded.keys);
    if (run !== undefined) options.resume(run);
  };
  const records = new OpenExchangeTracker({
    log,
    close: (streams, why, client) => recoverExchanges(streams, recorded, why, client),
    resume,
    onError,
  });
  const { store, projections } = views;
  const view = new OpenExchangesView({ log, views: store, projections, foldFrom: () => records.allAfter(), onError });
  const inherited = new InheritedExchanges({
    open: () => leftTo(lease.gateway, view.state).filter((stream) => !records.isOpen(stream)),
    whenProcessed: (position) => view.whenProcessed(position),
    close: (streams, why) => recoverExchanges(streams, recorded, why),
    resume,
    onError,
  });
  lease.onInherited((position) => void inherited.take(position));
  if (isShared) view.follow();
  log.onStatusChange(({ state }) => {
    if (state === 'ok') void records.closeUnfinished();
  });
  return {
    records,
    /** For listeners of the live tail. */
    view,
    resume,
    inherited,
    /** Records where the fold of open exchanges starts at the next start. @throws what SQLite throws when the disk is full */
    saveView() {
      view.close();
      return view.mark();
    },
  };
}
