/**
 * An EventStoreDB for tests: the server that `EVENTSTORE_URL` names, else a container where Docker or Podman runs, else the
 * stand-in of this folder as a process of its own. `kind` says which one; test titles and skip messages show it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { containerHost, startContainer } from './containers.ts';
import type { FaultSettings } from './eventstore-stand-in/faults.ts';
import type { StandInMessage } from './eventstore-stand-in/main.ts';

export type EventStoreKind = 'server' | 'container' | 'stand-in';

export interface RunningEventStore {
  readonly kind: EventStoreKind;
  /** A `LOG_URL` for this log name. */
  url(logName: string): string;
  /** Ends the process at once, without a chance to write anything. */
  kill(): Promise<void>;
  /** Starts it again with its data and on its port. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export interface RunningStandIn extends RunningEventStore {
  readonly kind: 'stand-in';
  readonly port: number;
  /** The file with its events. */
  readonly dataFile: string;
  setFaults(settings: FaultSettings): Promise<void>;
  disconnect(): Promise<void>;
  dropSubscriptions(): Promise<void>;
}

export interface StandInSecurity {
  /** Passwords by name. */
  readonly users: Readonly<Record<string, string>>;
  /** Paths of PEM files. */
  readonly cert: string;
  readonly key: string;
}

const image = 'eventstore/eventstore:24.10.0-bookworm-slim';
const PORT = 2113;

/** A real server that cannot be killed or restarted by tests has no such functions; ask `kind` first. */
export async function startEventStore(): Promise<RunningEventStore> {
  const named = process.env['EVENTSTORE_URL'];
  if (named !== undefined && named !== '') return namedServer(named);
  return (await containerHost()) === undefined ? startStandIn() : startInContainer();
}

/** Which one `startEventStore` returns, for titles of tests. */
export async function eventStoreKind(): Promise<EventStoreKind> {
  if ((process.env['EVENTSTORE_URL'] ?? '') !== '') return 'server';
  return (await containerHost()) === undefined ? 'stand-in' : 'container';
}

/** The stand-in, for tests that need its faults. */
export async function startStandIn(security?: StandInSecurity): Promise<RunningStandIn> {
  const folder = mkdtempSync(join(tmpdir(), 'eventstore-stand-in-'));
  const dataFile = join(folder, 'events');
  let running = await spawnStandIn(dataFile, 0, security);
  const { port } = running;
  const end = async (signal: NodeJS.Signals) => {
    if (running.child.exitCode !== null || running.child.signalCode !== null) return;
    const ended = once(running.child, 'exit');
    running.child.kill(signal);
    await ended;
  };
  const send = async (message: StandInMessage) => {
    const answered = once(running.child, 'message');
    running.child.send(message);
    await answered;
  };
  return {
    kind: 'stand-in',
    port,
    dataFile,
    url: (logName) =>
      security === undefined ? `esdb://127.0.0.1:${port}/${logName}?tls=false` : `esdb://localhost:${port}/${logName}`,
    kill: () => end('SIGKILL'),
    restart: async () => {
      await end('SIGKILL');
      running = await spawnStandIn(dataFile, port, security);
    },
    stop: async () => {
      await end('SIGKILL');
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
    setFaults: (faults) => send({ faults }),
    disconnect: () => send({ do: 'disconnect' }),
    dropSubscriptions: () => send({ do: 'dropSubscriptions' }),
  };
}

interface StandInProcess {
  readonly child: ChildProcess;
  readonly port: number;
}

async function spawnStandIn(dataFile: string, port: number, security?: StandInSecurity): Promise<StandInProcess> {
  const program = join(import.meta.dirname, 'eventstore-stand-in', 'main.ts');
  const words = [program, '--data', dataFile, '--port', String(port)];
  if (security !== undefined) {
    words.push('--users', JSON.stringify(security.users), '--cert', security.cert, '--key', security.key);
  }
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  const lines = createInterface({ input: child.stdout ?? process.stdin });
  const [line] = await Promise.race([
    once(lines, 'line'),
    once(child, 'exit').then(([code]) => Promise.reject(new Error(`the stand-in ended with ${code}`))),
  ]);
  return { child, port: JSON.parse(line).port };
}

function namedServer(address: string): RunningEventStore {
  const [before = '', query] = address.split('?');
  const cannot = () => Promise.reject(new Error('the server of EVENTSTORE_URL is not restarted by tests'));
  return {
    kind: 'server',
    url: (logName) => `${before.replace(/\/+$/, '')}/${logName}${query === undefined ? '' : `?${query}`}`,
    kill: cannot,
    restart: cannot,
    stop: () => Promise.resolve(),
  };
}

async function startInContainer(): Promise<RunningEventStore> {
  const container = await startContainer({
    image,
    environment: {
      EVENTSTORE_INSECURE: 'true',
      EVENTSTORE_RUN_PROJECTIONS: 'None',
      EVENTSTORE_CLUSTER_SIZE: '1',
      EVENTSTORE_TELEMETRY_OPTOUT: 'true',
    },
    port: PORT,
    ready: (wait) =>
      wait.forHttp('/health/live', PORT).forStatusCodeMatching((status) => status >= 200 && status < 300),
  });
  const { address, kill, restart, stop } = container;
  return { kind: 'container', url: (logName) => `esdb://${address}/${logName}?tls=false`, kill, restart, stop };
}
