/** Starts one analytics process: in its sandbox, with a minimal environment, and with its job. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Config } from '../config/config.ts';
import { directoryOf } from '../events/open-log.ts';
import { loadOrCreateClickHousePasswords } from './clickhouse-passwords.ts';
import type { AnalyticsJob } from './messages.ts';
import { programFiles, projectRoot, type SandboxAccess, type SandboxCommand } from './sandbox.ts';

/** Node's flags: they limit the memory of the process beside a gateway, and SIGUSR1 opens no debugger. */
const nodeFlags = ['--disable-warning=ExperimentalWarning', '--disable-sigusr1', '--max-semi-space-size=8'];

/** glibc (for Node) and jemalloc (for ClickHouse) return memory sooner. An operator may override it. */
const memorySavingVariables: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: '2',
  JE_MALLOC_CONF: 'dirty_decay_ms:300,tcache_max:4096,prof:false',
  UV_THREADPOOL_SIZE: '12',
};

/** Variables of the gateway's environment that are passed on: they hold no secrets. */
const inheritedVariables = [...Object.keys(memorySavingVariables), 'NODE_COMPILE_CACHE', 'NODE_EXTRA_CA_CERTS', 'TZ'];

const analyticsProgram = fileURLToPath(new URL('./worker.ts', import.meta.url));

/** Made when it is missing. */
export function analyticsFolder({ dataDir }: Config): string {
  const folder = join(dataDir, 'clickhouse');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
}

export function logFolder({ log }: Config): string {
  return resolve(directoryOf(log.readUrl));
}

/** The files and network of the sandbox. The embedded ClickHouse gets a socket, so it needs no network. */
export function viewOf(config: Config): SandboxAccess {
  const files = ['NODE_COMPILE_CACHE', 'NODE_EXTRA_CA_CERTS'].map((name) => process.env[name] ?? '');
  return {
    reads: [
      ...programFiles(projectRoot()),
      logFolder(config),
      ...files.filter((file) => file !== '').map((file) => resolve(file)),
    ],
    writes: [analyticsFolder(config)],
    network: config.analytics.clickhouse.url !== undefined,
  };
}

/** Starts the process in its sandbox; it then waits for its job. @param program default: the analytics process */
export function spawnAnalytics(sandbox: SandboxCommand | undefined, program = analyticsProgram): ChildProcess {
  const [file = '', ...args] = [...(sandbox ?? []), process.execPath, ...nodeFlags, program];
  return spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], env: environment() });
}

function environment(): Record<string, string> {
  const given = inheritedVariables.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  return { ...memorySavingVariables, ...Object.fromEntries(given) };
}

/** What a process receives beside the configuration. */
export interface JobFacts {
  readonly administratorPassword: string;
  readonly epoch: number | undefined;
}

function jobOf(config: Config, { administratorPassword, epoch }: JobFacts): AnalyticsJob {
  const { analytics, logLevel, logFormat } = config;
  const { url, user, password = '', database } = analytics.clickhouse;
  const isText = logFormat === 'text' || (logFormat === 'auto' && process.stderr.isTTY === true);
  return {
    type: 'job',
    logUrl: pathToFileURL(logFolder(config)).href,
    folder: analyticsFolder(config),
    database,
    retention: analytics.retention,
    epoch,
    diagnostics: { level: logLevel, format: isText ? 'text' : 'json' },
    clickhouse:
      url === undefined
        ? { kind: 'embedded', passwords: readersPasswords(config, administratorPassword) }
        : { kind: 'server', url, user, password },
  };
}

/** A user of the embedded ClickHouse that only reads. */
export type ClickHouseReader = 'gateway' | 'administrator' | 'analyst';

export function readersPasswords(
  { analytics, dataDir }: Config,
  administrator: string,
): Record<ClickHouseReader, string> {
  const made = loadOrCreateClickHousePasswords(dataDir);
  return { ...made, administrator, analyst: analytics.analystPassword ?? made.analyst };
}

/** Resolves when the job is sent, or when the process has ended, which is handled elsewhere. */
export async function sendJob(
  child: ChildProcess,
  config: Config,
  facts: JobFacts,
  socket: Server | undefined,
): Promise<void> {
  if (child.pid === undefined) return;
  await new Promise<void>((sent) => child.send(jobOf(config, facts), socket, {}, () => sent()));
}

const PORTS_TRIED = 50;

/**
 * The socket of the embedded ClickHouse: on loopback, on that port or one of the next. To be closed once it is sent.
 * Connections of clients before that are closed.
 */
export async function listenNear(preferredPort: number): Promise<Server> {
  for (let port = preferredPort; ; port++) {
    const server = createServer((connection) => connection.destroy());
    try {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
      return server;
    } catch (error) {
      const inUse = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
      if (!inUse || port >= preferredPort + PORTS_TRIED || port >= 65535) throw error;
    }
  }
}
