/** The gateway as its users run it: a process of its own, with a data folder on disk. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { compileCache, main } from '../support/main-program.ts';
import { logOfTests, SHARED_KEY } from '../support/test-log.ts';

export const root = dirname(dirname(import.meta.dirname));
export const MASTER_KEY = 'process-test-key';

export interface ProcessOptions {
  /** Variables for the gateway. Of the inherited ones it gets only those that any program needs. */
  readonly env?: Readonly<Record<string, string>>;
  /** After `serve`. */
  readonly args?: readonly string[];
  /** The program and its arguments before `args`; default: `src/main.ts serve` with this Node. */
  readonly command?: readonly [string, ...string[]];
  /** Starts a process group of its own, all of which is ended in the end: for commands that start others. */
  readonly group?: boolean;
  /** Other test files of this process use it, too. */
  readonly shared?: boolean;
  /** Whether it has a channel to its parent, as under the wrapper that `npm start` runs. */
  readonly channel?: boolean;
  /** A folder without a configuration file; default: the system's folder for temporary files. */
  readonly cwd?: string;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface GatewayProcess {
  readonly pid: number;
  /** Its address, once it listens. Rejects with all its output when it ends before that. */
  readonly listening: Promise<string>;
  readonly exited: Promise<Exit>;
  /** Everything printed so far. */
  readonly stdout: string;
  readonly stderr: string;
  kill(signal: NodeJS.Signals): void;
}

const running = new Map<ChildProcess, { readonly group: boolean; readonly shared: boolean }>();
process.once('exit', () => kill([...running.keys()]));

/** Ends everything started here that still runs, whatever the result of its test, except what other files use, too. */
export function killAll(): void {
  kill([...running.keys()].filter((child) => running.get(child)?.shared === false));
}

function kill(children: readonly ChildProcess[]): void {
  for (const child of children) {
    const group = running.get(child)?.group;
    if (group && child.pid !== undefined) endGroup(child.pid);
    else child.kill('SIGKILL');
  }
}

function endGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // all of it has ended already
  }
}

/** Starts the command line; see `ProcessOptions` for what it does not inherit. */
export function startProcess(options: ProcessOptions = {}): GatewayProcess {
  const { args = [], env = {}, cwd = tmpdir(), group = false, shared = false, channel = false } = options;
  const [file, ...before] = options.command ?? [process.execPath, main, 'serve'];
  const child = spawn(file, [...before, ...args], {
    cwd,
    // Analytics is a separate process, which its own tests enable.
    env: {
      ...inheritedVariables(),
      ...{ PORT: '0', ANALYTICS_ENABLED: 'false' },
      ...(/^(kafka|esdb)/.test(env['LOG_URL'] ?? '') && { CREDENTIALS_KEY: SHARED_KEY }),
      ...logOfTests(env['DATA_DIR']),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe', ...(channel ? (['ipc'] as const) : [])],
    detached: group,
  });
  running.set(child, { group, shared });
  let stdout = '';
  let stderr = '';
  const listening = Promise.withResolvers<string>();
  const exited = Promise.withResolvers<Exit>();
  // Either may be left unused: a rejection must not become an unhandled one.
  listening.promise.catch(() => {});
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    const address = /listens on ((?:https?:\/\/|unix:)\S+?)\.?\s/.exec(stdout)?.[1];
    if (address !== undefined) listening.resolve(address);
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.once('error', (error) => listening.reject(error));
  child.once('close', (code, signal) => {
    running.delete(child);
    listening.reject(new Error(`the gateway ended (${code ?? signal}) before it listened:\n${stdout}${stderr}`));
    exited.resolve({ code, signal });
  });
  return {
    pid: child.pid ?? 0,
    listening: listening.promise,
    exited: exited.promise,
    get stdout() {
      return stdout;
    },
    get stderr() {
      return stderr;
    },
    kill: (signal) => void child.kill(signal),
  };
}

/** What any program needs. Compiled code is kept between starts, as `npm start` does. */
export function inheritedVariables(): Record<string, string> {
  const kept: Record<string, string> = { NODE_COMPILE_CACHE: compileCache };
  for (const name of ['PATH', 'HOME', 'TMPDIR']) {
    const value = process.env[name];
    if (value !== undefined) kept[name] = value;
  }
  return kept;
}

export interface ServeOptions extends ProcessOptions {
  /** After which the process is killed when it does not listen; default 30 s. */
  readonly listensWithinMs?: number;
  readonly dataDir: string;
}

/** If a start takes longer, its output becomes the error. */
const LISTENS_WITHIN_MS = 30_000;

export interface ServedGateway {
  readonly url: string;
  readonly process: GatewayProcess;
}

/** A gateway with the usual master key that keeps its data in `dataDir`; resolves once it listens. */
export async function serve({
  dataDir,
  env,
  listensWithinMs = LISTENS_WITHIN_MS,
  ...options
}: ServeOptions): Promise<ServedGateway> {
  const process = startProcess({
    ...options,
    env: { DATA_DIR: dataDir, GATEWAY_MASTER_KEY: MASTER_KEY, RETRY_INITIAL_BACKOFF: '10ms', ...env },
  });
  const patience = setTimeout(() => process.kill('SIGKILL'), listensWithinMs);
  try {
    return { url: await process.listening, process };
  } finally {
    clearTimeout(patience);
  }
}

/** Stops it as an operator does. @throws Error with its output unless it ends with 0 */
export async function stopGateway({ process }: ServedGateway): Promise<void> {
  process.kill('SIGTERM');
  const { code, signal } = await process.exited;
  if (code !== 0) throw new Error(`the gateway ended with ${code ?? signal}:\n${process.stderr}`);
}

/** A folder for one test file; `remove` it in the end. */
export function temporaryFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'chancery-process-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true, maxRetries: 3 }) };
}

/** `fetch` with the master key; `json` makes it a POST. */
export function ask(url: string, path: string, init: RequestInit & { json?: unknown; key?: string } = {}) {
  const { json, key = MASTER_KEY, ...rest } = init;
  const headers = new Headers(init.headers);
  if (!headers.has('authorization')) headers.set('authorization', `Bearer ${key}`);
  if (json === undefined) return fetch(new URL(path, url), { ...rest, headers });
  headers.set('content-type', 'application/json');
  return fetch(new URL(path, url), { method: 'POST', ...rest, headers, body: JSON.stringify(json) });
}
