/** One of the gateways on a log, over all rounds: a process after another on one data folder and one link to the engine. */
import { execFile } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { type Exit, type ServedGateway, serve } from '../../e2e/gateway-process.ts';
import type { EngineLink } from '../engines.ts';
import type { LogFailure } from '../evidence.ts';
import { logFailuresIn } from '../log-failures.ts';
import type { SilencedGateway } from './check-owners.ts';

export interface MemberOptions {
  readonly index: number;
  readonly dataDir: string;
  readonly env: Readonly<Record<string, string>>;
  /** Undefined for a log in files. */
  readonly link: EngineLink | undefined;
  /** The ports on which providers get its calls. */
  readonly ports: ReadonlySet<number>;
}

const run = promisify(execFile);
/** A gateway that has lost its data reads the whole log from the engine: some thousand events per second from the stand-in. */
const LISTENS_WITHIN_MS = 120_000;
const MAX_STARTS = 4;
const READY_WITHIN_MS = 30_000;
/** A stop drains, and ends what does not end. */
const STOP_MS = 90_000;
const LEASE_LOST = 'the lease of this gateway has ended';
/** Its requests may have met the end of its lease before it noticed; afterwards it starts anew. */
const BEFORE_LOSS_MS = 3_000;
/** A connection may be given to a worker process that has just ended. */
const NOTICED_WITHIN_MS = 1000;
const AFTER_LOSS_MS = 5_000;

export class Member {
  readonly index: number;
  readonly dataDir: string;
  readonly link: EngineLink | undefined;
  readonly ports: ReadonlySet<number>;
  /** Process ids of all its processes. */
  readonly pids = new Set<number>();
  /** Times in which its answers may be refused or broken off. */
  readonly disturbed: LogFailure[] = [];
  /** Whether it is stopped by SIGSTOP, or its link lets nothing pass: clients rarely choose it. */
  isSilent = false;
  failedStarts = 0;
  /** When it was killed, stopped by the system or cut off. */
  readonly silences: SilencedGateway[] = [];
  readonly #env: Readonly<Record<string, string>>;
  #gateway: ServedGateway | undefined;
  #lostBefore = 0;
  #reloads = 0;

  constructor({ index, dataDir, env, link, ports }: MemberOptions) {
    this.index = index;
    this.dataDir = dataDir;
    this.#env = env;
    this.link = link;
    this.ports = ports;
  }

  /** Undefined while no process of it serves. */
  get url(): string | undefined {
    return this.#gateway?.url;
  }

  get runs(): boolean {
    return this.#gateway !== undefined;
  }

  /** How often it started anew without a new process. */
  get leasesLost(): number {
    return this.#lostBefore + (this.#gateway === undefined ? 0 : lossesIn(this.#gateway).length);
  }

  get printed(): string {
    const process = this.#gateway?.process;
    return `${process?.stdout}${process?.stderr}`;
  }

  /** As under a supervisor: a start that fails because of the engine is repeated. @throws when it fails several times */
  async start(): Promise<void> {
    this.#writeSettings();
    const gateway = await this.#serve(MAX_STARTS);
    this.pids.add(gateway.process.pid);
    this.#gateway = gateway;
    void gateway.process.exited.then(() => {
      if (this.#gateway === gateway) this.#gateway = undefined;
      this.isSilent = false;
      this.disturbed.push(...reportedBy(gateway));
      this.#lostBefore += lossesIn(gateway).length;
      writeFileSync(`${this.dataDir}-${gateway.process.pid}.log`, gateway.process.stdout + gateway.process.stderr);
    });
  }

  async #serve(starts: number): Promise<ServedGateway> {
    try {
      return await serve({
        dataDir: this.dataDir,
        listensWithinMs: LISTENS_WITHIN_MS,
        env: { ...this.#env, CHANCERY_CONFIG: this.#settings, ...(this.link && { LOG_URL: this.link.logUrl }) },
      });
    } catch (error) {
      // The engine did not answer in time: it was killed, and starts on a machine that is busy.
      const isLate = /the event log cannot be written|\(SIGKILL\) before it listened/.test(String(error));
      if (starts === 1 || !isLate) throw error;
      this.failedStarts += 1;
      return this.#serve(starts - 1);
    }
  }

  /** Resolves when the process is gone. */
  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<Exit | undefined> {
    const gateway = this.#gateway;
    if (gateway === undefined) return undefined;
    this.#disturbedFrom(gateway.url);
    if (signal === 'SIGKILL') this.silenced();
    gateway.process.kill(signal);
    return this.#exitOf(gateway.process);
  }

  async #exitOf(process: ServedGateway['process']): Promise<Exit> {
    const late = Promise.withResolvers<never>();
    const limit = setTimeout(() => {
      late.reject(
        new Error(`a gateway has not ended within ${STOP_MS} ms; it printed: ${process.stderr.slice(-2000)}`),
      );
    }, STOP_MS);
    try {
      return await Promise.race([process.exited, late.promise]);
    } finally {
      clearTimeout(limit);
    }
  }

  /** With another time limit, each provider has new connections. On an engine, the other gateways read their settings, too. */
  reload(): void {
    this.#reloads += 1;
    this.#writeSettings();
    this.#gateway?.process.kill('SIGHUP');
  }

  get #settings(): string {
    return `${this.dataDir}.yaml`;
  }

  #writeSettings(): void {
    writeFileSync(this.#settings, `http: { timeout: ${this.#reloads % 2 === 0 ? '590s' : '580s'} }\n`);
  }

  pause(): void {
    this.isSilent = true;
    this.silenced();
    this.#gateway?.process.kill('SIGSTOP');
  }

  resume(): void {
    this.isSilent = false;
    this.#gateway?.process.kill('SIGCONT');
  }

  silenced(pid = this.#gateway?.process.pid): void {
    if (pid !== undefined) this.silences.push({ pid, at: performance.now() });
  }

  /** Its worker processes, oldest first. */
  async workers(): Promise<number[]> {
    const pid = this.#gateway?.process.pid;
    const { stdout } = await run('ps', ['-A', '-o', 'pid=,ppid=']);
    const rows = stdout.split('\n').map((line) => line.trim().split(/\s+/).map(Number));
    return rows.flatMap(([child, parent]) => (child !== undefined && parent === pid ? [child] : []));
  }

  loseData(): void {
    rmSync(this.dataDir, { recursive: true, force: true, maxRetries: 5 });
  }

  /** @returns a function that ends this time, also when the process has ended meanwhile */
  disturbance(): () => void {
    const url = this.url;
    return url === undefined ? () => {} : this.#disturbedFrom(url);
  }

  #disturbedFrom(url: string): () => void {
    const disturbed = { url, from: performance.now(), to: Number.POSITIVE_INFINITY };
    this.disturbed.push(disturbed);
    return () => {
      disturbed.to = performance.now() + NOTICED_WITHIN_MS;
    };
  }

  /** The times so far, also those that the running process has reported. */
  failures(): LogFailure[] {
    const gateway = this.#gateway;
    return gateway === undefined ? this.disturbed : [...this.disturbed, ...reportedBy(gateway)];
  }

  /** @returns false when it is not ready in time, or has ended */
  async ready(): Promise<boolean> {
    const deadline = performance.now() + READY_WITHIN_MS;
    while (performance.now() < deadline) {
      const { url } = this;
      if (url === undefined) return false;
      const signal = AbortSignal.timeout(2000);
      const { ok } = await fetch(new URL('/health/ready', url), { signal }).catch(() => ({ ok: false }));
      if (ok) return true;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return false;
  }
}

function reportedBy(gateway: ServedGateway): LogFailure[] {
  const { url, process } = gateway;
  const losses = lossesIn(gateway).map((at) => ({ from: at - BEFORE_LOSS_MS, to: at + AFTER_LOSS_MS }));
  return [...logFailuresIn(process.stderr), ...losses].map((one) => ({ ...one, url }));
}

/** When its lease was lost, on the clock of `performance.now()`. */
function lossesIn({ process }: ServedGateway): number[] {
  const lines = process.stderr.split('\n').filter((line) => line.startsWith('{') && line.includes(LEASE_LOST));
  return lines.map((line) => Date.parse(JSON.parse(line).time) - performance.timeOrigin);
}
