/**
 * A client of EventStoreDB with time limits on its reads, and an end. It reads from the leader: another node may be behind
 * what was read before. The client goes to the leader by itself when another node names it.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  AccessDeniedError,
  type AllStreamResolvedEvent,
  EventStoreDBClient,
  type GossipClusterOptions,
  NotLeaderError,
  type ReadPosition,
} from '@eventstore/db-client';
import { EngineDamaged, EngineUnavailable, EngineUnsuitable, PlaceLost } from '../replicated/engine.ts';
import type { EventStoreAddress } from './eventstore-address.ts';

const closeTimeoutMs = 1_000;
/** Nodes in turn that say that another one is the leader. */
const maxRedirections = 3;

export class EventStoreConnection {
  readonly client: EventStoreDBClient;
  readonly #deadlineMs: number;

  constructor({ connection, channel, credentials, deadlineMs }: EventStoreAddress) {
    // One of three types of options, each of which the constructor accepts.
    this.client = new EventStoreDBClient(connection as GossipClusterOptions, channel, credentials);
    this.#deadlineMs = deadlineMs;
    neverWaitForDrain(this.client);
  }

  /** The last events of `$all`, the newest first. */
  readLast(count: number): Promise<AllStreamResolvedEvent[]> {
    return this.#read('end', 'backwards', count);
  }

  /** The event at the position, or the first one after it. */
  async readAt(position: ReadPosition): Promise<AllStreamResolvedEvent | undefined> {
    return (await this.#read(position, 'forwards', 1))[0];
  }

  /** Ends all calls and the connection. Takes a second at most. */
  async close(): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<undefined>();
    const timer = setTimeout(() => resolve(undefined), closeTimeoutMs);
    await Promise.race([this.#end(), late]);
    clearTimeout(timer);
  }

  async #end(): Promise<void> {
    await this.client.dispose();
    // `dispose` leaves the connection open, and the client has no public way to end it.
    const channelOf: unknown = Reflect.get(this.client, 'getChannel');
    if (typeof channelOf !== 'function') return;
    const channel: { close(): void } | undefined = await channelOf.call(this.client).catch(() => undefined);
    channel?.close();
  }

  async #read(from: ReadPosition, direction: 'forwards' | 'backwards', maxCount: number) {
    for (let redirections = 0; ; redirections++) {
      try {
        return await this.#readOnce(from, direction, maxCount);
      } catch (error) {
        if (!(error instanceof NotLeaderError) || redirections === maxRedirections) throw error;
      }
      // The client drops the connection to the other node in this turn.
      await nextTurn();
    }
  }

  /** The client has no deadline for reads. */
  async #readOnce(fromPosition: ReadPosition, direction: 'forwards' | 'backwards', maxCount: number) {
    const stream = this.client.readAll({ fromPosition, direction, maxCount, requiresLeader: true });
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      void stream.cancel().catch(() => {});
      stream.destroy();
    }, this.#deadlineMs);
    const events: AllStreamResolvedEvent[] = [];
    try {
      for await (const event of stream) events.push(event);
    } catch (error) {
      if (!isLate) throw error;
    } finally {
      clearTimeout(timer);
    }
    if (isLate) throw new EngineUnavailable(`EventStoreDB did not answer within ${this.#deadlineMs} ms`, 'none');
    return events;
  }
}

/**
 * When the stream of appends fails while the client waits for its `drain`, a promise that nothing can handle rejects, and
 * that stops the gateway. So writes report that there is room; `sendAppends` bounds what is in flight.
 */
function neverWaitForDrain(client: EventStoreDBClient): void {
  const createStream: unknown = Reflect.get(client, 'GRPCStreamCreator');
  if (typeof createStream !== 'function') return;
  Reflect.set(client, 'GRPCStreamCreator', (...args: unknown[]) => {
    const create: () => Promise<{ write?: (message: unknown) => boolean }> = createStream(...args);
    return async () => {
      const stream = await create();
      const write = stream.write;
      if (write !== undefined && !unbounded.has(stream)) {
        unbounded.add(stream);
        stream.write = (message) => write.call(stream, message) || true;
      }
      return stream;
    };
  });
}

/** Streams whose `write` has been replaced: the client returns the same one for every append. */
const unbounded = new WeakSet<object>();

// Errors of the client as errors of the port. The client's messages contain neither the address nor the password.

/** Statuses of gRPC. */
const permissionDenied = 7;
const unauthenticated = 16;

export function isAccessDenied(error: unknown): boolean {
  return error instanceof AccessDeniedError || [permissionDenied, unauthenticated].includes(codeOf(error));
}

/** Whether the call was not sent at all: nothing of it can be on the server. */
export function wasNotSent(error: unknown): boolean {
  return /No connection established|Failed to discover|ECONNREFUSED/.test(messageOf(error));
}

export function engineErrorOf(error: unknown, action: string): Error {
  if (error instanceof EngineUnavailable || error instanceof EngineUnsuitable) return error;
  if (error instanceof PlaceLost || error instanceof EngineDamaged) return error;
  if (isAccessDenied(error)) return new EngineUnsuitable(deniedReason(action));
  const message = messageOf(error);
  const hint = /Last error: Failed to connect/.test(message) ? '; servers with TLS (tls=true) do so' : '';
  return new EngineUnavailable(`EventStoreDB cannot be used (${action}): ${message}${hint}`, 'none');
}

export function deniedReason(action: string): string {
  return `EventStoreDB refuses access (${action}): the user and the password must be valid, and the user must be allowed to read $all (by default only members of $admins are); the client sends them with TLS only`;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function codeOf(error: unknown): number {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' ? error.code : -1;
}
