/**
 * Reads the live logs until it is stopped: connects, reads, and connects again from the last position after any end.
 * Every event is applied once and in order, also when the gateway is killed and started again.
 */
import { type LiveEvent, type LogPosition, liveEvent } from './live-event.ts';
import { retryDelay } from './retry-delay.ts';
import { ServerSentEvents } from './server-sent-events.ts';

export type ConnectionStatus =
  | { readonly state: 'connecting' }
  | { readonly state: 'live' }
  /** Connects again at `until`, in milliseconds since the epoch. */
  | { readonly state: 'waiting'; readonly until: number; readonly message: string }
  /** Does not connect again by itself. */
  | { readonly state: 'stopped'; readonly reason: StopReason; readonly message: string };

export type StopReason =
  /** 401 */
  | 'key_refused'
  /** 403 */
  | 'access_denied'
  /** 503 `feature_unavailable` */
  | 'switched_off'
  /** Any other status that a repetition would not change, such as 400 for a filter. */
  | 'request_refused';

/** What an error has that was made from the gateway's answer. */
export interface Refused {
  /** 0 when there was no answer. */
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly retryAfterSeconds?: number | undefined;
}

export interface FollowLogOptions {
  /**
   * `GET /admin/live/logs` with the key and the filter.
   * @throws an error with the members of `Refused` when the gateway refuses
   */
  open(cursor: LogPosition | undefined, signal: AbortSignal): Promise<Response>;
  /** Where the next connection resumes; undefined begins anew. */
  position(): LogPosition | undefined;
  /** The gateway accepted a connection. */
  onConnected(cursor: LogPosition | undefined): void;
  onEvents(events: readonly LiveEvent[]): void;
  onStatus(status: ConnectionStatus): void;
  /** Lets the page do other work. */
  pause(): Promise<void>;
  now(): number;
  /** From 0 to 1. */
  random(): number;
  /** A connection without any byte for this long is taken for broken. The gateway sends a heartbeat every 15 s. */
  readonly silenceMs: number;
}

/** Events are applied in slices of this length, so that a burst does not block the page. */
const SLICE_MS = 8;
/** A connection that lasted this long counts as a success: the pauses start from the shortest again. */
const STABLE_MS = 1_000;

/** The connection ended. */
class Interrupted extends Error {}

export class LogFollower {
  readonly #options: FollowLogOptions;
  readonly #stopping = new AbortController();
  /** Ends the present pause. */
  #wake: (() => void) | undefined;
  #status: ConnectionStatus = { state: 'connecting' };

  constructor(options: FollowLogOptions) {
    this.#options = options;
  }

  start(): void {
    void this.#run();
  }

  get status(): ConnectionStatus {
    return this.#status;
  }

  /** Connects at once when it waits or has stopped. */
  retry(): void {
    this.#wake?.();
  }

  stop(): void {
    this.#stopping.abort();
    this.#wake?.();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    let failures = 0;
    while (!signal.aborted) {
      const connectedAt = this.#options.now();
      this.#setStatus({ state: 'connecting' });
      try {
        await this.#readConnection();
      } catch (error) {
        if (signal.aborted) return;
        const reason = stopReason(error);
        const message = error instanceof Error ? error.message : String(error);
        if (reason !== undefined) {
          failures = 0;
          this.#setStatus({ state: 'stopped', reason, message });
          await this.#sleep(undefined);
          continue;
        }
        failures = this.#options.now() - connectedAt >= STABLE_MS ? 1 : failures + 1;
        const delay = retryDelay(failures, askedDelay(error), this.#options.random());
        this.#setStatus({ state: 'waiting', until: this.#options.now() + delay, message });
        await this.#sleep(delay);
      }
    }
  }

  /** @throws always: a connection has no other end */
  async #readConnection(): Promise<never> {
    const connection = new AbortController();
    const signal = AbortSignal.any([connection.signal, this.#stopping.signal]);
    let heardAt = this.#options.now();
    const { silenceMs } = this.#options;
    const silence = setInterval(
      () => {
        if (this.#options.now() - heardAt < silenceMs) return;
        connection.abort(new Interrupted(`The gateway sent nothing for ${Math.round(silenceMs / 1000)} s.`));
      },
      Math.max(5, silenceMs / 9),
    );
    try {
      const cursor = this.#options.position();
      const response = await this.#options.open(cursor, signal);
      const reader = response.body?.getReader();
      if (reader === undefined || !isEventStream(response)) {
        throw new Interrupted('The answer is no stream of events. A proxy before the gateway may have sent it.');
      }
      this.#options.onConnected(cursor);
      this.#setStatus({ state: 'live' });
      const parser = new ServerSentEvents();
      let lastComment = '';
      while (true) {
        const { done, value } = await reader.read();
        if (done) throw new Interrupted(lastComment === '' ? 'The connection was closed.' : sentence(lastComment));
        heardAt = this.#options.now();
        const comment = await this.#readPart(parser, value);
        if (comment !== undefined) lastComment = comment;
        signal.throwIfAborted();
      }
    } finally {
      clearInterval(silence);
      connection.abort();
    }
  }

  /** @returns the last comment */
  async #readPart(parser: ServerSentEvents, bytes: Uint8Array): Promise<string | undefined> {
    let events: LiveEvent[] = [];
    let comment: string | undefined;
    let startedAt = performance.now();
    const deliver = () => {
      if (events.length > 0 && !this.#stopping.signal.aborted) this.#options.onEvents(events);
      events = [];
    };
    for (const item of parser.read(bytes)) {
      if (item.kind === 'comment') {
        comment = item.text;
        continue;
      }
      const event = liveEvent(item);
      if (event !== undefined) events.push(event);
      if (performance.now() - startedAt < SLICE_MS) continue;
      deliver();
      await this.#options.pause();
      startedAt = performance.now();
    }
    deliver();
    return comment;
  }

  /** @param ms undefined: until `retry` or `stop` */
  async #sleep(ms: number | undefined): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    await new Promise<void>((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }

  #setStatus(status: ConnectionStatus): void {
    if (this.#stopping.signal.aborted) return;
    this.#status = status;
    this.#options.onStatus(status);
  }
}

function isEventStream({ headers }: Response): boolean {
  return headers.get('content-type')?.startsWith('text/event-stream') === true;
}

/** Undefined when a later connection may succeed. */
function stopReason(error: unknown): StopReason | undefined {
  if (!isRefused(error)) return undefined;
  const { status, code } = error;
  if (status === 401) return 'key_refused';
  if (status === 403) return 'access_denied';
  if (code === 'feature_unavailable') return 'switched_off';
  const isTemporary = status === 0 || status >= 500 || status === 408 || status === 425 || status === 429;
  return isTemporary ? undefined : 'request_refused';
}

/** Milliseconds. */
function askedDelay(error: unknown): number | undefined {
  if (!isRefused(error) || error.retryAfterSeconds === undefined) return undefined;
  return error.retryAfterSeconds * 1000;
}

function isRefused(error: unknown): error is Refused {
  return error instanceof Error && 'status' in error && 'code' in error && typeof error.status === 'number';
}

function sentence(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${text.endsWith('.') ? '' : '.'}`;
}
