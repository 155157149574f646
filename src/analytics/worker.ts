/**
 * The analytics process: projects the log into ClickHouse, and runs ClickHouse when no server is configured. It is
 * started by `process.ts`, which sends it its job, and ends when the channel between them is closed.
 */
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import type { Server as HttpServer } from 'node:http';
import { Server } from 'node:net';
import { getPriority, setPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { printError } from '../cli/terminal.ts';
import { openLog } from '../events/open-log.ts';
import { createClickHouseHttp } from '../http/clickhouse/clickhouse-http.ts';
import { EmbeddedUnavailable, openEmbeddedClickHouse } from '../http/clickhouse/embedded-clickhouse.ts';
import { analystLimits, gatewayLimits, readersMemoryBytes } from '../http/clickhouse/users.ts';
import { createBatchStore } from '../projections/analytics/batch-store.ts';
import { type Projector, startProjector } from '../projections/analytics/projector.ts';
import { createDiagnostics } from '../wiring/diagnostics.ts';
import { type AnalyticsJob, type AnalyticsReport, analyticsJob, OFF_FOR_GOOD } from './messages.ts';
import { recordThroughGateway } from './record-queries.ts';
import { lockForAnalytics, type WritingAccess, writeToEngine, writeToServer } from './writing-access.ts';

const REPORT_MS = 1000;
const LOG_POLL_MS = 250;

/** A ClickHouse that is ready, and a check that it still answers. */
interface ReadyClickHouse {
  readonly writing: WritingAccess;
  answers(): Promise<void>;
  close(): Promise<void>;
}

async function main(): Promise<number> {
  // Before other threads start: they inherit the share of the thread that starts them.
  takeShare('fair');
  const stop = stopRequest();
  const [message, socket]: unknown[] = await once(process, 'message', { signal: stop }).catch(() => []);
  if (message === undefined) return 0;
  const job = analyticsJob.parse(message);
  const logger = createDiagnostics(job.diagnostics).child({ part: 'analytics' });
  try {
    await work(job, socket, logger, stop);
    return 0;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    if (error instanceof EmbeddedUnavailable) {
      printError(`Analytics is off: ${why}`);
      return OFF_FOR_GOOD;
    }
    printError(`Analytics stopped: ${why}`);
    logger.debug(error);
    return 1;
  }
}

async function work(job: AnalyticsJob, socket: unknown, logger: Logger, stop: AbortSignal): Promise<void> {
  const lock = lockForAnalytics(job.folder);
  try {
    const clickhouse = await clickHouseOf(job, socket, logger);
    try {
      await projectUntil(stop, job, clickhouse, logger);
    } finally {
      await clickhouse.close();
    }
  } finally {
    lock.release();
  }
}

async function projectUntil(stop: AbortSignal, job: AnalyticsJob, clickhouse: ReadyClickHouse, logger: Logger) {
  const log = await openWhenThere(job.logUrl, stop);
  if (log === undefined) return;
  const projector = startProjector({
    log,
    store: createBatchStore(clickhouse.writing.client, job.database, job.epoch),
    retention: job.retention,
    onError: (error) => logger.warn(`analytics waits: ${error.message}`),
  });
  const reports = reportEachSecond(projector, clickhouse, logger);
  try {
    if (!stop.aborted) await once(stop, 'abort');
  } finally {
    clearInterval(reports);
    await projector.close();
    await log.close();
  }
}

/**
 * No report is sent while ClickHouse does not answer: a report means that the process works, and a process without
 * reports counts as hanging.
 */
function reportEachSecond(projector: Projector, clickhouse: ReadyClickHouse, logger: Logger): NodeJS.Timeout {
  let share: Share = 'fair';
  let reporting = false;
  async function report(): Promise<void> {
    await clickhouse.answers();
    const status = await projector.status();
    // It has caught up after the start: from now on, requests have priority.
    if (share === 'fair' && status.state === 'live') {
      takeShare('low');
      share = 'low';
    }
    send({ type: 'analytics', share, ...status });
  }
  return setInterval(() => {
    if (reporting) return;
    reporting = true;
    report()
      .catch((error: unknown) => logger.warn(error))
      .finally(() => {
        reporting = false;
      });
  }, REPORT_MS);
}

async function clickHouseOf(
  { clickhouse, database, folder }: AnalyticsJob,
  socket: unknown,
  logger: Logger,
): Promise<ReadyClickHouse> {
  if (clickhouse.kind === 'server') {
    const writing = writeToServer(clickhouse);
    return { writing, answers: async () => {}, close: () => writing.close() };
  }
  if (!(socket instanceof Server)) throw new Error('it was started without a listening socket');
  const onError = (error: unknown) => logger.error(error);
  const engine = await openEmbeddedClickHouse({
    folder,
    access: { databases: [database] },
    memoryBytes: readersMemoryBytes,
  });
  logger.debug(`chDB, ClickHouse ${engine.version}`);
  const { gateway, administrator, analyst } = clickhouse.passwords;
  const readers = createClickHouseHttp({
    engine,
    users: [
      { name: 'gateway', password: gateway, limits: gatewayLimits, recordedByCaller: true },
      { name: 'administrator', password: administrator, limits: analystLimits, recordedByCaller: true },
      { name: 'analyst', password: analyst, limits: analystLimits },
    ],
    record: recordThroughGateway(process),
    onError,
  });
  serveOn(socket, readers);
  const writing = await writeToEngine(engine, onError);
  const heartbeatConnection = engine.connect({ role: 'reader', readOnly: true });
  return {
    writing,
    answers: async () => void (await heartbeatConnection.query('SELECT 1', 'TabSeparated')),
    async close() {
      socket.close();
      readers.closeAllConnections();
      await writing.close();
      heartbeatConnection.close();
      await engine.close();
    },
  };
}

/** Serves a socket that listens already, so that this process needs no right to open one. */
function serveOn(socket: Server, server: HttpServer): void {
  socket.on('connection', (connection) => server.emit('connection', connection));
}

/** The gateway creates the log at its first start, which may be now. */
async function openWhenThere(url: string, stop: AbortSignal) {
  while (!stop.aborted) {
    try {
      return await openLog(url, { readOnly: true });
    } catch (error) {
      if (!(error instanceof Error && /there is no (event )?log/i.test(error.message))) throw error;
    }
    await delay(LOG_POLL_MS, undefined, { signal: stop }).catch(() => {});
  }
  return undefined;
}

function send(report: AnalyticsReport): void {
  // The other side may have ended, which is handled elsewhere.
  if (process.connected) process.send?.(report, undefined, {}, () => {});
}

function stopRequest(): AbortSignal {
  const stopping = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stopping.abort());
  // A terminal sends it to all processes. The gateway does not stop at it.
  process.on('SIGHUP', () => {});
  // The gateway disconnects to stop this process; the channel also closes when the gateway ended in another way.
  if (process.connected) process.once('disconnect', () => stopping.abort());
  return stopping.signal;
}

// The share of the analytics process of a busy processor, set by its niceness. On Linux each thread has its own
// niceness and the threads that it starts inherit it, so it is set for each thread. A process may always lower its
// share; to raise it again, it would need a privilege.

/** `fair`: a quarter of the share of a normal busy thread. `low`: one or two per cent of it. */
type Share = 'fair' | 'low';

const niceness: Readonly<Record<Share, number>> = { fair: 5, low: 19 };

/** New threads may start while the list is processed. */
const MOST_PASSES = 5;

/** Lowers all threads of this process to the share; threads with a lower share are not changed. */
function takeShare(share: Share): void {
  for (let pass = 0; pass < MOST_PASSES; pass++) {
    const above = threads().filter((thread) => nicenessOf(thread) < niceness[share]);
    for (const thread of above) lower(thread, niceness[share]);
    if (above.length === 0) return;
  }
}

/** The ids of this process's threads; `[0]`, the whole process, where they cannot be listed. */
function threads(): number[] {
  try {
    return readdirSync('/proc/self/task').map(Number);
  } catch {
    return [0];
  }
}

function nicenessOf(thread: number): number {
  try {
    return getPriority(thread);
  } catch {
    // It has ended.
    return niceness.low;
  }
}

function lower(thread: number, to: number): void {
  try {
    setPriority(thread, to);
  } catch {
    // It has ended.
  }
}

// The received sockets and ClickHouse's own threads would keep the process alive.
process.exit(await main());
