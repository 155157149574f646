/** Runs one plugin: keeps its process alive, calls its hooks, and bounds what a call can cost. */
import type { ChatAnswer, ChatCall } from '../api/plugin.ts';
import type { CallContext, FromPlugin, HookName } from '../protocol/messages.ts';
import { PluginProcess, type ProcessOptions } from './plugin-process.ts';

export interface HostOptions extends Omit<ProcessOptions, 'message' | 'ended'> {
  /** Milliseconds from the start of the process to its manifest. */
  readonly initMs: number;
  /** Milliseconds that a cancelled call may take to be acknowledged, before the process is ended. */
  readonly graceMs: number;
  readonly maxInFlight: number;
  /** Called with every end of the process that was not wanted, for the operator's log. */
  crashed(reason: string): void;
  /** Why the process must not be started again; undefined when it may. */
  whyNotAgain?(): Promise<string | undefined>;
}

export interface HookCall {
  readonly hook: HookName;
  readonly input: unknown;
  readonly context: CallContext;
  readonly config: unknown;
  readonly deadlineMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Absent: the hook cannot call models. */
  chat?(request: ChatCall, signal: AbortSignal): Promise<ChatAnswer>;
}

/** A call that has no result. The message says why, for the record and for administrators. */
export class PluginFailure extends Error {
  override readonly name = 'PluginFailure';
  /** Whether its deadline passed. */
  readonly isLate: boolean;

  constructor(message: string, isLate = false) {
    super(message);
    this.isLate = isLate;
  }
}

export type PluginHealth = 'starting' | 'ok' | 'restarting' | 'failed' | 'stopped';

export interface PluginCounters {
  readonly calls: number;
  readonly failures: number;
  /** Of its process. */
  readonly restarts: number;
}

interface Pending {
  readonly result: PromiseWithResolvers<unknown>;
  readonly timer: NodeJS.Timeout;
  /** Aborts its model calls. */
  readonly chats: AbortController;
  readonly chat: HookCall['chat'];
  chatCount: number;
  chatsOpen: number;
  unlisten(): void;
}

/** Model calls of one call of a hook, at the same time and altogether. */
const MAX_CHATS_OPEN = 4;
const MAX_CHATS = 32;

export class PluginHost {
  readonly #options: HostOptions;
  readonly #breaker = new Breaker();
  readonly #pending = new Map<number, Pending>();
  /** Cancelled calls that the process has not acknowledged. */
  readonly #cancelled = new Map<number, NodeJS.Timeout>();
  #process: PluginProcess | undefined;
  #hasStarted = false;
  /** Resolves when the process is ready; undefined when none is starting. */
  #ready: PromiseWithResolvers<unknown> | undefined;
  #initTimer: NodeJS.Timeout | undefined;
  #restartTimer: NodeJS.Timeout | undefined;
  #health: PluginHealth = 'starting';
  #error = '';
  #waiting = 0;
  #lastId = 0;
  #calls = 0;
  #failures = 0;
  #restarts = 0;

  constructor(options: HostOptions) {
    this.#options = options;
  }

  get health(): PluginHealth {
    return this.#health;
  }

  /** Of the last failure of its process; empty when there was none. */
  get error(): string {
    return this.#error;
  }

  get counters(): PluginCounters {
    return { calls: this.#calls, failures: this.#failures, restarts: this.#restarts };
  }

  /** Of its process now; undefined without one. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** Starts the process. @returns the manifest as the plugin sent it. @throws PluginFailure */
  async start(): Promise<unknown> {
    try {
      return await this.#launch();
    } catch (error) {
      this.#health = 'failed';
      this.#error = error instanceof Error ? error.message : String(error);
      throw error;
    }
  }

  /** Calls a hook once. @throws PluginFailure, within the deadline and a moment */
  async call(call: HookCall): Promise<unknown> {
    this.#calls += 1;
    try {
      return await this.#called(call);
    } catch (error) {
      this.#failures += 1;
      throw error;
    }
  }

  /** Ends the process. Calls fail from now on. */
  async stop(): Promise<void> {
    this.#health = 'stopped';
    clearTimeout(this.#restartTimer);
    const process = this.#process;
    process?.kill('the gateway is stopping');
    await process?.exited;
  }

  async #called(call: HookCall): Promise<unknown> {
    const { maxInFlight } = this.#options;
    const now = performance.now();
    const state = this.#breaker.state(now);
    if (this.#health === 'stopped') throw new PluginFailure('the gateway is stopping');
    if (this.#health === 'failed') throw new PluginFailure(`it does not run: ${this.#error}`);
    if (state === 'open') throw new PluginFailure(`it is not called after failures: ${this.#error}`);
    const limit = state === 'half_open' ? 1 : maxInFlight;
    if (this.#pending.size + this.#waiting + this.#cancelled.size >= limit) {
      throw new PluginFailure(
        state === 'half_open'
          ? 'it is tried with one call at a time after failures'
          : `it runs ${maxInFlight} calls already, which is the limit`,
      );
    }
    if (call.signal?.aborted) throw new PluginFailure('the call was cancelled');
    if (this.#ready !== undefined) await this.#whenReady(this.#ready.promise, call);
    const process = this.#process;
    if (process === undefined) throw new PluginFailure(`it does not run: ${this.#error}`);
    return this.#send(process, call, call.deadlineMs - (performance.now() - now));
  }

  /** Waits for a process that starts, within the deadline of the call. */
  async #whenReady(ready: Promise<unknown>, { deadlineMs, signal }: HookCall): Promise<void> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(new PluginFailure(`it did not start within ${deadlineMs} ms`, true)),
      deadlineMs,
    );
    const onAbort = () => late.reject(new PluginFailure('the call was cancelled'));
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#waiting += 1;
    try {
      await Promise.race([ready, late.promise]);
    } finally {
      this.#waiting -= 1;
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    }
  }

  #send(process: PluginProcess, call: HookCall, leftMs: number): Promise<unknown> {
    this.#lastId += 1;
    const id = this.#lastId;
    const { hook, input, context, config, deadlineMs, signal, chat } = call;
    let isSent: boolean;
    try {
      isSent = process.send({ t: 'call', id, hook, input, context, config });
    } catch (error) {
      throw new PluginFailure(error instanceof Error ? error.message : String(error));
    }
    if (!isSent) throw new PluginFailure('it does not read its messages');
    const onAbort = () => this.#cancel(id, 'the call was cancelled');
    signal?.addEventListener('abort', onAbort, { once: true });
    const timer = setTimeout(
      () => {
        this.#cancel(id, `it did not answer within ${deadlineMs} ms`, true);
        this.#breaker.timedOut(performance.now());
      },
      Math.max(1, leftMs),
    );
    const result = Promise.withResolvers<unknown>();
    const unlisten = () => signal?.removeEventListener('abort', onAbort);
    const chats = new AbortController();
    this.#pending.set(id, { result, timer, chats, chat, chatCount: 0, chatsOpen: 0, unlisten });
    return result.promise;
  }

  /** Rejects the call now. A process that does not acknowledge it hangs, and is ended. */
  #cancel(id: number, reason: string, isLate = false): void {
    if (!this.#finish(id, new PluginFailure(reason, isLate))) return;
    const process = this.#process;
    if (process === undefined) return;
    const hangs = () => process.kill(`it hangs: ${reason}, nor a request to stop`);
    this.#cancelled.set(id, setTimeout(hangs, this.#options.graceMs));
    if (!process.send({ t: 'cancel', id })) hangs();
  }

  /** @returns whether the call was pending */
  #finish(id: number, failure: PluginFailure | undefined, value?: unknown): boolean {
    const pending = this.#pending.get(id);
    if (pending === undefined) return false;
    this.#pending.delete(id);
    clearTimeout(pending.timer);
    pending.unlisten();
    pending.chats.abort();
    if (failure === undefined) pending.result.resolve(value);
    else pending.result.reject(failure);
    return true;
  }

  #launch(): Promise<unknown> {
    const ready = this.#willBeReady();
    const { initMs } = this.#options;
    const options = {
      ...this.#options,
      message: (message: FromPlugin) => this.#take(process, message),
      ended: (reason: string) => this.#ended(reason),
    };
    const process: PluginProcess = new PluginProcess(options, this.#hasStarted);
    this.#process = process;
    this.#hasStarted = true;
    this.#initTimer = setTimeout(() => process.kill(`it did not start within ${initMs} ms`), initMs);
    return ready.promise;
  }

  /** Calls wait for it. */
  #willBeReady(): PromiseWithResolvers<unknown> {
    if (this.#ready !== undefined) return this.#ready;
    const ready = Promise.withResolvers<unknown>();
    // After a restart there may be no call that waits.
    ready.promise.catch(() => {});
    this.#ready = ready;
    return ready;
  }

  #take(process: PluginProcess, message: FromPlugin): void {
    const problem =
      this.#ready === undefined ? this.#problemOf(process, message) : this.#firstProblem(message, this.#ready);
    if (problem !== undefined) process.kill(problem);
  }

  /** @returns why the process must end, for a message that is not expected */
  #firstProblem(message: FromPlugin, ready: PromiseWithResolvers<unknown>): string | undefined {
    if (message.t === 'failed') return message.error;
    if (message.t !== 'ready') return `it broke the protocol: it sent '${message.t}' before 'ready'`;
    clearTimeout(this.#initTimer);
    this.#ready = undefined;
    this.#health = 'ok';
    ready.resolve(message.manifest);
    return undefined;
  }

  #problemOf(process: PluginProcess, message: FromPlugin): string | undefined {
    switch (message.t) {
      case 'result':
      case 'error': {
        const failure = message.t === 'error' ? new PluginFailure(message.message) : undefined;
        if (!this.#finish(message.id, failure, message.t === 'result' ? message.value : undefined)) {
          return this.#acknowledged(message.id);
        }
        this.#breaker.succeeded();
        return undefined;
      }
      case 'cancelled':
        return this.#acknowledged(message.id);
      case 'chat':
        return this.#chat(process, message);
      default:
        return `it broke the protocol: it sent '${message.t}' twice`;
    }
  }

  /** A result may cross the message that cancels its call. */
  #acknowledged(id: number): string | undefined {
    const timer = this.#cancelled.get(id);
    if (timer === undefined) return 'it broke the protocol: it answered a call that was not made';
    clearTimeout(timer);
    this.#cancelled.delete(id);
    return undefined;
  }

  #chat(process: PluginProcess, { id, chat, request }: Extract<FromPlugin, { t: 'chat' }>): string | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) {
      return this.#cancelled.has(id)
        ? undefined
        : 'it broke the protocol: it called a model for a call that was not made';
    }
    pending.chatCount += 1;
    if (pending.chatCount > MAX_CHATS) return `it called models more than ${MAX_CHATS} times in one call`;
    const reply = (answer: { readonly answer: ChatAnswer } | { readonly error: string }): undefined => {
      if (this.#process === process && this.#pending.has(id)) process.send({ t: 'chat', id, chat, ...answer });
    };
    if (pending.chat === undefined) return reply({ error: 'models cannot be called in this hook' });
    if (pending.chatsOpen >= MAX_CHATS_OPEN) {
      return reply({ error: `${MAX_CHATS_OPEN} models are called already, which is the limit` });
    }
    pending.chatsOpen += 1;
    pending
      .chat(request, pending.chats.signal)
      .then(({ text, isCut }) => reply({ answer: { text, isCut } }))
      .catch((error: unknown) => reply({ error: error instanceof Error ? error.message : String(error) }))
      .finally(() => {
        pending.chatsOpen -= 1;
      });
    return undefined;
  }

  /** The process is gone, and with it every call that it ran. */
  #ended(reason: string): void {
    clearTimeout(this.#initTimer);
    this.#process = undefined;
    for (const timer of this.#cancelled.values()) clearTimeout(timer);
    this.#cancelled.clear();
    for (const id of [...this.#pending.keys()]) this.#finish(id, new PluginFailure(reason));
    const starting = this.#ready;
    this.#ready = undefined;
    this.#error = reason;
    const isFirst = this.#health === 'starting';
    starting?.reject(new PluginFailure(reason));
    if (isFirst || this.#health === 'stopped') return;
    this.#options.crashed(reason);
    this.#breaker.failed(performance.now());
    this.#health = 'restarting';
    const pause = this.#breaker.remaining(performance.now());
    if (pause === 0) void this.#restart();
    else this.#restartTimer = setTimeout(() => void this.#restart(), pause);
  }

  async #restart(): Promise<void> {
    this.#restarts += 1;
    const ready = this.#willBeReady();
    const why = await this.#options.whyNotAgain?.();
    if (this.#health !== 'restarting') {
      ready.reject(new PluginFailure('the gateway is stopping'));
      return;
    }
    if (why === undefined) {
      this.#launch();
      return;
    }
    this.#health = 'failed';
    this.#error = why;
    this.#ready = undefined;
    ready.reject(new PluginFailure(`it does not run: ${why}`));
    this.#options.crashed(why);
  }
}

// Decides whether a plugin is called after failures of its process. Failures are crashes, hangs and series of calls
// without an answer in time. An error that a hook throws is none: it costs nothing but the call. Pure: times are
// milliseconds of any clock.

/** Calls in a row without an answer in time that count as one failure. */
const TIMEOUTS = 5;
/** A failure is forgotten after this time without another. */
const MEMORY_MS = 60_000;
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 30_000;

type BreakerState = 'closed' | 'open' | 'half_open';

class Breaker {
  #failures = 0;
  #failedAt = Number.NEGATIVE_INFINITY;
  #timeouts = 0;
  #openUntil = Number.NEGATIVE_INFINITY;
  #isTrial = false;

  state(now: number): BreakerState {
    if (now < this.#openUntil) return 'open';
    return this.#isTrial ? 'half_open' : 'closed';
  }

  /** Milliseconds until it is no longer open; 0 when it is not. */
  remaining(now: number): number {
    return Math.max(0, this.#openUntil - now);
  }

  /** The first failure causes no pause, each further one a longer pause, after which one call at a time is tried. */
  failed(now: number): void {
    if (now - this.#failedAt > MEMORY_MS) this.#failures = 0;
    this.#failures += 1;
    this.#failedAt = now;
    this.#timeouts = 0;
    if (this.#failures === 1) return;
    this.#isTrial = true;
    this.#openUntil = now + Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (this.#failures - 2));
  }

  timedOut(now: number): void {
    this.#timeouts += 1;
    if (this.#timeouts < TIMEOUTS && !this.#isTrial) return;
    // One series opens it.
    if (this.#failures === 0 || now - this.#failedAt > MEMORY_MS) this.#failures = 1;
    this.failed(now);
  }

  succeeded(): void {
    this.#timeouts = 0;
    this.#isTrial = false;
  }
}
