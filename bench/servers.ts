/** The servers under test, each a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { gatewayEnvironment, gatewayFlags } from '../scripts/gateway-node.mjs';

export interface Server {
  /** Without a path. */
  readonly origin: string;
  readonly pid: number;
  /** The code or signal by which it has ended; undefined while it runs. */
  end(): string | undefined;
  /** SIGTERM, and SIGKILL after 20 s. */
  stop(): Promise<void>;
}

export const GATEWAY_KEY = 'bench-master-key';
const STOP_TIMEOUT_MS = 20_000;
const START_TIMEOUT_MS = 60_000;
const fileAt = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export async function startProvider(options: {
  responses: 'native' | 'absent';
  words: number;
  models: readonly string[];
}): Promise<Server> {
  const { responses, words, models } = options;
  const args = ['--port', '0', '--responses', responses, '--words', String(words), '--models', models.join(',')];
  return announced(launch(fileAt('../infra/simulated-provider/main.ts'), args, {}));
}

export async function startBarePassthrough(provider: Server): Promise<Server> {
  const port = await freePort();
  return announced(launch(fileAt('bare-passthrough.ts'), [String(port), provider.origin], {}));
}

export interface GatewayOptions {
  readonly dataDir: string;
  /** Keeps responses itself; registered as `openai`. */
  readonly native: Server;
  /** Has no responses; registered as `llamacpp`. */
  readonly translated?: Server;
  readonly env?: Readonly<Record<string, string>>;
  readonly nodeFlags?: readonly string[];
  /** How long it may take until it is ready. Default 60 s. */
  readonly startTimeoutMs?: number;
}

/** `chancery serve`, not waited for: see `ready`. */
export async function launchGateway({
  dataDir,
  native,
  translated,
  env = {},
  nodeFlags = [],
}: GatewayOptions): Promise<Server> {
  mkdirSync(dataDir, { recursive: true });
  const port = await freePort();
  const child = launch(fileAt('../src/main.ts'), ['serve'], {
    cwd: dataDir,
    nodeFlags: [...gatewayFlags, ...nodeFlags],
    logFile: join(dataDir, 'gateway.log'),
    env: {
      PORT: String(port),
      ...gatewayEnvironment,
      HOST: '127.0.0.1',
      DATA_DIR: dataDir,
      GATEWAY_MASTER_KEY: GATEWAY_KEY,
      LOG_DURABILITY: 'standard',
      ANALYTICS_ENABLED: 'false',
      OPENAI_BASE_URL: `${native.origin}/v1`,
      OPENAI_API_KEY: 'sk-simulated',
      ...(translated === undefined ? {} : { LLAMACPP_BASE_URL: `${translated.origin}/v1` }),
      ...env,
    },
  });
  return serverOf(child, `http://127.0.0.1:${port}`);
}

export async function startGateway(options: GatewayOptions): Promise<Server> {
  const gateway = await launchGateway(options);
  const { startTimeoutMs = START_TIMEOUT_MS } = options;
  const deadline = performance.now() + startTimeoutMs;
  for (;;) {
    if (gateway.end() !== undefined)
      throw new Error(`the gateway ended by ${gateway.end()}: see ${options.dataDir}/gateway.log`);
    const ready = await fetch(`${gateway.origin}/health/ready`).then(
      (response) => response.status === 200,
      () => false,
    );
    if (ready) return gateway;
    if (performance.now() > deadline) throw new Error(`the gateway was not ready within ${startTimeoutMs / 1000} s`);
    await delay(20);
  }
}

interface Launch {
  readonly nodeFlags?: readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Where its output goes; a pipe when absent. */
  readonly logFile?: string;
}

function launch(
  file: string,
  args: readonly string[],
  { cwd, env = {}, logFile, nodeFlags = [] }: Launch,
): ChildProcess {
  // As `npm start` has it: modules are compiled once, not at every start.
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE = '' } = process.env;
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...nodeFlags, file, ...args], {
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
  process.once('exit', () => child.kill('SIGKILL'));
  return child;
}

/** Waits for the line in which the server says where it listens. */
function announced(child: ChildProcess): Promise<Server> {
  return new Promise((resolve, reject) => {
    let said = '';
    child.stdout?.on('data', (piece: Buffer) => {
      said += String(piece);
      const origin = /listening on (https?:\/\/[^/\s]+)/.exec(said)?.[1];
      if (origin !== undefined) resolve(serverOf(child, origin));
    });
    child.once('exit', (code, signal) => {
      reject(
        new Error(`${child.spawnargs.at(2)} ended by ${signal ?? `exit code ${code}`} before it listened: ${said}`),
      );
    });
  });
}

function serverOf(child: ChildProcess, origin: string): Server {
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
