/**
 * The primary process of a service with several workers. It has the log open, which the workers use over a socket; starts,
 * replaces and stops them; passes connections to them in turn; and runs analytics. While no worker serves requests, it
 * answers health checks, and refuses other requests.
 */
import { mkdirSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { type AnalyticsProcess, analyticsProcess } from '../../analytics/process.ts';
import { print, printError } from '../../cli/terminal.ts';
import { createReadAudit } from '../../commands/audit/audit-reads.ts';
import { endAllLeases, endLeaseOf } from '../../commands/gateways/lease.ts';
import { refusals } from '../../commands/refusal.ts';
import type { Config } from '../../config/config.ts';
import { EmbeddedLog } from '../../events/embedded/embedded-log.ts';
import type { EventLog } from '../../events/log.ts';
import { directoryOf } from '../../events/open-log.ts';
import { type SharedLogServer, serveSharedLog } from '../../events/shared/serve-shared-log.ts';
import { type ConnectionSetup, connectionSetup } from '../../http/connection-setup.ts';
import { type ServiceWorkers, workersAnswer } from '../../http/health.ts';
import { type MetricFigures, metricFiguresOf } from '../../http/metric-figures.ts';
import { createUnreadyServer, type UnreadyServer } from '../../http/starting-server.ts';
import { leasesView } from '../../projections/leases.ts';
import { createProjectionRunner } from '../../projections/runner.ts';
import { readViewStore, viewsFile } from '../../projections/view-store.ts';
import { recordQueriesIn } from '../analytics/reports.ts';
import { errorReporter, refuseMissingLog, storageHealth } from '../log/event-log.ts';
import { bySignal, createReload } from '../reload.ts';
import { announceStart, type ServedProcess, whyNotStarted } from '../served-process.ts';
import { WorkersConfiguration } from './configure-workers.ts';
import { type ConnectionReceiver, Connections, ServiceFigures } from './connections.ts';
import type { ServiceState, ToPrimary } from './messages.ts';
import { STATE_EVERY_MS, WorkerPool } from './worker-pool.ts';

/** Workers that stop get so long in addition to the grace period of open requests. */
const STOP_MARGIN_MS = 20_000;

/** @returns the exit code, once everything has stopped */
export async function serveWithWorkers(served: ServedProcess): Promise<number> {
  const { running, config, logger, masterKey, created, unexpected, stopRequested, onReloadSignal } = served;
  const { first, second } = stopRequested;
  const warn = (message: string, error: unknown) => logger.warn({ err: error }, message);
  const opened: { close(): unknown }[] = [];
  let log: EmbeddedLog;
  let connections: Connections;
  let sharing: SharedLogServer;
  const configured = config.server.workers;
  let condition = (): ServiceCondition => ({ storage: 'down', workers: { configured, running: 0 } });
  const socketPath = join(config.dataDir, 'workers.sock');
  try {
    // Its workers report changed files.
    const setup = await connectionSetup(config.server, () => {});
    opened.push(setup);
    connections = await Connections.listen(config.server, {
      unserved: answerWithoutWorkers(config.server, setup, () => condition()),
    });
    opened.push(connections);
    mkdirSync(config.dataDir, { recursive: true, mode: 0o700 });
    refuseMissingLog({ dataDir: config.dataDir, url: config.log.url });
    const { url: logUrl, durability, archiveBacklogBytes } = config.log;
    log = await EmbeddedLog.open(directoryOf(logUrl), { durability, archiveBacklogBytes, warn });
    opened.push(log);
    await endLeasesOfEarlierRuns(log, viewsFile(config.dataDir));
    sharing = await serveSharedLog({ log, socketPath, warn });
  } catch (error) {
    for (const one of opened) await one.close();
    return notStarted(error);
  }
  const { url } = connections;
  const onError = errorReporter(logger, log);
  const analytics = analyticsProcess({ config, logger, say: print });
  const configuration = new WorkersConfiguration(() => pool, configured, config);
  const reload = createReload(running, (next, record) => configuration.apply(next, record), logger);
  const pool: WorkerPool = new WorkerPool({
    count: configured,
    start: () => ({ config: configuration.current, masterKey, socketPath, url, state: state() }),
    patienceMs: 1.2 * (config.log.leaseMs ?? 0) + STOP_MARGIN_MS,
    logger,
    onMessage: receive,
    onExit: exited,
  });
  const figures = new FigureCollection(pool, configured);
  condition = () => ({
    storage: storageHealth(log),
    workers: { configured, running: pool.running, problem: sharing.problem() },
  });

  function notStarted(error: unknown): number {
    printError(`The gateway could not start: ${whyNotStarted(error, config)}`);
    logger.debug(error);
    return 1;
  }

  function state(): ServiceState {
    return { running: pool.running, problem: sharing.problem(), analytics: analytics && seen(analytics) };
  }

  function sendState(): void {
    pool.sendState({ type: 'state', state: state() });
  }

  function receive(worker: number, message: ToPrimary): void {
    // Before its first connection: its clients see how many workers serve requests.
    if (message.type === 'ready') sendState();
    if (message.type === 'ready' || message.type === 'accepted') connections.workerIsFree(receiverOf(worker));
    else if (message.type === 'figures') figures.receive(worker, message.figures, message.id);
    else if (message.type === 'stopped' && message.figures !== undefined) figures.receive(worker, message.figures);
    else if (message.type === 'scrape') {
      const { id } = message;
      figures.text().then((text) => pool.send(worker, { type: 'scraped', id, text }), onError);
    } else if (message.type === 'configured') configuration.answered(worker, message);
    else if (message.type === 'reload') {
      const { id, cause } = message;
      void reload(cause).then((outcome) => pool.send(worker, { type: 'reloaded', id, outcome }));
    }
  }

  function exited(worker: number, gateway: string | undefined): void {
    connections.workerEnded(worker);
    figures.workerEnded(worker);
    configuration.workerEnded(worker);
    sendState();
    if (gateway !== undefined) endLeaseOf(gateway, pool.gateways(), log).catch(onError);
  }

  function receiverOf(number: number): ConnectionReceiver {
    const message = ({ arrival }: Socket) => ({ type: 'connection', arrival }) as const;
    return { number, pass: (connection) => pool.send(number, message(connection), connection) };
  }

  let exitCode = 0;
  const starting = pool.start();
  onReloadSignal(
    () =>
      void starting.then(
        () => reload(bySignal),
        () => {},
      ),
  );
  const began = await Promise.race([starting, first, unexpected.first]).catch((error: unknown) => notStarted(error));
  let reason: string;
  const states = setInterval(sendState, STATE_EVERY_MS);
  if (typeof began === 'object') {
    announceStart(began, config, { masterKey, created });
    analytics?.start(recordQueriesIn(createReadAudit(log)));
    const failed = pool.failed.then((why) => {
      printError(`No worker can be started: ${why}`);
      exitCode = 1;
      return 'no worker can be started';
    });
    reason = await Promise.race([first, unexpected.first, failed]);
  } else if (typeof began === 'number') {
    exitCode = began;
    reason = 'a worker could not start';
  } else reason = began;
  if (exitCode === 0) logger.info(`stopping: ${reason}`);
  onReloadSignal(() => {});
  void second.then(() => process.exit(1));
  connections.close();
  // Analytics stops at once: it continues with unsaved events at the next start.
  const analyticsStopped = analytics?.stop();
  const { unrecorded, ...stopped } = await pool.stop(
    reason,
    running.config.server.drainSeconds * 1000 + STOP_MARGIN_MS,
  );
  clearInterval(states);
  const errors = [...stopped.errors];
  try {
    await analyticsStopped;
    await sharing.close();
    await log.close();
    for (const why of unrecorded) {
      printError(`All acknowledged events are recorded; the stop of a worker could not be: ${why}`);
    }
  } catch (error) {
    errors.push(String(error));
  }
  // Of a service that has not started, one reason is enough.
  if (exitCode !== 0) return exitCode;
  for (const error of errors) printError(`The gateway has not stopped in the usual way: ${error}`);
  return unexpected.count === 0 && errors.length === 0 ? 0 : 1;
}

/** No gateway runs when this is called: the folder of the log is locked. */
export async function endLeasesOfEarlierRuns(log: EventLog, views: string): Promise<void> {
  const projections = createProjectionRunner(log, readViewStore(views));
  const leases = projections.run(leasesView);
  await leases.caughtUp;
  await projections.close();
  await endAllLeases(leases.state.keys(), log);
}

function seen(analytics: AnalyticsProcess): ServiceState['analytics'] {
  return {
    status: analytics.status(),
    gateway: analytics.address(),
    administrator: analytics.address('administrator'),
  };
}

/** What the primary process answers while no worker takes connections. */
interface ServiceCondition {
  readonly storage: 'ok' | 'degraded' | 'down';
  readonly workers: ServiceWorkers;
}

function answerWithoutWorkers(
  { basePath, maxHeaderBytes }: Config['server'],
  setup: ConnectionSetup,
  condition: () => ServiceCondition,
): UnreadyServer {
  return createUnreadyServer({
    setup,
    basePath,
    maxHeaderBytes,
    refusal: () => refusals.noWorker(),
    readiness: () => {
      const { storage, workers } = condition();
      const reason = 'no worker takes connections';
      return { components: { storage }, workers: { reason, ...workersAnswer(workers) } };
    },
  });
}

// Collects the metrics of all processes of a service for a scrape.

/** A worker that does not answer within this time is left out of the scrape. */
const ANSWER_MS = 1000;
const PRIMARY = 'primary';

class FigureCollection {
  readonly #pool: Pick<WorkerPool, 'send' | 'serves' | 'running' | 'replacements'>;
  readonly #count: number;
  readonly #figures = new ServiceFigures();
  readonly #registry = new Registry();
  readonly #waiting = new Map<number, (worker: number) => void>();
  #collecting: Promise<string> | undefined;
  #collections = 0;

  /** @param count number of workers */
  constructor(pool: Pick<WorkerPool, 'send' | 'serves' | 'running' | 'replacements'>, count: number) {
    this.#pool = pool;
    this.#count = count;
    const registers = [this.#registry];
    collectDefaultMetrics({ register: this.#registry });
    new Gauge({
      name: 'gateway_workers_running',
      help: 'Workers that serve requests',
      registers,
      collect() {
        this.set(pool.running);
      },
    });
    new Counter({
      name: 'gateway_worker_replacements_total',
      help: 'Workers that were started in place of one that has ended',
      registers,
      collect() {
        this.reset();
        this.inc(pool.replacements);
      },
    });
  }

  /** Scrapes at the same time share one answer. */
  text(): Promise<string> {
    this.#collecting ??= this.#collect().finally(() => {
      this.#collecting = undefined;
    });
    return this.#collecting;
  }

  /** @param id undefined for those of a worker that stops */
  receive(worker: number, figures: MetricFigures, id?: number): void {
    this.#figures.take(String(worker), figures);
    if (id !== undefined) this.#waiting.get(id)?.(worker);
  }

  workerEnded(worker: number): void {
    this.#figures.processEnded(String(worker));
  }

  async #collect(): Promise<string> {
    const id = ++this.#collections;
    const numbers = Array.from({ length: this.#count }, (_, at) => at + 1);
    const serving = numbers.filter((worker) => this.#pool.serves(worker));
    const asked = new Set(serving.filter((worker) => this.#pool.send(worker, { type: 'collect', id })));
    const answered = await this.#answers(id, asked);
    this.#figures.take(PRIMARY, await metricFiguresOf(this.#registry));
    return this.#figures.text(new Set([PRIMARY, ...[...answered].map(String)]));
  }

  async #answers(id: number, asked: ReadonlySet<number>): Promise<ReadonlySet<number>> {
    const answered = new Set<number>();
    const { promise, resolve } = Promise.withResolvers<void>();
    const late = setTimeout(resolve, ANSWER_MS);
    this.#waiting.set(id, (worker) => {
      answered.add(worker);
      if (answered.size === asked.size) resolve();
    });
    if (asked.size > 0) await promise;
    clearTimeout(late);
    this.#waiting.delete(id);
    return answered;
  }
}
