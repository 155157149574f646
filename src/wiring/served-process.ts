/** What a process that serves a configuration begins with: diagnostics, the master key, and what ends it. */

import { print } from '../cli/terminal.ts';
import type { Config } from '../config/config.ts';
import { loadOrCreateMasterKey } from '../config/master-key.ts';
import type { RunningConfiguration } from '../config/reload.ts';
import { LogUnavailable } from '../events/log.ts';
import type { Gateway } from '../gateway.ts';
import { DASHBOARD_NOT_BUILT } from '../http/dashboard/dashboard.ts';
import { urlOf } from '../http/listener.ts';
import { createDiagnostics } from './diagnostics.ts';
import { releaseMemoryAfterStart } from './idle-memory.ts';
import { watchUnexpectedErrors } from './unexpected-errors.ts';

/** How long a stop after an unexpected error may take in addition to the grace period of open requests. */
const STOP_MARGIN_MS = 10_000;

export type ServedProcess = ReturnType<typeof beginServing>;

/** Creates the master key at the first start without a configured one. */
export function beginServing(running: RunningConfiguration) {
  const { config } = running;
  const logger = createDiagnostics({ level: config.logLevel, format: config.logFormat });
  for (const notice of config.notices) logger.warn(notice);
  releaseMemoryAfterStart();
  let masterKey = config.masterKey;
  let created = false;
  if (masterKey === undefined && !config.unsafeOpen) {
    ({ key: masterKey, created } = loadOrCreateMasterKey(config.dataDir));
  }
  const unexpected = watchUnexpectedErrors(logger, config.server.drainSeconds * 1000 + STOP_MARGIN_MS);
  const stopRequested = stopRequests();
  return { running, config, logger, masterKey, created, unexpected, stopRequested, onReloadSignal: reloadSignals() };
}

/** @returns sets what SIGHUP does; a signal before the first call has its effect then */
function reloadSignals() {
  let early = false;
  let reload = () => {
    early = true;
  };
  process.on('SIGHUP', () => reload());
  return (effect: () => void) => {
    reload = effect;
    if (early) effect();
    early = false;
  };
}

// Requests to stop the program: signals, and the end of the process that started it.

/**
 * One Ctrl-C reaches the whole process group, and npm may forward it as well: signals within this time count as one
 * request.
 */
const SAME_SIGNAL_MS = 500;

interface StopRequests {
  /** Resolves with the reason for the stop. */
  readonly first: Promise<string>;
  /** Resolves at a second stop request, which ends the process immediately. */
  readonly second: Promise<void>;
}

function stopRequests(): StopRequests {
  const first = Promise.withResolvers<string>();
  const second = Promise.withResolvers<void>();
  let stopRequestedAt: number | undefined;
  const stop = (reason: string) => {
    if (stopRequestedAt === undefined) {
      stopRequestedAt = performance.now();
      first.resolve(reason);
    } else if (performance.now() - stopRequestedAt >= SAME_SIGNAL_MS) {
      second.resolve();
    }
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop(signal));
  // The wrapper of `npm start` keeps this channel open while it is alive.
  if (process.connected) process.once('disconnect', () => stop('its parent process has ended'));
  return { first: first.promise, second: second.promise };
}

/** What `chancery serve` prints for the operator when the gateway listens, and when it cannot start. */
export type StartedGateway = Pick<Gateway, 'url' | 'demo' | 'dashboard'>;

interface FirstStart {
  readonly masterKey: string | undefined;
  /** Whether this start has created it. */
  readonly created: boolean;
}

export function announceStart(gateway: StartedGateway, config: Config, { masterKey, created }: FirstStart): void {
  const workers = config.server.workers === 1 ? '' : ` with ${config.server.workers} workers`;
  print(`Chancery listens on ${gateway.url}${workers}. Its log is ${config.log.url} (${durabilityOf(config.log)}).`);
  if (config.unsafeOpen && config.masterKey === undefined) {
    print('UNSAFE: authentication is disabled because GATEWAY_UNSAFE_OPEN=true.');
  }
  if (gateway.demo) {
    print(
      'No provider is configured. A simulated provider serves demo/…; ' +
        'set LLAMACPP_BASE_URL=http://HOST:PORT/v1, OPENAI_API_KEY=… or another variable to add a real provider.',
    );
  }
  if (gateway.dashboard === 'not built') print(DASHBOARD_NOT_BUILT);
  const { adminListen, tls, basePath } = config.server;
  const adminUrl = adminListen === undefined ? gateway.url : urlOf({ ...adminListen, tls, basePath });
  if (adminListen !== undefined) print(`The admin API and the metrics are at ${adminUrl}`);
  const dashboard = gateway.dashboard === 'on' ? `${adminUrl}/admin/dashboard` : undefined;
  if (created && masterKey !== undefined) printFirstStart(gateway, masterKey, dashboard);
  else if (dashboard !== undefined) print(`The dashboard is at ${dashboard}`);
}

const durability = {
  standard: 'on disk before an answer ends',
  strict: 'on disk before a provider is called',
  relaxed: 'synced every 100 ms: a power cut may lose the last events',
};

function durabilityOf({ engine, durability: setting }: Config['log']): string {
  return engine === undefined ? durability[setting] : 'acknowledged by the engine and read back before an answer ends';
}

function printFirstStart({ url, demo }: StartedGateway, masterKey: string, dashboard: string | undefined): void {
  const model = demo ? 'demo/simulated-small' : 'PROVIDER/MODEL';
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello!' }] });
  print(
    `\nThis is the first start. The master key, shown only once and stored in the data folder:\n\n  ${masterKey}\n`,
  );
  if (dashboard !== undefined) print(`The dashboard, which needs this key:\n\n  ${dashboard}\n`);
  print(
    `Try it:\n\n  curl ${url.replace(/^unix:(.*)/, '--unix-socket $1 http://localhost')}/v1/chat/completions -H 'Authorization: Bearer ${masterKey}' ` +
      `-H 'Content-Type: application/json' -d '${body}'\n`,
  );
}

/** The result code of SQLite for a full disk: https://www.sqlite.org/rescode.html#full */
const SQLITE_FULL = 13;

/** For the operator: why the gateway could not start. */
export function whyNotStarted(error: unknown, { dataDir }: Pick<Config, 'dataDir'>): string {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    // A refusal of the log says what a client needs to know.
    if (cause instanceof LogUnavailable) return cause.message;
  }
  const { code, errcode, message } = error as NodeJS.ErrnoException & { errcode?: number };
  if (code === 'ERR_SQLITE_ERROR' && errcode === SQLITE_FULL) {
    return `the disk of ${dataDir} is full: the gateway needs a few megabytes there for its read models.`;
  }
  return message ?? String(error);
}
