/** Starts, watches, restarts and stops the analytics process beside the gateway. */
import type { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { printError } from '../cli/terminal.ts';
import type { Config } from '../config/config.ts';
import type { RecordQuery } from '../http/clickhouse/reader-request.ts';
import type { AnalyticsAddress } from '../projections/analytics/analytics-db.ts';
import { forgetAddress, noteAddress } from './announced-position.ts';
import { clickHousePasswordFile, newPassword } from './clickhouse-passwords.ts';
import {
  type ClickHouseReader,
  listenNear,
  logFolder,
  readersPasswords,
  sendJob,
  spawnAnalytics,
  viewOf,
} from './launch.ts';
import {
  type AnalyticsReport,
  analyticsReport,
  OFF_FOR_GOOD,
  type QueryRecorded,
  type QueryToRecord,
  queryToRecord,
} from './messages.ts';
import { portOf } from './port-of.ts';
import { findSandbox, type SandboxCommand } from './sandbox.ts';
import { type Patience, processorMsOf, Watchdog } from './watchdog.ts';

/** The state of analytics that the gateway knows. */
export interface AnalyticsStatus {
  /**
   * `down`: it does not run, or cannot store anything. `behind`: it is late by more than a minute. `off`: it cannot run
   * here, and has printed the reason.
   */
  readonly health: 'ok' | 'behind' | 'down' | 'off';
  /** Events that are not stored yet, by its last report; undefined before the first. */
  readonly lagEvents: number | undefined;
  /** For how long the oldest of them has been in the log, in milliseconds. */
  readonly lagMs?: number | undefined;
  /** Every event up to this position is stored, by its last report. */
  readonly position?: number | undefined;
  readonly error?: string;
}

export interface AnalyticsProcess {
  /**
   * @param record writes an analyst's query to the log. Without it analysts' queries are refused.
   * @param epoch of this writer, where several gateways write into one server, one at a time
   */
  start(record?: RecordQuery, epoch?: number): void;
  status(): AnalyticsStatus;
  /**
   * The address for the gateway's queries; undefined until the process has reported it.
   * @param user `administrator`: for the queries of `POST /admin/sql`. On a server these run as its user for analysts, and
   *   nowhere when none is configured.
   */
  address(user?: ClickHouseReader): AnalyticsAddress | undefined;
  /** Resolves when it has ended. It may be started again. */
  stop(): Promise<void>;
}

export interface AnalyticsProcessOptions {
  readonly config: Config;
  readonly logger: Logger;
  /** Called with each line for the operator. */
  readonly say: (line: string) => void;
  /** When it ends it is not started again: called with its exit code. */
  readonly onEnd?: (code: number) => void;
  /** First pause before it is started again, doubled up to 30 s. Default 500 ms. */
  readonly restartMs?: number;
  /** Lateness at which a process of low priority is restarted with a fair share. Default a minute. */
  readonly overdueMs?: number;
  /** How long until the process counts as hanging. */
  readonly patience?: Patience;
  /** The program to run. Default: the analytics process. */
  readonly program?: string;
}

const BEHIND_MS = 60_000;
const OVERDUE_MS = 60_000;
/** A report is due each second; after so long without one the gateway sends no queries to the process. */
const SILENT_MS = 30_000;
const LONGEST_RESTART_MS = 30_000;
const WATCH_MS = 1000;
const LOG_POLL_MS = 250;
/** After so long, a process that does not stop is killed. No data is lost by that. */
const STOP_MS = 10_000;

/** Undefined when analytics is switched off, or cannot run; in the second case `say` gets the reason. */
export function analyticsProcess(options: AnalyticsProcessOptions): AnalyticsProcess | undefined {
  if (!options.config.analytics.enabled) return undefined;
  const reason = reasonToBeOff(options.config);
  if (reason === undefined) return new Supervised(options);
  options.say(`Analytics is off: ${reason}`);
  return undefined;
}

/** Why analytics cannot run where it is on; undefined when it can. */
export function reasonToBeOff({ analytics, log }: Pick<Config, 'analytics' | 'log'>): string | undefined {
  if (log.readUrl.startsWith('memory:')) return 'the log is in memory, where no other process can read it.';
  if (analytics.clickhouse.url !== undefined) return undefined;
  try {
    createRequire(import.meta.url).resolve('chdb');
    return undefined;
  } catch {
    return 'chDB is not installed here (npm package "chdb", for Linux with glibc and macOS). Name a server with CLICKHOUSE_URL.';
  }
}

class Supervised implements AnalyticsProcess {
  readonly #options: AnalyticsProcessOptions;
  readonly #firstPauseMs: number;
  #sandbox: SandboxCommand | 'none' | undefined;
  /** Port of the embedded ClickHouse: kept at a restart of the process if it is free. */
  #port: number;
  /** Of the user `administrator`: in memory only, so that only this process sends queries that are not recorded. */
  readonly #administratorPassword = newPassword();
  #record: RecordQuery = cannotRecord;
  #epoch: number | undefined;
  #isStarted = false;
  #child: ChildProcess | undefined;
  #watchdog: Watchdog | undefined;
  #launching: Promise<void> = Promise.resolve();
  #restart: NodeJS.Timeout | undefined;
  #pauseMs: number;
  #stopping = false;
  #off = false;
  /** The last report of the present process. */
  #report: AnalyticsReport | undefined;

  constructor(options: AnalyticsProcessOptions) {
    this.#options = options;
    this.#firstPauseMs = options.restartMs ?? 500;
    this.#pauseMs = this.#firstPauseMs;
    this.#port = options.config.analytics.httpPort;
  }

  start(record: RecordQuery = cannotRecord, epoch?: number): void {
    this.#record = record;
    this.#epoch = epoch;
    this.#isStarted = true;
    this.#stopping = false;
    this.#begin();
  }

  #begin(): void {
    this.#launching = this.#launch().catch((error: Error) => {
      this.#ended(`it could not be started: ${error.message}`, 1);
    });
  }

  async #launch(): Promise<void> {
    const { config, program, say } = this.#options;
    await this.#logFolderThere();
    if (this.#stopping) return;
    this.#sandbox ??= await this.#chooseSandbox();
    if (this.#off) {
      this.#options.onEnd?.(OFF_FOR_GOOD);
      return;
    }
    const socket = config.analytics.clickhouse.url === undefined ? await listenNear(this.#port) : undefined;
    try {
      if (this.#stopping) return;
      if (socket !== undefined) this.#port = portOf(socket);
      const child = spawnAnalytics(this.#sandbox === 'none' ? undefined : this.#sandbox, program);
      this.#follow(child);
      lines(child.stdout, say);
      lines(child.stderr, printError);
      await sendJob(child, config, { administratorPassword: this.#administratorPassword, epoch: this.#epoch }, socket);
    } finally {
      socket?.close();
    }
  }

  /** The gateway creates the log at its first start, which may be now. */
  async #logFolderThere(): Promise<void> {
    const folder = logFolder(this.#options.config);
    while (!this.#stopping && !existsSync(folder)) await delay(LOG_POLL_MS);
  }

  /** `none` where there is no sandbox and none is required. */
  async #chooseSandbox(): Promise<SandboxCommand | 'none'> {
    const { config, say } = this.#options;
    const mode = config.analytics.sandbox;
    if (mode === 'off') return 'none';
    const found = await findSandbox(viewOf(config), process.execPath, process.env['PATH']);
    if (!('why' in found)) return found;
    if (mode === 'required') {
      this.#off = true;
      say(`Analytics is off: ${found.why} ANALYTICS_SANDBOX=required allows it to run only in its sandbox.`);
    } else say(`Analytics is not sandboxed: ${found.why}`);
    return 'none';
  }

  #follow(child: ChildProcess): void {
    const watched = { now: () => performance.now(), processorMs: () => processorMsOf(child.pid ?? 0) };
    const watchdog = new Watchdog(watched, this.#options.patience);
    const watching = setInterval(() => this.#watch(child, watchdog), WATCH_MS);
    this.#child = child;
    this.#watchdog = watchdog;
    this.#report = undefined;
    // Not 'close': it is never emitted once this side has closed the channel.
    const over = (how: string, code: number) => {
      clearInterval(watching);
      this.#child = undefined;
      forgetAddress(this.#options.config.dataDir);
      this.#ended(how, code);
    };
    child.on('message', (message) => {
      const query = queryToRecord.safeParse(message);
      if (query.success) return void this.#recordQuery(child, query.data);
      const report = analyticsReport.safeParse(message);
      if (!report.success) return;
      watchdog.noteSignal();
      this.#receiveReport(child, report.data);
    });
    child.once('exit', (code, signal) => over(`it ended (${code ?? signal})`, code ?? 1));
    child.once('error', (error) => {
      if (child.pid === undefined) over(`it could not be started: ${error.message}`, 1);
    });
  }

  async #recordQuery(child: ChildProcess, { id, user, query, format, parameters }: QueryToRecord): Promise<void> {
    const answer: QueryRecorded = { type: 'recorded', id };
    try {
      await this.#record({ user, query, format, parameters });
    } catch (error) {
      answer.error = error instanceof Error ? error.message : String(error);
    }
    if (child.connected) child.send(answer, () => {});
  }

  #watch(child: ChildProcess, watchdog: Watchdog): void {
    const reason = watchdog.reasonToEnd();
    if (reason === undefined) return;
    this.#options.logger.error(`the analytics process does not respond: ${reason}; it is stopped`);
    child.kill('SIGKILL');
  }

  #receiveReport(child: ChildProcess, report: AnalyticsReport): void {
    const isFirst = this.#report === undefined;
    this.#report = report;
    if (isFirst) this.#introduce();
    if (report.state === 'live') this.#pauseMs = this.#firstPauseMs;
    const { overdueMs = OVERDUE_MS, logger } = this.#options;
    const works = report.state === 'live' || report.state === 'catching-up';
    if (report.share === 'fair' || !works || report.lagMs < overdueMs) return;
    // A process cannot raise its own share of the processor: a new process can.
    const late = Math.round(report.lagMs / 1000);
    logger.info(`analytics is ${late} s late: it is restarted with normal processor priority`);
    this.#pauseMs = 0;
    child.kill('SIGKILL');
  }

  /** Prints the address for analysts' queries, and notes it for other programs. */
  #introduce(): void {
    const { config, say } = this.#options;
    const { analytics, dataDir } = config;
    const url = analytics.clickhouse.url ?? this.#embeddedUrl();
    say(`Analytics: ClickHouse at ${url}, database ${analytics.clickhouse.database}.`);
    if (analytics.clickhouse.url !== undefined) return;
    noteAddress(dataDir, url);
    if (analytics.analystPassword !== undefined) return;
    say(`Analytics: query it as the user "analyst"; the password is in ${clickHousePasswordFile(dataDir)}.`);
  }

  #serverAddress(url: string, reader: ClickHouseReader): AnalyticsAddress | undefined {
    const { user, password = '', database, analyst } = this.#options.config.analytics.clickhouse;
    if (reader === 'gateway') return { url, username: user, password, database };
    return analyst && { url, username: analyst.user, password: analyst.password, database };
  }

  #embeddedUrl(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  #ended(how: string, code: number): void {
    const { logger, onEnd } = this.#options;
    if (this.#stopping) return;
    this.#off = code === OFF_FOR_GOOD;
    onEnd?.(code);
    if (this.#off || onEnd !== undefined) return;
    const pauseMs = this.#pauseMs;
    this.#pauseMs = Math.min(Math.max(pauseMs, this.#firstPauseMs) * 2, LONGEST_RESTART_MS);
    this.#restart = setTimeout(() => {
      // Not earlier: the signal that ended the process may also stop the gateway.
      if (pauseMs > 0) logger.warn(`the analytics process: ${how}; it is restarted`);
      this.#begin();
    }, pauseMs);
  }

  status(): AnalyticsStatus {
    const report = this.#report;
    if (this.#off) return { health: 'off', lagEvents: undefined };
    // Another gateway writes into the server.
    if (!this.#isStarted && this.#options.config.analytics.clickhouse.url !== undefined) {
      return { health: 'ok', lagEvents: undefined };
    }
    const { lagEvents, lagMs, position, error } = report ?? {};
    const isSilent = this.#child === undefined || (this.#watchdog?.silentMs ?? 0) > SILENT_MS;
    if (isSilent || report?.state === 'waiting' || report?.state === 'stopped') {
      return { health: 'down', lagEvents, lagMs, position, error };
    }
    return { health: (lagMs ?? 0) > BEHIND_MS ? 'behind' : 'ok', lagEvents, lagMs, position };
  }

  address(username: ClickHouseReader = 'gateway'): AnalyticsAddress | undefined {
    const { config } = this.#options;
    const { url, database } = config.analytics.clickhouse;
    if (url !== undefined) return this.#serverAddress(url, username);
    if (this.#off || this.#report === undefined) return undefined;
    const password = readersPasswords(config, this.#administratorPassword)[username];
    return { url: this.#embeddedUrl(), username, password, database };
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#isStarted = false;
    clearTimeout(this.#restart);
    await this.#launching;
    const child = this.#child;
    if (child === undefined) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    // A signal would end the sandbox, and the process in it, at once.
    if (child.connected) child.disconnect();
    const patience = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    await ended;
    clearTimeout(patience);
  }
}

async function cannotRecord(): Promise<never> {
  throw new Error('no gateway process writes the log');
}

function lines(output: Readable | null, take: (line: string) => void): void {
  if (output !== null) createInterface({ input: output }).on('line', take);
}
