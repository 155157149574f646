/** The program of a worker: a gateway on the log that the primary process has open. */
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { type Gateway, startGateway } from '../../gateway.ts';
import type { AnalyticsQueries } from '../analytics/reports.ts';
import { createDiagnostics } from '../diagnostics.ts';
import { releaseMemoryAfterStart } from '../idle-memory.ts';
import { type ReloadCause, type ReloadOutcome, type ReloadRecord, reloadFailure } from '../reload.ts';
import { whyNotStarted } from '../served-process.ts';
import { watchUnexpectedErrors } from '../unexpected-errors.ts';
import { type ServiceState, type ToPrimary, toWorker, type WorkerStart } from './messages.ts';

/** How long a stop after an unexpected error may take in addition to the grace period of open requests. */
const STOP_MARGIN_MS = 10_000;
const SCRAPE_MS = 5000;

// The primary decides when a worker stops. A signal of a terminal or a supervisor reaches both.
for (const signal of ['SIGUSR1', 'SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});

let state: ServiceState = { running: 0 };
let gateway: Gateway | undefined;
/** The newest configuration that came before the gateway had started. */
let configuredEarly: Config | undefined;
let logger: Logger | undefined;
const stopRequested = Promise.withResolvers<string>();
let take = (connection: Socket): void => void connection.destroy();
const scrapes = new Map<number, (text: string) => void>();
const reloads = new Map<number, (outcome: ReloadOutcome) => void>();
let lastRequest = 0;

// The log and the port are those of the primary.
process.once('disconnect', () => process.exit(1));
process.on('message', (message: unknown, connection?: Socket) => {
  const known = toWorker.safeParse(message);
  if (!known.success) return;
  const { data } = known;
  switch (data.type) {
    case 'start':
      void serve(data);
      break;
    case 'state':
      state = data.state;
      send({ type: 'alive' });
      break;
    case 'connection':
      send({ type: 'accepted' });
      if (connection === undefined) break;
      if (data.arrival !== undefined) connection.arrival = data.arrival;
      take(connection);
      break;
    case 'stop':
      stopRequested.resolve(data.reason);
      break;
    case 'configure':
      void configure(data.config, data.record);
      break;
    case 'reloaded':
      reloads.get(data.id)?.(data.outcome);
      reloads.delete(data.id);
      break;
    case 'collect':
      void gateway?.figures().then((figures) => send({ type: 'figures', id: data.id, figures }));
      break;
    case 'scraped':
      scrapes.get(data.id)?.(data.text);
  }
});

async function serve(start: WorkerStart): Promise<void> {
  const { number, config, masterKey, socketPath, url } = start;
  state = start.state;
  logger = createDiagnostics({ level: config.logLevel, format: config.logFormat }).child({ worker: number });
  const unexpected = watchUnexpectedErrors(logger, config.server.drainSeconds * 1000 + STOP_MARGIN_MS);
  const stopped = Promise.race([stopRequested.promise, unexpected.first]);
  releaseMemoryAfterStart();
  const worker = {
    number,
    socketPath,
    connections: {
      url,
      receive: (receiver: (connection: Socket) => void) => {
        take = receiver;
      },
    },
    leased: (id: string) => send({ type: 'leased', gateway: id }),
    scrape,
    workers: () => ({ configured: config.server.workers, running: state.running, problem: state.problem }),
  };
  const analytics = state.analytics && analyticsOfPrimary();
  const starting = startGateway(config, masterKey, logger, { analytics, worker, reload });
  starting.catch(() => {});
  try {
    const first = await Promise.race([starting, stopped]);
    // Nothing was served: the primary ends the lease.
    if (typeof first === 'string') return end({ type: 'stopped' }, unexpected.count === 0 ? 0 : 1);
    while (configuredEarly !== undefined) {
      const early: Config = configuredEarly;
      configuredEarly = undefined;
      await first.configure(early);
    }
    gateway = first;
  } catch (error) {
    logger.debug(error);
    return end({ type: 'failed', reason: whyNotStarted(error, config) }, 1);
  }
  const { demo, dashboard } = gateway;
  send({ type: 'ready', url, demo, dashboard });
  const reason = (await Promise.race([stopped, gateway.leaseLost])) ?? 'lease_lost';
  if (reason === 'lease_lost') {
    logger.warn('the lease of this worker has ended, and others have taken over its exchanges; it is replaced');
  }
  const result: Extract<ToPrimary, { type: 'stopped' }> = { type: 'stopped' };
  try {
    result.unrecorded = (await gateway.stop(reason))?.message;
  } catch (error) {
    result.error = String(error);
  }
  result.figures = await gateway.figures().catch(() => undefined);
  end(result, unexpected.count === 0 && result.error === undefined ? 0 : 1);
}

/** Before the gateway has started, the record is that of another worker. */
async function configure(config: Config, record: ReloadRecord | undefined): Promise<void> {
  try {
    if (gateway === undefined) configuredEarly = config;
    else await gateway.configure(config, record);
    if (logger !== undefined) logger.level = config.logLevel;
    send({ type: 'configured' });
  } catch (error) {
    send({ type: 'configured', ...reloadFailure(error) });
  }
}

function reload(cause: ReloadCause): Promise<ReloadOutcome> {
  const id = ++lastRequest;
  const { promise, resolve } = Promise.withResolvers<ReloadOutcome>();
  reloads.set(id, resolve);
  send({ type: 'reload', id, cause });
  return promise;
}

function scrape(): Promise<string> {
  const id = ++lastRequest;
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const late = setTimeout(() => reject(new Error('the primary process has not answered')), SCRAPE_MS);
  scrapes.set(id, resolve);
  send({ type: 'scrape', id });
  return promise.finally(() => {
    clearTimeout(late);
    scrapes.delete(id);
  });
}

/** Analytics that the primary runs, as it was a second ago. */
function analyticsOfPrimary(): AnalyticsQueries {
  return {
    status: () => state.analytics?.status ?? { health: 'down', lagEvents: undefined },
    address: (user = 'gateway') => (user === 'analyst' ? undefined : state.analytics?.[user]),
  };
}

function send(message: ToPrimary): void {
  if (process.connected) process.send?.(message, () => {});
}

/** Nothing that still runs must keep the process alive. */
function end(last: ToPrimary, exitCode: number): void {
  process.send?.(last, () => process.exit(exitCode));
}
