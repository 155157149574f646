/**
 * The log as one of several gateways uses it. Every append has the condition that the lease of this gateway has not ended. A
 * change of the configuration resolves when every gateway has applied it. What clients have stored is read up to the
 * present, so that another gateway's answer is found here at once. All code of the gateway uses it, so no code can forget any of this.
 */
import { categoryOf, type Position, type RecordedEvent, type StreamName } from '../../events/event.ts';
import {
  type Appended,
  type AppendOptions,
  type CaughtUp,
  type EventLog,
  type LogCapabilities,
  type LogStatus,
  LogUnavailable,
  newestEvent,
  type ReadAllOptions,
  type ReadStreamOptions,
  type StreamWrite,
  type SubscribeOptions,
} from '../../events/log.ts';
import type { Lease } from './lease.ts';

/** The categories of streams whose events change what every gateway does. `test/commands/gateways` has the others. */
export const configurationCategories = [
  'budget',
  'credential',
  'guardrail',
  'key',
  'mcp',
  'plugin',
  'price',
  'rate',
  'settings',
  'user',
  'virtual',
  'workflow',
] as const;

/** The categories of streams that are read through any gateway, by their ids, after another one has answered. */
export const clientCategories = ['batch', 'conversation', 'file', 'item', 'replay', 'response'] as const;

const isConfiguration: ReadonlySet<string> = new Set(configurationCategories);
const isOfClients: ReadonlySet<string> = new Set(clientCategories);

export interface Fence {
  readonly lease: Pick<Lease, 'append' | 'isValid'>;
  /** Resolves when every gateway has applied the changes up to this position, or its lease has ended. */
  appliedEverywhere(position: Position): Promise<void>;
  /** Resolves when the state of this gateway includes everything up to this position. */
  processed(position: Position): Promise<void>;
  /** Whether there are other gateways, as far as the log was read. */
  hasOthers(): boolean;
  /** Resolves when every other gateway knows that it is not alone; undefined once that is so. */
  knownToOthers(): Promise<void> | undefined;
}

export class FencedLog implements EventLog {
  readonly #log: EventLog;
  #fence: Fence | undefined;
  #reading: Promise<void> | undefined;
  #readingNext: Promise<void> | undefined;

  constructor(log: EventLog) {
    this.#log = log;
  }

  /** To be called before the first append. */
  use(fence: Fence): void {
    this.#fence = fence;
  }

  async append(writes: readonly StreamWrite[], options?: AppendOptions): Promise<Appended> {
    if (this.#fence === undefined) throw new Error('an append before this gateway has its lease');
    const { lease, appliedEverywhere } = this.#fence;
    const appended = await lease.append(writes, options);
    if (!lease.isValid) await this.#confirm();
    await this.#knownToReaders(writes);
    const changed = await this.#changedAt(writes, appended.position);
    if (changed !== undefined) {
      await appliedEverywhere(changed).catch((error: Error) => {
        throw new LogUnavailable(`the change is recorded, but not confirmed: ${error.message}`, 'unknown', error);
      });
    }
    return appended;
  }

  /**
   * A gateway that believes it is alone reads what clients have stored without looking for what others have recorded. So nothing of
   * that is acknowledged before it knows that there are others.
   */
  async #knownToReaders(writes: readonly StreamWrite[]): Promise<void> {
    if (!writes.some(({ stream }) => isOfClients.has(categoryOf(stream)))) return;
    await this.#fence?.knownToOthers()?.catch((error: Error) => {
      throw new LogUnavailable(`it is recorded, but not known to all gateways: ${error.message}`, 'unknown', error);
    });
  }

  /**
   * The position of the newest change of the configuration streams among these; undefined without such a stream. A
   * condition on such a stream has no events: its newest change may not be in force everywhere yet.
   */
  async #changedAt(writes: readonly StreamWrite[], appendedAt: Position): Promise<Position | undefined> {
    const configuration = writes.filter(({ stream }) => isConfiguration.has(categoryOf(stream)));
    if (configuration.some(({ events }) => events.length > 0)) return appendedAt;
    let newest: Position | undefined;
    for (const { stream } of configuration) {
      const position = (await newestEvent(stream, this.#log))?.position;
      if (position !== undefined && (newest === undefined || position > newest)) newest = position;
    }
    return newest;
  }

  /**
   * The acknowledgement arrived after the time of the lease: another gateway may have taken over since the append, and then nothing
   * may follow it here, above all no call of a provider.
   * @throws LogUnavailable when the lease has ended
   */
  async #confirm(): Promise<void> {
    // Others may have joined that were not read here yet.
    await this.#readRecorded().catch((error: Error) => {
      throw new LogUnavailable(
        `it is recorded, but other gateways may have taken over: ${error.message}`,
        'unknown',
        error,
      );
    });
  }

  readStream(stream: StreamName, options?: ReadStreamOptions): AsyncIterable<RecordedEvent> {
    if (!isOfClients.has(categoryOf(stream)) || this.#fence?.hasOthers() !== true) {
      return this.#log.readStream(stream, options);
    }
    return this.#readNow(stream, options);
  }

  /** @throws LogUnavailable while it is not known what other gateways have recorded */
  async *#readNow(stream: StreamName, options?: ReadStreamOptions): AsyncIterable<RecordedEvent> {
    await this.readToPresent();
    yield* this.#log.readStream(stream, options);
  }

  /**
   * Resolves when the state of this gateway includes everything that any gateway had recorded before the call. Calls of
   * the same time share one append.
   * @throws LogUnavailable while that is not known; nothing was recorded
   */
  readToPresent(): Promise<void> {
    return this.#fence?.hasOthers() === true ? this.#readRecorded() : Promise.resolve();
  }

  #readRecorded(): Promise<void> {
    if (this.#reading === undefined) return this.#readFollowing();
    // What is under way may have been sent before.
    this.#readingNext ??= this.#reading.then(
      () => this.#readFollowing(),
      () => this.#readFollowing(),
    );
    return this.#readingNext;
  }

  #readFollowing(): Promise<void> {
    this.#readingNext = undefined;
    const reading = this.#readOwnAppend().finally(() => {
      if (this.#reading === reading) this.#reading = undefined;
    });
    this.#reading = reading;
    return reading;
  }

  /** An append without events, which is read back after everything before it. */
  async #readOwnAppend(): Promise<void> {
    if (this.#fence === undefined) return;
    const { lease, processed } = this.#fence;
    const unavailable = Promise.withResolvers<never>();
    const unknown = (cause?: unknown) =>
      new LogUnavailable('it is not known what other gateways have recorded', 'none', cause);
    // The outcome of this append does not matter: reads do not wait for it as writes do.
    const leave = this.#log.onStatusChange(({ state }) => {
      if (state === 'unavailable') unavailable.reject(unknown());
    });
    try {
      const { position } = await Promise.race([lease.append([]), unavailable.promise]);
      await processed(position);
    } catch (error) {
      if (!(error instanceof LogUnavailable) || error.outcome === 'none') throw error;
      throw unknown(error);
    } finally {
      leave();
    }
  }

  readAll(options?: ReadAllOptions): AsyncIterable<RecordedEvent> {
    return this.#log.readAll(options);
  }

  subscribe(options?: SubscribeOptions): AsyncIterable<RecordedEvent | CaughtUp> {
    return this.#log.subscribe(options);
  }

  head(): Promise<Position> {
    return this.#log.head();
  }

  get capabilities(): LogCapabilities {
    return this.#log.capabilities;
  }

  status(): LogStatus {
    return this.#log.status();
  }

  onStatusChange(listener: (status: LogStatus) => void): () => void {
    return this.#log.onStatusChange(listener);
  }

  close(): Promise<void> {
    return this.#log.close();
  }
}
