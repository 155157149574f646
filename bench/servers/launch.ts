/** Starting and stopping the processes of the benchmark. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { connect, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

export interface Server {
  /** Without a path. */
  readonly origin: string;
  readonly pid: number;
  /** The code or signal of its end; undefined while it runs. */
  end(): string | undefined;
  /** SIGTERM, and SIGKILL after 20 s. */
  stop(): Promise<void>;
}

const STOP_TIMEOUT_MS = 20_000;
const START_TIMEOUT_MS = 10_000;

export interface Launch {
  /** The processors for it, its threads and its children, as `taskset -c` takes them. Default: all. */
  readonly cores?: string | undefined;
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Where its output goes; a pipe when absent. */
  readonly logFile?: string;
}

export interface NodeLaunch extends Launch {
  readonly nodeFlags?: readonly string[];
}

const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** A file of the project in the Node that runs the benchmark. */
export function launchNode(file: string, args: readonly string[], { nodeFlags = [], ...more }: NodeLaunch) {
  return launch([process.execPath, '--disable-warning=ExperimentalWarning', ...nodeFlags, file, ...args], more);
}

export function launch(command: readonly string[], { cores, cwd, env = {}, logFile }: Launch): ChildProcess {
  // As with `npm start`: modules are compiled once, not at every start.
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE = '' } = process.env;
  // `taskset` becomes the command: the process keeps its id.
  const [program = '', ...args] = cores === undefined ? command : ['taskset', '-c', cores, ...command];
  const child = spawn(program, args, {
    ...(cwd === undefined ? {} : { cwd }),
    env: { PATH, HOME, NODE_COMPILE_CACHE, NODE_ENV: 'production', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (logFile === undefined) child.stderr?.pipe(process.stderr);
  else {
    const file = createWriteStream(logFile);
    child.stdout?.pipe(file, { end: false });
    child.stderr?.pipe(file, { end: false });
  }
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

/** Waits for the line in which the server prints its address. */
export function announced(child: ChildProcess): Promise<Server> {
  return new Promise((resolve, reject) => {
    let output = '';
    child.stdout?.on('data', (piece: Buffer) => {
      output += String(piece);
      const origin = /listening on (https?:\/\/[^/\s]+)/.exec(output)?.[1];
      if (origin !== undefined) resolve(serverOf(child, origin));
    });
    child.once('exit', (code, signal) => {
      const how = signal ?? `exit code ${code}`;
      reject(new Error(`${child.spawnargs.join(' ')} ended by ${how} before it listened: ${output}`));
    });
  });
}

/** Waits until the server's port takes connections. @throws Error when it ends, or does not within 10 s */
export async function listening(server: Server): Promise<Server> {
  const { hostname, port } = new URL(server.origin);
  const deadline = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    const socket = connect(Number(port), hostname);
    const open = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (open) return server;
    if (server.end() !== undefined) throw new Error(`the server for ${server.origin} ended by ${server.end()}`);
    if (performance.now() > deadline) throw new Error(`nothing listens at ${server.origin}`);
    await delay(20);
  }
}

export function serverOf(child: ChildProcess, origin: string): Server {
  const end = () => child.signalCode ?? (child.exitCode === null ? undefined : `exit code ${child.exitCode}`);
  return {
    origin,
    pid: child.pid ?? 0,
    end,
    async stop() {
      if (end() !== undefined) return;
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      const patience = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
      await ended;
      clearTimeout(patience);
    },
  };
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}
