/** One process of a plugin: its start, its messages, and the reason of its end. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { setPriority } from 'node:os';
import { dirname, join } from 'node:path';
import type { Duplex, Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { encodeFrame, FrameReader } from '../protocol/frames.ts';
import {
  BOUNDS_FROM_PLUGIN,
  type ChildOptions,
  type FromPlugin,
  MAX_FROM_PLUGIN,
  MAX_TO_PLUGIN,
  PROTOCOL_FD,
  type ToPlugin,
  WATCHDOG_FD,
} from '../protocol/messages.ts';

/** Bytes that are read in one second. A plugin that writes more waits, so that it cannot keep the gateway busy. */
const BYTES_PER_SECOND = 32 * 1024;
const MAX_LINE = 1000;

function readOutput(output: Readable, line: (text: string) => void): void {
  let held = '';
  let used = 0;
  let timer: NodeJS.Timeout | undefined;
  const restart = (): void => {
    used = 0;
    timer = undefined;
    output.resume();
  };
  output.setEncoding('utf8');
  output.on('data', (text: string) => {
    used += text.length;
    const lines = (held + text).split('\n');
    held = (lines.pop() ?? '').slice(0, MAX_LINE);
    for (const one of lines) if (one.trim() !== '') line(one.slice(0, MAX_LINE));
    timer ??= setTimeout(restart, 1000).unref();
    if (used >= BYTES_PER_SECOND) output.pause();
  });
  output.on('close', () => {
    clearTimeout(timer);
    if (held.trim() !== '') line(held);
  });
  output.on('error', () => {});
}

export interface ProcessOptions {
  /** The plugin's module. */
  readonly entry: string;
  /** Working folder. */
  readonly folder: string;
  /** Files and folders that the process may read, besides the gateway's own code for plugins. */
  readonly readable: readonly string[];
  /** Limit of resident memory. */
  readonly memoryBytes: number;
  output(line: string): void;
  message(message: FromPlugin): void;
  /** Called once. */
  ended(reason: string): void;
}

const id = z.int().min(0);

const fromPlugin = z.discriminatedUnion('t', [
  z.strictObject({ t: z.literal('ready'), manifest: z.unknown() }),
  z.strictObject({ t: z.literal('failed'), error: z.string().max(10_000) }),
  z.strictObject({ t: z.literal('result'), id, value: z.unknown().optional() }),
  z.strictObject({ t: z.literal('error'), id, message: z.string().max(10_000) }),
  z.strictObject({ t: z.literal('cancelled'), id }),
  z.strictObject({
    t: z.literal('chat'),
    id,
    chat: id,
    request: z.object({
      model: z.string().min(1).max(500),
      provider: z.string().max(500).optional(),
      messages: z
        .array(z.object({ role: z.enum(['system', 'user']), content: z.string() }))
        .min(1)
        .max(1000),
      maxTokens: z.int().min(1).max(1_000_000),
      temperature: z.number().min(0).max(2).optional(),
    }),
  }),
]);

const source = dirname(import.meta.dirname);
const program = join(source, 'child', 'main.ts');
const api = join(source, 'api', 'plugin.ts');
const zod = dirname(new URL(import.meta.resolve('zod')).pathname);

/** Bytes that wait for a plugin that does not read. */
const MAX_WAITING_BYTES = 2 * MAX_TO_PLUGIN;
/**
 * Lower than that of the gateway: of the first process once the plugin is ready, so that the gateway starts in time on a
 * busy machine, and of later ones from the beginning, so that restarts take nothing from requests.
 */
const NICENESS = 10;
const MIB = 1024 * 1024;

export class PluginProcess {
  readonly #options: ProcessOptions;
  readonly #child: ChildProcess;
  readonly #protocol: Duplex;
  readonly #reader = new FrameReader(MAX_FROM_PLUGIN, BOUNDS_FROM_PLUGIN);
  readonly #exited: Promise<unknown>;
  #reason: string | undefined;
  #isOver = false;

  /** @param isRestart whether the plugin had a process before */
  constructor(options: ProcessOptions, isRestart: boolean) {
    this.#options = options;
    this.#child = spawn(process.execPath, argumentsFor(options), {
      cwd: options.folder,
      // Nothing of the gateway's environment: it holds secrets.
      env: {},
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    });
    if (isRestart && this.#child.pid !== undefined) lowerPriority(this.#child.pid);
    this.#exited = once(this.#child, 'exit').catch(() => {});
    this.#child.once('error', (error) => this.kill(`its process cannot be started: ${error.message}`));
    this.#child.once('exit', (code, signal) => this.#over(this.#reason ?? exitText(code, signal)));
    for (const output of [this.#child.stdout, this.#child.stderr]) {
      if (output !== null) readOutput(output, options.output);
    }
    this.#protocol = this.#stream(PROTOCOL_FD);
    this.#protocol.on('data', (bytes: Buffer) => this.#read(bytes)).on('error', () => {});
    this.#watch(this.#stream(WATCHDOG_FD));
  }

  /** @throws FrameError for a message that is too large. @returns false when the plugin does not read its messages */
  send(message: ToPlugin): boolean {
    if (this.#protocol.writableLength > MAX_WAITING_BYTES) return false;
    this.#protocol.write(encodeFrame(message, MAX_TO_PLUGIN));
    return true;
  }

  /** Ends the process with SIGKILL. */
  kill(reason: string): void {
    this.#reason ??= reason;
    this.#child.kill('SIGKILL');
    this.#over(this.#reason);
  }

  /** Resolves when the process has ended. */
  get exited(): Promise<unknown> {
    return this.#child.pid === undefined ? Promise.resolve() : this.#exited;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  #stream(fd: number): Duplex {
    // A pipe of a child is a socket pair.
    return this.#child.stdio[fd] as Duplex;
  }

  #read(bytes: Buffer): void {
    if (this.#isOver) return;
    try {
      for (const content of this.#reader.push(bytes)) {
        const message = fromPlugin.safeParse(content);
        if (message.success) this.#take(message.data);
        else this.kill('it sent a message that is not part of the protocol');
        if (this.#isOver) return;
      }
    } catch (error) {
      this.kill(`it broke the protocol: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  #take(message: FromPlugin): void {
    const { pid } = this.#child;
    if (message.t === 'ready' && pid !== undefined) lowerPriority(pid);
    this.#options.message(message);
  }

  /** The thread beside the plugin reports why it ends the process. */
  #watch(watchdog: Readable): void {
    const limit = Math.round(this.#options.memoryBytes / MIB);
    watchdog.once('data', (bytes: Buffer) => {
      // One message is expected; a plugin that writes more is not read.
      watchdog.pause();
      const [, used] = /^memory (\d{1,15})\n/.exec(bytes.subarray(0, 64).toString()) ?? [];
      const held = used === undefined ? 'more' : `${Math.round(Number(used) / MIB)} MB`;
      this.kill(`it used ${held} of memory; its limit is ${limit} MB`);
    });
    watchdog.on('error', () => {});
  }

  #over(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#protocol.destroy();
    this.#options.ended(reason);
  }
}

function argumentsFor({ entry, readable, memoryBytes }: ProcessOptions): string[] {
  const options: ChildOptions = {
    entry: pathToFileURL(entry).href,
    api: pathToFileURL(api).href,
    ...{ memoryBytes, gatewayPid: process.pid },
  };
  return [
    `--max-old-space-size=${Math.max(32, Math.round(memoryBytes / MIB / 2))}`,
    '--max-semi-space-size=4',
    '--disable-warning=ExperimentalWarning',
    '--disable-warning=SecurityWarning',
    '--disable-sigusr1',
    // Node's permission model does not cover it: it reads and writes any file.
    '--no-experimental-sqlite',
    '--permission',
    // For the watchdog. The plugin itself cannot load the module.
    '--allow-worker',
    ...[source, zod, ...readable].map((path) => `--allow-fs-read=${path}`),
    program,
    JSON.stringify(options),
  ];
}

/** Linux has a priority for each thread; new ones inherit it. Elsewhere it is that of the process. */
function lowerPriority(pid: number): void {
  for (const thread of threadsOf(pid)) {
    try {
      setPriority(thread, NICENESS);
    } catch {
      // It has ended already, or the system does not know priorities.
    }
  }
}

function threadsOf(pid: number): number[] {
  try {
    return process.platform === 'linux' ? readdirSync(`/proc/${pid}/task`).map(Number) : [pid];
  } catch {
    return [pid];
  }
}

function exitText(code: number | null, signal: NodeJS.Signals | null): string {
  if (signal === 'SIGABRT' || code === 134)
    return 'its process ended with SIGABRT, as it does without memory for its heap';
  return signal === null ? `its process ended with code ${code}` : `its process was ended by ${signal}`;
}
