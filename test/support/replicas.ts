/** Replicated logs over one engine, each with a folder of its own, as several gateways have them. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { LogCapabilities } from '../../src/events/log.ts';
import type { LogEngine } from '../../src/events/replicated/engine.ts';
import { ReplicatedLog } from '../../src/events/replicated/replicated-log.ts';
import type { ReopenOptions, SharedHandle, SharedLog } from '../contract/shared-log.ts';
import { UnreliableEngine } from './unreliable-engine.ts';

export const replicatedCapabilities: LogCapabilities = {
  expectedRevision: 'on-read',
  globalOrder: 'total',
  durability: 'replicated',
  maxEventBytes: 64 * 1024 * 1024,
  atomicMultiStream: true,
};

type OpenOptions = Omit<Parameters<typeof ReplicatedLog.open>[0], 'engine' | 'dir'>;

export interface ReplicaOptions extends OpenOptions {
  /** An existing folder. */
  readonly dir?: string;
}

interface ReplicaParts {
  readonly connect: () => LogEngine;
  readonly dir: string;
  readonly options: OpenOptions;
}

interface Opened {
  readonly engine: UnreliableEngine;
  readonly log: ReplicatedLog;
}

export class Replica implements SharedHandle {
  readonly #parts: ReplicaParts;
  #engine: UnreliableEngine;
  #log: ReplicatedLog;

  private constructor(parts: ReplicaParts, opened: Opened) {
    this.#parts = parts;
    this.#engine = opened.engine;
    this.#log = opened.log;
  }

  static async open(connect: () => LogEngine, options: ReplicaOptions = {}): Promise<Replica> {
    const { dir = await temporaryFolder(), ...rest } = options;
    return new Replica({ connect, dir, options: rest }, await openOver(connect, dir, rest));
  }

  get dir(): string {
    return this.#parts.dir;
  }

  get log(): ReplicatedLog {
    return this.#log;
  }

  loseAnswer(recorded: boolean): void {
    this.#engine.loseAnswer(recorded);
  }

  async reopen({ without, meanwhile }: ReopenOptions = {}): Promise<void> {
    await this.#log.close();
    if (without === 'its folder') await rm(this.dir, { recursive: true });
    if (without === 'its checkpoint') await removeCheckpoint(this.dir);
    await meanwhile?.();
    const { engine, log } = await openOver(this.#parts.connect, this.dir, this.#parts.options);
    this.#engine = engine;
    this.#log = log;
  }

  async dispose(): Promise<void> {
    await this.#log.close().catch(() => {});
    await rm(this.dir, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function openOver(connect: () => LogEngine, dir: string, options: OpenOptions): Promise<Opened> {
  const engine = new UnreliableEngine(connect());
  return { engine, log: await ReplicatedLog.open({ engine, dir, ...options }) };
}

export function temporaryFolder(): Promise<string> {
  return mkdtemp(path.join(tmpdir(), 'chancery-replica-'));
}

/** The files in a replica's folder that its embedded log does not have. */
export async function checkpointFiles(dir: string): Promise<string[]> {
  return (await readdir(dir)).filter((name) => name.startsWith('replica')).map((name) => path.join(dir, name));
}

async function removeCheckpoint(dir: string): Promise<void> {
  const files = await checkpointFiles(dir);
  if (files.length === 0) throw new Error(`${dir} has no checkpoint`);
  for (const file of files) await rm(file);
}

/** @param connect makes a connection to the engine for one handle */
export function sharedReplicas(
  connect: () => LogEngine,
  engine: SharedLog['engine'],
  removeEngine: () => Promise<void> = async () => {},
): SharedLog {
  const replicas: Replica[] = [];
  return {
    engine,
    open: async () => {
      const replica = await Replica.open(connect);
      replicas.push(replica);
      return replica;
    },
    dispose: async () => {
      await Promise.all(replicas.map((replica) => replica.dispose()));
      await removeEngine();
    },
  };
}
