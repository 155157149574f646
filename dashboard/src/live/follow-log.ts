/**
 * Reads the live logs until it is stopped: connects, reads, and connects again from the last position after any end.
 * Every event is applied once and in order, also when the gateway is killed and started again.
 */
import { type LiveEvent, liveEvent, type LogPosition } from './live-event.ts';
import { askedDelay, retryDelay } from './retry-delay.ts';
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

export interface FollowLogOptions {
  /** `GET /admin/live/logs` with the key and the filter. */
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
const STABLE_MS = 5_000;

/** An answer that a repetition would not change. */
class Stopped extends Error {
  readonly reason: StopReason;
  constructor(reason: StopReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** An answer that asks to wait, or a break of the connection. */
class Interrupted extends Error {
  readonly askedMs: number | undefined;
  constructor(message: string, askedMs?: number) {
    super(message);
    this.askedMs = askedMs;
  }
}

export class LogFollower {
  readonly #options: FollowLogOptions;
  readonly #stopping = new AbortController();
  /** Ends the present pause. */
  #wake: (() => void) | undefined;
  #status: ConnectionStatus = { state: 'connecting' };

  constructor(options: FollowLogOptions) {
    this.#options = options;
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
        if (error instanceof Stopped) {
          failures = 0;
          this.#setStatus({ state: 'stopped', reason: error.reason, message: error.message });
          await this.#sleep(undefined);
        } else {
          failures = this.#options.now() - connectedAt >= STABLE_MS ? 1 : failures + 1;
          const askedMs = error instanceof Interrupted ? error.askedMs : undefined;
          const delay = retryDelay(failures, askedMs, this.#options.random());
          const message = error instanceof Error ? error.message : String(error);
          this.#setStatus({ state: 'waiting', until: this.#options.now() + delay, message });
          await this.#sleep(delay);
        }
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
      if (response.status !== 200) throw await refusalOf(response, this.#options.now());
      const reader = response.body?.getReader();
      if (reader === undefined) throw new Interrupted('The gateway sent no stream.');
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

async function refusalOf(response: Response, now: number): Promise<Error> {
  const { status } = response;
  const { code, message } = await errorOf(response);
  if (status === 401) return new Stopped('key_refused', message);
  if (status === 403) return new Stopped('access_denied', message);
  if (code === 'feature_unavailable') return new Stopped('switched_off', message);
  const isTemporary = status >= 500 || status === 408 || status === 425 || status === 429;
  if (!isTemporary) return new Stopped('request_refused', message);
  return new Interrupted(message, askedDelay(response.headers.get('retry-after'), now));
}

/** The gateway's error; of any other server, the status. */
async function errorOf(response: Response): Promise<{ readonly code?: string; readonly message: string }> {
  const fallback = `The server answered with status ${response.status}.`;
  try {
    const { error } = (await response.json()) as { error?: { code?: unknown; message?: unknown } };
    return {
      code: typeof error?.code === 'string' ? error.code : undefined,
      message: typeof error?.message === 'string' ? error.message : fallback,
    };
  } catch {
    return { message: fallback };
  }
}

function sentence(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${text.endsWith('.') ? '' : '.'}`;
}
