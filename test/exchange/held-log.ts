/** A log that lets a test decide when an append has reached the operating system, and when the disk. */
import {
  type Appended,
  type AppendOptions,
  type AppendStage,
  type EventLog,
  LogUnavailable,
  type StreamWrite,
} from '../../src/events/log.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';

interface Held {
  readonly types: string[];
  readonly until: AppendStage;
  release(): void;
  /** The append fails, by default with an unknown outcome: it is recorded all the same. */
  fail(error?: Error): void;
}

export class HeldLog implements Pick<EventLog, 'append' | 'readStream' | 'capabilities'> {
  readonly inner = new MemoryLog();
  readonly capabilities = this.inner.capabilities;
  /** Appends that wait to be released, in order. */
  readonly held: Held[] = [];
  #arrived: (() => void) | undefined;

  async append(writes: readonly StreamWrite[], options: AppendOptions = {}): Promise<Appended> {
    const appended = await this.inner.append(writes);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const fail = (error: Error = new LogUnavailable('no answer', 'unknown')) => reject(error);
    const types = writes.flatMap(({ events }) => events.map(({ type }) => type));
    this.held.push({ types, until: options.until ?? 'durable', release: resolve, fail });
    this.#arrived?.();
    await promise;
    return appended;
  }

  readStream: EventLog['readStream'] = (stream, options) => this.inner.readStream(stream, options);

  /** The next append, as soon as there is one. It stays held until it is released. */
  async next(): Promise<Held> {
    while (this.held.length === 0) {
      await new Promise<void>((resolve) => {
        this.#arrived = resolve;
      });
    }
    const next = this.held.shift();
    if (next === undefined) throw new Error('there is no append');
    return next;
  }
}
