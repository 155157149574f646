/** The analytics process beside the gateway: started, watched, started again, and stopped with it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { Logger } from 'pino';
import { type AnalyticsReport, analyticsReport, OFF_FOR_GOOD } from './analytics-report.ts';
import { printError } from './cli/terminal.ts';
import { loadOrCreateClickHousePasswords } from './clickhouse-passwords.ts';
import type { Config } from './config/config.ts';
import type { AnalyticsAddress } from './projections/analytics/analytics-db.ts';

/** How analytics is, as far as the gateway knows. */
export interface AnalyticsStatus {
  /**
   * `down`: it does not run, or cannot store anything. `behind`: it is late by more than a minute. `off`: it cannot run
   * here, and has said why.
   */
  readonly health: 'ok' | 'behind' | 'down' | 'off';
  /** Events that are not stored yet, by its last report; undefined before the first. */
  readonly lagEvents: number | undefined;
  readonly error?: string;
}

export interface AnalyticsProcess {
  start(): void;
  status(): AnalyticsStatus;
  /**
   * Where the gateway asks for figures; undefined until it has said so.
   * @param user `analyst`: for the questions of people. A server has one user, and what is asked of it is read-only.
   */
  address(user?: 'gateway' | 'analyst'): AnalyticsAddress | undefined;
  /** Resolves when it has ended. */
  stop(): Promise<void>;
}

export interface AnalyticsProcessOptions {
  readonly config: Config;
  /** As for the gateway itself: the child reads the same configuration. */
  readonly flags: Readonly<Record<string, string | undefined>>;
  readonly logger: Logger;
  /** Told of each line for the operator. */
  readonly say: (line: string) => void;
  /** First pause before it is started again, doubled up to 30 s. Default 500 ms. */
  readonly restartMs?: number;
}

const BEHIND_MS = 60_000;
/** A report is due each second; so many missing mean that the process hangs. */
const SILENT_MS = 30_000;
const LONGEST_RESTART_MS = 30_000;
/** After so long, a process that does not stop is killed: nothing can be lost. */
const STOP_MS = 10_000;

/** Undefined when analytics is switched off, or cannot be on; `say` is told why when that is not by choice. */
export function analyticsProcess(options: AnalyticsProcessOptions): AnalyticsProcess | undefined {
  const reason = reasonToBeOff(options.config);
  if (reason === undefined) return new Supervised(options);
  if (reason !== '') options.say(`Analytics is off: ${reason}`);
  return undefined;
}

function reasonToBeOff({ analytics, log }: Config): string | undefined {
  if (!analytics.enabled) return '';
  if (log.url.startsWith('memory:')) return 'the log is in memory, where no other process can read it.';
  if (analytics.clickhouse.url !== undefined) return undefined;
  try {
    createRequire(import.meta.url).resolve('chdb');
    return undefined;
  } catch {
    return 'chDB is not installed here (npm package "chdb", for Linux with glibc and macOS). Name a server with CLICKHOUSE_URL.';
  }
}

/** glibc (for Node) and jemalloc (for ClickHouse) give memory back sooner than they would: a process of its own must be small. */
const frugal = { MALLOC_ARENA_MAX: '2', JE_MALLOC_CONF: 'dirty_decay_ms:300,tcache_max:4096,prof:false' };

/** As `nice` counts: a third of the share of a process that counts as usual. */
const NICENESS = 5;

/** Flags of `serve` that say where things are, by their name in the parsed flags. */
const passedOn = [
  ['config', '--config'],
  ['dataDir', '--data-dir'],
  ['logUrl', '--log-url'],
  ['logLevel', '--log-level'],
] as const;

class Supervised implements AnalyticsProcess {
  readonly #options: AnalyticsProcessOptions;
  #child: ChildProcess | undefined;
  #restart: NodeJS.Timeout | undefined;
  #pauseMs: number;
  #stopping = false;
  #off = false;
  #report: AnalyticsReport | undefined;
  #reportedAt = performance.now();

  constructor(options: AnalyticsProcessOptions) {
    this.#options = options;
    this.#pauseMs = options.restartMs ?? 500;
  }

  start(): void {
    const { flags, logger, say } = this.#options;
    const args = passedOn.flatMap(([name, flag]) => {
      const value = flags[name];
      return value === undefined ? [] : [flag, value];
    });
    const nodeFlags = process.execArgv.filter((flag) => !flag.startsWith('--import') && !flag.startsWith('--inspect'));
    const child = spawn(process.execPath, [...nodeFlags, join(import.meta.dirname, 'main.ts'), 'analytics', ...args], {
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      env: { ...frugal, UV_THREADPOOL_SIZE: '12', ...process.env },
    });
    this.#child = child;
    yieldToRequests(child.pid);
    this.#reportedAt = performance.now();
    lines(child.stdout, say);
    lines(child.stderr, printError);
    child.on('message', (message) => this.#heard(message));
    child.once('error', (error) => logger.warn(`the analytics process could not be started: ${error.message}`));
    child.once('close', (code, signal) => this.#ended(code, signal));
  }

  #heard(message: unknown): void {
    const report = analyticsReport.safeParse(message);
    if (!report.success) return;
    this.#report = report.data;
    this.#reportedAt = performance.now();
    if (report.data.state === 'live') this.#pauseMs = this.#options.restartMs ?? 500;
  }

  #ended(code: number | null, signal: NodeJS.Signals | null): void {
    this.#child = undefined;
    if (this.#stopping) return;
    this.#off = code === OFF_FOR_GOOD;
    if (this.#off) return;
    this.#options.logger.warn(
      `the analytics process ended (${code ?? signal}); it is started again in ${this.#pauseMs} ms`,
    );
    this.#restart = setTimeout(() => this.start(), this.#pauseMs);
    this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_RESTART_MS);
  }

  status(): AnalyticsStatus {
    const report = this.#report;
    const silentMs = performance.now() - this.#reportedAt;
    const lagEvents = report?.lagEvents;
    const error = report?.error;
    if (this.#off) return { health: 'off', lagEvents: undefined };
    if (this.#child === undefined || silentMs > SILENT_MS) return { health: 'down', lagEvents, error };
    if (report === undefined) return { health: 'ok', lagEvents };
    if (report.state === 'waiting' || report.state === 'stopped') return { health: 'down', lagEvents, error };
    return { health: report.lagMs > BEHIND_MS ? 'behind' : 'ok', lagEvents };
  }

  address(username: 'gateway' | 'analyst' = 'gateway'): AnalyticsAddress | undefined {
    const { analytics, dataDir } = this.#options.config;
    const { url, user, password = '', database } = analytics.clickhouse;
    if (url !== undefined) return { url, username: user, password, database };
    const embedded = this.#off ? undefined : this.#report?.url;
    if (embedded === undefined) return undefined;
    const made = loadOrCreateClickHousePasswords(dataDir);
    const passwords = { ...made, analyst: analytics.analystPassword ?? made.analyst };
    return { url: embedded, username, password: passwords[username], database };
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    clearTimeout(this.#restart);
    const child = this.#child;
    if (child === undefined) return;
    const ended = new Promise((resolve) => child.once('close', resolve));
    child.kill('SIGTERM');
    const patience = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    await ended;
    clearTimeout(patience);
  }
}

/** Where both want a processor, requests get most of it; what analytics missed, it catches up on. */
function yieldToRequests(pid: number | undefined): void {
  try {
    if (pid !== undefined) setPriority(pid, NICENESS);
  } catch {
    // It may have ended already.
  }
}

function lines(output: Readable | null, take: (line: string) => void): void {
  if (output !== null) createInterface({ input: output }).on('line', take);
}
