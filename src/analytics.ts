/**
 * `chancery analytics`: projects the log into ClickHouse, and is that ClickHouse when no server is named. A process of
 * its own, so that no question can hold up a request. `chancery serve` starts it; it can also be run by hand.
 */
import { once } from 'node:events';
import { existsSync, mkdirSync } from 'node:fs';
import type { Server } from 'node:http';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { forgetAddress, noteAddress } from './analytics-progress.ts';
import { type AnalyticsReport, OFF_FOR_GOOD } from './analytics-report.ts';
import { print, printError } from './cli/terminal.ts';
import { clickHousePasswordFile, loadOrCreateClickHousePasswords } from './clickhouse-passwords.ts';
import type { Config } from './config/config.ts';
import { loadConfig } from './config/load-config.ts';
import { describeProblem } from './config/problem.ts';
import { createDiagnostics } from './diagnostics.ts';
import { lockForWriting } from './events/embedded/writer-lock.ts';
import { directoryOf, openLog } from './events/open-log.ts';
import { createClickHouseHttp } from './http/clickhouse/clickhouse-http.ts';
import {
  type EmbeddedClickHouse,
  EmbeddedUnavailable,
  openEmbeddedClickHouse,
} from './http/clickhouse/embedded-clickhouse.ts';
import { analystLimits, gatewayLimits } from './http/clickhouse/users.ts';
import { createBatchStore } from './projections/analytics/batch-store.ts';
import { startProjector } from './projections/analytics/projector.ts';
import { providerTypes } from './providers/types.ts';

const PORTS_TRIED = 50;
const REPORT_MS = 1000;
const LOG_POLL_MS = 250;

/** @returns the exit code, once it has stopped */
export async function runAnalytics(flags: Readonly<Record<string, string | undefined>>): Promise<number> {
  const loaded = loadConfig({ flags, env: process.env, cwd: process.cwd(), providerTypes });
  if (!loaded.ok) {
    printError('The configuration has problems; nothing was started.');
    for (const problem of loaded.problems) printError(`  ${describeProblem(problem)}`);
    return 1;
  }
  const { config } = loaded;
  const logger = createDiagnostics({ level: config.logLevel, format: config.logFormat }).child({ part: 'analytics' });
  const stop = stopRequest();
  try {
    return await whileRunning(config, logger, stop);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    if (error instanceof EmbeddedUnavailable) {
      printError(`Analytics is off: ${why}`);
      return OFF_FOR_GOOD;
    }
    printError(`Analytics could not go on: ${why}`);
    logger.debug(error);
    return 1;
  } finally {
    // The channel to the gateway would keep the process alive.
    if (process.connected) process.disconnect();
  }
}

async function whileRunning(config: Config, logger: Logger, stop: AbortSignal): Promise<number> {
  const { analytics, dataDir } = config;
  const folder = join(dataDir, 'clickhouse');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const lock = lockForAnalytics(folder);
  const clickhouse = await clickHouseOf(config, folder, logger);
  const client = createClient({
    url: clickhouse.url,
    username: clickhouse.user,
    password: clickhouse.password,
    request_timeout: 120_000,
    application: 'chancery-analytics',
    log: { level: ClickHouseLogLevel.OFF },
  });
  let projector: ReturnType<typeof startProjector> | undefined;
  let reports: NodeJS.Timeout | undefined;
  try {
    print(`Analytics: ClickHouse at ${clickhouse.url}, database ${analytics.clickhouse.database}.`);
    if (clickhouse.passwordFile !== undefined) {
      print(`Analytics: ask it as the user "analyst"; the password is in ${clickhouse.passwordFile}.`);
    }
    const log = await openWhenThere(config.log.url, stop);
    if (log === undefined) return 0;
    try {
      projector = startProjector({
        log,
        store: createBatchStore(client, analytics.clickhouse.database),
        retention: analytics.retention,
        onError: (error) => logger.warn(`analytics waits: ${error.message}`),
      });
      const running = projector;
      const report = async () => tell({ type: 'analytics', ...(await running.status()), url: clickhouse.url });
      reports = setInterval(() => report().catch((error: unknown) => logger.warn(error)), REPORT_MS);
      await stopped(stop);
      clearInterval(reports);
      await projector.close();
    } finally {
      await log.close();
    }
    return 0;
  } finally {
    clearInterval(reports);
    await client.close();
    await clickhouse.stop();
    lock.release();
  }
}

/** @throws Error when another process projects into this folder, or from it */
export function lockForAnalytics(folder: string): ReturnType<typeof lockForWriting> {
  try {
    return lockForWriting(folder);
  } catch (error) {
    throw new Error(`another analytics process runs on ${folder}`, { cause: error });
  }
}

export interface RunningClickHouse {
  readonly url: string;
  readonly user: string;
  readonly password: string;
  readonly passwordFile?: string;
  stop(): Promise<void>;
}

/** The server that is named, or the embedded ClickHouse, started over this folder. @throws EmbeddedUnavailable */
export async function clickHouseOf(config: Config, folder: string, logger: Logger): Promise<RunningClickHouse> {
  return config.analytics.clickhouse.url === undefined ? startEmbedded(config, folder, logger) : serverOf(config);
}

function serverOf({ analytics }: Config): RunningClickHouse {
  const { url = '', user, password = '' } = analytics.clickhouse;
  return { url, user, password, stop: async () => {} };
}

/** @throws EmbeddedUnavailable */
async function startEmbedded(
  { analytics, dataDir }: Config,
  folder: string,
  logger: Logger,
): Promise<RunningClickHouse> {
  const passwords = loadOrCreateClickHousePasswords(dataDir);
  const engine = await openEmbeddedClickHouse({ folder });
  logger.debug(`chDB, ClickHouse ${engine.version}`);
  const server = createClickHouseHttp({
    engine,
    users: [
      { name: 'projector', password: passwords.projector, limits: undefined },
      { name: 'gateway', password: passwords.gateway, limits: gatewayLimits },
      { name: 'analyst', password: analytics.analystPassword ?? passwords.analyst, limits: analystLimits },
    ],
    onError: (error) => logger.error(error),
  });
  const port = await listenNear(server, analytics.httpPort);
  noteAddress(dataDir, `http://127.0.0.1:${port}`);
  return {
    url: `http://127.0.0.1:${port}`,
    user: 'projector',
    password: passwords.projector,
    ...(analytics.analystPassword === undefined ? { passwordFile: clickHousePasswordFile(dataDir) } : {}),
    stop: async () => {
      forgetAddress(dataDir);
      await stopEmbedded(server, engine);
    },
  };
}

async function stopEmbedded(server: Server, engine: EmbeddedClickHouse): Promise<void> {
  server.close();
  server.closeAllConnections();
  await engine.close();
}

/** On loopback, on that port or one of the next. */
async function listenNear(server: Server, wanted: number): Promise<number> {
  for (let port = wanted; ; port++) {
    try {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
      const address = server.address();
      return typeof address === 'object' && address !== null ? address.port : port;
    } catch (error) {
      const inUse = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
      if (!inUse || port >= wanted + PORTS_TRIED || port >= 65535) throw error;
    }
  }
}

/** The gateway makes the log at its first start, which may be at this moment. */
async function openWhenThere(url: string, stop: AbortSignal) {
  while (!stop.aborted) {
    if (!url.startsWith('file:') || existsSync(directoryOf(url))) {
      try {
        return await openLog(url, { readOnly: true });
      } catch (error) {
        if (!(error instanceof Error && /there is no log/i.test(error.message))) throw error;
      }
    }
    await delay(LOG_POLL_MS, undefined, { signal: stop }).catch(() => {});
  }
  return undefined;
}

function tell(report: AnalyticsReport): void {
  if (process.connected) process.send?.(report);
}

function stopRequest(): AbortSignal {
  const stopping = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => stopping.abort());
  // The gateway that started it is gone, however it went.
  if (process.connected) process.once('disconnect', () => stopping.abort());
  return stopping.signal;
}

async function stopped(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}
