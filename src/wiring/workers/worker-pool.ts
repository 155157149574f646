/** Starts, watches, replaces and stops the worker processes of a service. */
import { type ChildProcess, fork } from 'node:child_process';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import type { StartedGateway } from '../served-process.ts';
import { type ToPrimary, type ToWorker, toPrimary, type WorkerStart } from './messages.ts';

export interface WorkerPoolOptions {
  readonly count: number;
  /** What a worker gets first, apart from its number. */
  readonly start: () => Omit<WorkerStart, 'type' | 'number'>;
  /** How long a worker may not react before it is killed. */
  readonly patienceMs: number;
  readonly logger: Logger;
  /** Called with each message of a worker that is not only about its start and stop. */
  readonly onMessage: (worker: number, message: ToPrimary) => void;
  /** Called when the process of a worker has ended, with the id of its gateway if that has not ended its lease. */
  readonly onExit: (worker: number, gateway: string | undefined) => void;
  /** The program of a worker. Default: the gateway. */
  readonly program?: string;
  /** First pause before a worker that has ended soon is started again, doubled up to 30 s. Default 500 ms. */
  readonly restartMs?: number;
}

export interface WorkersStopped {
  /** Why the stops of gateways could not be recorded. */
  readonly unrecorded: readonly string[];
  /** What was not as usual. */
  readonly errors: readonly string[];
}

/** The place of one worker at a time. */
interface Place {
  readonly number: number;
  process: ChildProcess | undefined;
  gateway: string | undefined;
  readyAt: number | undefined;
  /** Why the process said that it ends. */
  said: Extract<ToPrimary, { type: 'failed' | 'stopped' }> | undefined;
  /** Messages since its last answer. */
  unanswered: number;
  failedStarts: number;
  pauseMs: number;
  restart: NodeJS.Timeout | undefined;
}

const LONGEST_RESTART_MS = 30_000;
/** A worker that has served so long is replaced at once. */
const STEADY_MS = 10_000;
/** When no worker runs and one has failed so often to start, the service ends. */
const MAX_FAILED_STARTS = 5;
export const STATE_EVERY_MS = 1000;

const gatewayProgram = fileURLToPath(new URL('worker-process.ts', import.meta.url));

export class WorkerPool {
  /** Resolves with the reason when no worker runs and none can be started. */
  readonly failed: Promise<string>;
  readonly #options: WorkerPoolOptions;
  readonly #places: readonly Place[];
  readonly #fail: (reason: string) => void;
  readonly #firstPauseMs: number;
  readonly #started = Promise.withResolvers<StartedGateway>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #unrecorded: string[] = [];
  readonly #errors: string[] = [];
  #hasStarted = false;
  #stopping = false;
  #replacements = 0;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.#firstPauseMs = options.restartMs ?? 500;
    const { promise, resolve } = Promise.withResolvers<string>();
    this.failed = promise;
    this.#fail = resolve;
    this.#places = Array.from({ length: options.count }, (_, at) => ({
      number: at + 1,
      process: undefined,
      gateway: undefined,
      readyAt: undefined,
      said: undefined,
      unanswered: 0,
      failedStarts: 0,
      pauseMs: this.#firstPauseMs,
      restart: undefined,
    }));
  }

  /** Resolves when every worker accepts connections. @throws Error with the reason why one could not start */
  start(): Promise<StartedGateway> {
    for (const place of this.#places) this.#fork(place);
    return this.#started.promise;
  }

  /** Number of workers that accept connections. */
  get running(): number {
    return this.#places.filter(({ readyAt }) => readyAt !== undefined).length;
  }

  /** Whether the worker with this number accepts connections. */
  serves(number: number): boolean {
    return this.#places[number - 1]?.readyAt !== undefined;
  }

  /** Number of workers that were started in place of others. */
  get replacements(): number {
    return this.#replacements;
  }

  /** The ids of gateways whose processes run. */
  gateways(): string[] {
    return this.#places.flatMap(({ gateway }) => gateway ?? []);
  }

  /**
   * @param to number of the worker
   * @param connection stays open here too
   * @returns whether the worker runs
   */
  send(to: number, message: ToWorker, connection?: Socket): boolean {
    const process = this.#places[to - 1]?.process;
    if (process?.connected !== true) return false;
    process.send(message, connection, { keepOpen: true }, () => {});
    return true;
  }

  /** Another worker is started in its place. */
  kill(number: number): void {
    this.#places[number - 1]?.process?.kill('SIGKILL');
  }

  /** Sends it to all workers that accept connections. One that has not answered for too long is killed. */
  sendState(message: Extract<ToWorker, { type: 'state' }>): void {
    const { patienceMs, logger } = this.#options;
    for (const place of this.#places) {
      if (place.readyAt === undefined || !this.send(place.number, message)) continue;
      // Counted, not measured: after a pause of the whole machine no worker has answered for a long time.
      place.unanswered += 1;
      if (place.unanswered * STATE_EVERY_MS <= patienceMs) continue;
      logger.error(`worker ${place.number} does not respond; it is killed`);
      place.process?.kill('SIGKILL');
    }
  }

  /** Resolves when all workers have ended. Those that take longer than `withinMs` are killed. */
  async stop(reason: string, withinMs: number): Promise<WorkersStopped> {
    this.#stopping = true;
    const late = setTimeout(() => {
      for (const { process } of this.#places) process?.kill('SIGKILL');
    }, withinMs);
    for (const place of this.#places) {
      clearTimeout(place.restart);
      this.send(place.number, { type: 'stop', reason });
    }
    if (this.#places.some(({ process }) => process !== undefined)) await this.#ended.promise;
    clearTimeout(late);
    return { unrecorded: this.#unrecorded, errors: this.#errors };
  }

  #fork(place: Place): void {
    const process = fork(this.#options.program ?? gatewayProgram, { serialization: 'advanced' });
    Object.assign(place, { process, gateway: undefined, readyAt: undefined, said: undefined, unanswered: 0 });
    let isOver = false;
    const over = (how: string) => {
      if (isOver) return;
      isOver = true;
      this.#processEnded(place, how);
    };
    process.on('message', (message: unknown) => {
      const known = toPrimary.safeParse(message);
      if (known.success && !isOver) this.#receive(place, known.data);
    });
    process.on('error', (error) => {
      if (process.pid === undefined) over(error.message);
      else this.#options.logger.debug(error);
    });
    // Not at 'exit': messages that it has sent may not have been read by then.
    process.once('close', (code, signal) => over(String(signal ?? code)));
    this.send(place.number, { ...this.#options.start(), type: 'start', number: place.number });
  }

  #receive(place: Place, message: ToPrimary): void {
    if (message.type === 'leased') place.gateway = message.gateway;
    else if (message.type === 'alive') place.unanswered = 0;
    else if (message.type === 'ready') this.#ready(place, message);
    else if (message.type === 'failed' || message.type === 'stopped') place.said = message;
    this.#options.onMessage(place.number, message);
  }

  #ready(place: Place, { url, demo, dashboard }: StartedGateway): void {
    place.readyAt = performance.now();
    place.failedStarts = 0;
    if (this.#hasStarted || this.running < this.#places.length) return;
    this.#hasStarted = true;
    this.#started.resolve({ url, demo, dashboard });
  }

  #processEnded(place: Place, how: string): void {
    const { gateway, readyAt, said } = place;
    Object.assign(place, { process: undefined, gateway: undefined, readyAt: undefined });
    const why = said?.type === 'failed' ? said.reason : `its process has ended (${how})`;
    const hasEndedLease = said?.type === 'stopped' && said.error === undefined && said.unrecorded === undefined;
    this.#options.onExit(place.number, hasEndedLease ? undefined : gateway);
    if (this.#stopping) this.#endedWhileStopping(place, why);
    else if (readyAt === undefined) this.#notStarted(place, why);
    else this.#replace(place, readyAt, why);
  }

  #endedWhileStopping({ number, said }: Place, why: string): void {
    const error = said?.type === 'stopped' ? said.error : why;
    if (error !== undefined) this.#errors.push(`worker ${number}: ${error}`);
    if (said?.type === 'stopped' && said.unrecorded !== undefined) this.#unrecorded.push(said.unrecorded);
    if (this.#places.every(({ process }) => process === undefined)) this.#ended.resolve();
  }

  #notStarted(place: Place, why: string): void {
    if (!this.#hasStarted) {
      this.#started.reject(new Error(why));
      return;
    }
    place.failedStarts += 1;
    if (this.running === 0 && place.failedStarts >= MAX_FAILED_STARTS) this.#fail(why);
    this.#options.logger.error(`worker ${place.number} could not start: ${why}`);
    this.#forkLater(place);
  }

  #replace(place: Place, readyAt: number, why: string): void {
    const isSteady = performance.now() - readyAt >= STEADY_MS;
    if (isSteady) place.pauseMs = this.#firstPauseMs;
    this.#options.logger.warn(`worker ${place.number} is replaced: ${why}`);
    this.#replacements += 1;
    if (isSteady) this.#fork(place);
    else this.#forkLater(place);
  }

  #forkLater(place: Place): void {
    const { pauseMs } = place;
    place.pauseMs = Math.min(pauseMs * 2, LONGEST_RESTART_MS);
    place.restart = setTimeout(() => this.#fork(place), pauseMs);
  }
}
