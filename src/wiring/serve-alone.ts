/** The gateway in this process: starts it, prints its address and settings, and stops it in an orderly way. */
import { analyticsProcess } from '../analytics/process.ts';
import { print, printError } from '../cli/terminal.ts';
import type { Config } from '../config/config.ts';
import { type Gateway, startGateway } from '../gateway.ts';
import type { RecordQuery } from '../http/clickhouse/reader-request.ts';
import { orEnd } from './end-of-process.ts';
import { bySignal, createReload } from './reload.ts';
import { announceStart, type ServedProcess, whyNotStarted } from './served-process.ts';

/** How long a stop may take in addition to the grace period of open requests. */
const STOP_MARGIN_MS = 30_000;

/** A gateway that has lost its lease is replaced by a new one in this process. @returns the exit code, once the gateway has stopped */
export async function serveAlone(served: ServedProcess): Promise<number> {
  const { running, config, logger, masterKey, created, unexpected, stopRequested, onReloadSignal } = served;
  const { first, second } = stopRequested;
  const analytics = analyticsProcess({ config, logger, say: print });
  const starting = new AbortController();
  void first.then((reason) => starting.abort(reason));
  const { signal } = starting;
  const reload = createReload(running, async (next, record) => (await started).configure(next, record), logger);
  onReloadSignal(() => void reload(bySignal));
  const start = (server: Config['server'], declares = true): Promise<Gateway> =>
    startGateway({ ...running.config, server }, masterKey, logger, { analytics, declares, signal, reload }).catch(
      (error: unknown) => {
        if (signal.aborted && error === signal.reason) {
          logger.info(`stopped before the log was open: ${error}`);
          process.exit(0);
        }
        printError(`The gateway could not start: ${whyNotStarted(error, config)}`);
        logger.debug(error);
        // Components that did start must not keep the process alive.
        process.exit(1);
      },
    );
  // Into a server, one of the gateways on the log writes.
  const isJob = config.analytics.clickhouse.url !== undefined;
  const startAnalytics = (started: Gateway) => {
    if (isJob) started.whenAnalyticsWriter((epoch) => analytics?.start(record, epoch));
    else analytics?.start(record);
  };
  const stop = (reason: string) =>
    orEnd(gateway.stop(reason), running.config.server.drainSeconds * 1000 + STOP_MARGIN_MS, printError);
  let started = start(config.server);
  let gateway = await started;
  const record: RecordQuery = (query) => gateway.recordQuery(query);

  announceStart(gateway, config, { masterKey, created });
  startAnalytics(gateway);

  const stopped = Promise.race([first, unexpected.first]);
  let reason = await Promise.race([stopped, gateway.leaseLost]);
  for (; reason === undefined; reason = await Promise.race([stopped, gateway.leaseLost])) {
    logger.warn('the lease of this gateway has ended, and others have taken over its exchanges; it starts anew');
    await stop('lease_lost').catch((error: unknown) => logger.debug(error));
    if (isJob) await analytics?.stop();
    // A URL leaves out the default port of its scheme.
    const port = Number(new URL(gateway.url).port) || config.server.port;
    started = start({ ...config.server, port }, false);
    gateway = await started;
    if (isJob) startAnalytics(gateway);
  }
  logger.info(`stopping: ${reason}`);
  onReloadSignal(() => {});
  void second.then(() => process.exit(1));
  // Analytics stops at once: it continues with unsaved events at the next start.
  const analyticsStopped = analytics?.stop();
  try {
    const unrecorded = await stop(reason);
    if (unrecorded !== undefined) {
      printError(`All acknowledged events are recorded; the stop of the gateway could not be: ${unrecorded.message}`);
    }
    await analyticsStopped;
    return unexpected.count === 0 ? 0 : 1;
  } catch (error) {
    printError(`The gateway has not stopped in the usual way: ${error}`);
    return 1;
  }
}
