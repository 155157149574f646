/**
 * A subscription to the events of one log in `$all`, read in pieces at the reader's pace. The client's stream holds back
 * the server when its buffers are full. A server that drops a slow subscriber ends the stream; so does one that stops.
 */
import {
  type AllStreamResolvedEvent,
  type AllStreamSubscription,
  type EventStoreDBClient,
  START,
  streamNameFilter,
} from '@eventstore/db-client';
import { type EventPlace, isBeginning } from './eventstore-place.ts';

/** Events in each of the client's two buffers; an event has at most 128 KiB of data. */
const bufferedEvents = 128;
const maxPieceEvents = 512;

export type SubscriptionPiece =
  | { readonly type: 'events'; readonly events: readonly AllStreamResolvedEvent[] }
  /** Nothing arrived for the time given. */
  | { readonly type: 'idle' }
  | { readonly type: 'aborted' }
  /** No more events come from this subscription. `error` is undefined when the server gave no reason. */
  | { readonly type: 'ended'; readonly error: unknown };

export class EventSubscription {
  readonly #stream: AllStreamSubscription;
  #checked = 0n;
  #ended = false;
  #error: unknown;
  #wake: () => void = () => {};

  constructor(client: EventStoreDBClient, prefix: string, after: EventPlace) {
    const checkpointReached = (_: unknown, { commit }: { commit: bigint }) => {
      this.#checked = commit;
    };
    this.#stream = client.subscribeToAll(
      {
        fromPosition: isBeginning(after) ? START : { commit: after.commit, prepare: after.prepare },
        filter: streamNameFilter({ prefixes: [prefix], checkpointReached }),
        requiresLeader: true,
      },
      { highWaterMark: bufferedEvents },
    );
    this.#stream.on('readable', () => this.#wake());
    this.#stream.on('end', () => this.#end(undefined));
    this.#stream.on('close', () => this.#end(undefined));
    // Stays until the end: the client emits errors also after `unsubscribe`.
    this.#stream.on('error', (error) => this.#end(error));
  }

  /** Up to where the server has searched for events of this log, as far as it has said. */
  get checked(): bigint {
    return this.#checked;
  }

  async next(idleMs: number, signal: AbortSignal): Promise<SubscriptionPiece> {
    for (;;) {
      if (signal.aborted) return { type: 'aborted' };
      const events = this.#take();
      if (events.length > 0) return { type: 'events', events };
      if (this.#ended) return { type: 'ended', error: this.#error };
      if (!(await this.#wait(idleMs, signal))) return { type: 'idle' };
    }
  }

  async close(): Promise<void> {
    this.#ended = true;
    // Fails when the call could not be made at all.
    await this.#stream.unsubscribe().catch(() => {});
    this.#stream.destroy();
  }

  #take(): AllStreamResolvedEvent[] {
    const events: AllStreamResolvedEvent[] = [];
    while (events.length < maxPieceEvents) {
      const event: AllStreamResolvedEvent | null = this.#stream.read();
      if (event === null) break;
      events.push(event);
    }
    return events;
  }

  #end(error: unknown): void {
    if (!this.#ended) this.#error = error;
    this.#ended = true;
    this.#wake();
  }

  /** @returns false when the time is over */
  #wait(idleMs: number, signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const done = (inTime: boolean) => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        this.#wake = () => {};
        resolve(inTime);
      };
      const onAbort = () => done(true);
      const timer = setTimeout(() => done(false), idleMs);
      signal.addEventListener('abort', onAbort, { once: true });
      this.#wake = () => done(true);
    });
  }
}
