/**
 * A log on EventStoreDB or KurrentDB, for several gateways. Appends are written without a condition (`any`): each
 * reader evaluates their expected revisions in the order of `$all` and ignores repetitions by writer and number.
 */
import { randomBytes } from 'node:crypto';
import {
  type AllStreamResolvedEvent,
  type AllStreamSubscription,
  ANY,
  binaryEvent,
  type EventStoreDBClient,
  START,
  streamNameFilter,
} from '@eventstore/db-client';
import {
  checkTlsTexts,
  type EnginePlace,
  EngineUnavailable,
  type LogEngine,
  type LogEngineAccess,
  PlaceLost,
  type PlaceState,
  type ReadBatch,
  type SequencedAppend,
} from '../replicated/engine.ts';
import {
  beginning,
  CallAssembly,
  type EventPlace,
  formatPlace,
  isBeginning,
  layOut,
  maxGapBytes,
  metadataOf,
  parsePlace,
  type ResumePlace,
  resumeAfter,
  type StreamAppend,
  streamPrefix,
} from './event-layout.ts';
import { type EventStoreAddress, parseEventStoreAddress } from './eventstore-address.ts';
import {
  deniedReason,
  EventStoreConnection,
  engineErrorOf,
  isAccessDenied,
  messageOf,
  wasNotSent,
} from './eventstore-connection.ts';

export interface EventStoreEngineOptions extends LogEngineAccess {
  /** After this time without an event, the reader looks whether it has missed any. Default 15,000. */
  readonly idleMs?: number;
}

const maxAppendBytes = 80 * 1024 * 1024;

/** @throws EngineUnsuitable when the address or a setting is wrong */
export function createEventStoreEngine(options: EventStoreEngineOptions): LogEngine {
  checkTlsTexts(options);
  return new EventStoreEngine(parseEventStoreAddress(options), options.idleMs ?? 15_000);
}

class EventStoreEngine implements LogEngine {
  readonly name = 'eventstore';
  readonly maxAppendBytes = maxAppendBytes;
  readonly #address: EventStoreAddress;
  readonly #idleMs: number;
  /** Names the calls of this engine among those of all gateways. */
  readonly #instance = randomBytes(8).toString('hex');
  #calls = 0;
  #reading: EventStoreConnection | undefined;
  /** Apart from the reading one, because it is closed after each failed append. */
  #appending: EventStoreConnection | undefined;
  #closed = new AbortController();

  constructor(address: EventStoreAddress, idleMs: number) {
    this.#address = address;
    this.#idleMs = idleMs;
  }

  async open(): Promise<void> {
    this.#reading ??= new EventStoreConnection(this.#address);
    try {
      await this.#reading.readLast(1);
    } catch (error) {
      throw engineErrorOf(error, 'opening');
    }
  }

  async append(appends: readonly SequencedAppend[]): Promise<void> {
    const { logName, deadlineMs } = this.#address;
    const writes = layOut(appends, logName, `${this.#instance}-${++this.#calls}`);
    const connection = await this.#connectToAppend();
    try {
      await sendAppends(connection, writes, deadlineMs);
    } catch (error) {
      this.#appending = undefined;
      throw error;
    }
  }

  async *read(after: EnginePlace | undefined, signal: AbortSignal): AsyncGenerator<ReadBatch> {
    const ended = AbortSignal.any([signal, this.#closed.signal]);
    yield* readAppends(this.#toRead(), after, ended);
    if (!signal.aborted) throw new EngineUnavailable('EventStoreDB has been closed', 'none');
  }

  async verify(place: EnginePlace | undefined): Promise<PlaceState> {
    return verifyPlace(this.#toRead(), place);
  }

  async close(): Promise<void> {
    this.#closed.abort();
    const connections = [this.#reading, this.#appending];
    this.#reading = undefined;
    this.#appending = undefined;
    await Promise.all(connections.map((connection) => connection?.close()));
  }

  #toRead(): ReadOptions {
    const connection = this.#reading;
    if (connection === undefined) throw new EngineUnavailable('EventStoreDB has not been opened', 'none');
    return { connection, logName: this.#address.logName, idleMs: this.#idleMs };
  }

  /** The first call on a connection is a read: the client can hang when it begins with many appends. */
  async #connectToAppend(): Promise<EventStoreConnection> {
    if (this.#closed.signal.aborted) throw new EngineUnavailable('EventStoreDB has been closed', 'none');
    if (this.#appending !== undefined) return this.#appending;
    const connection = new EventStoreConnection(this.#address);
    this.#appending = connection;
    try {
      await connection.readLast(1);
    } catch (error) {
      this.#appending = undefined;
      await connection.close();
      throw new EngineUnavailable(messageOf(engineErrorOf(error, 'appending')), 'none');
    }
    return connection;
  }
}

/**
 * Writes the events of one call: many `appendToStream` at a time, because the reader puts them in order. Only when all
 * have succeeded is the call successful; otherwise the caller repeats it as a new call.
 */
const maxInFlight = { writes: 64, bytes: 2 * 1024 * 1024 };
/** Beyond the deadline that the server has. */
const graceMs = 2_000;

/**
 * After a failure the connection is closed before anything else can arrive on it: the client fails all pending appends
 * of the process together, and throws in an event handler when one of them is answered later.
 * @throws EngineUnavailable
 */
async function sendAppends(
  connection: EventStoreConnection,
  writes: readonly StreamAppend[],
  deadlineMs: number,
): Promise<void> {
  const positions: (bigint | undefined)[] = [];
  const failures: unknown[] = [];
  const inFlight = new Set<Promise<void>>();
  let bytes = 0;
  const send = (write: StreamAppend) => {
    const size = write.events.reduce((sum, { data, metadata }) => sum + data.length + metadata.length, 0);
    bytes += size;
    const settled = () => {
      bytes -= size;
      inFlight.delete(sent);
    };
    const sent: Promise<void> = appendOne(connection, write, deadlineMs)
      .then(
        (position) => void positions.push(position),
        (error: unknown) => void failures.push(error),
      )
      .then(settled);
    inFlight.add(sent);
  };
  for (const write of writes) {
    if (failures.length > 0) break;
    send(write);
    while (failures.length === 0 && (inFlight.size >= maxInFlight.writes || bytes >= maxInFlight.bytes)) {
      await Promise.race(inFlight);
    }
  }
  while (inFlight.size > 0 && failures.length === 0) await Promise.race(inFlight);
  if (failures.length === 0) return checkGaps(positions);
  await Promise.all([connection.close(), ...inFlight]);
  throw failureOf(failures, positions.length > 0);
}

async function appendOne({ client }: EventStoreConnection, { stream, events }: StreamAppend, deadlineMs: number) {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`no answer within ${deadlineMs + graceMs} ms`)),
    deadlineMs + graceMs,
  );
  try {
    const written = client.appendToStream(stream, events.map(binaryEvent), { expectedRevision: ANY });
    return (await Promise.race([written, late])).position?.commit;
  } finally {
    clearTimeout(timer);
  }
}

function failureOf(failures: readonly unknown[], someSucceeded: boolean): EngineUnavailable {
  const [first] = failures;
  const isNone = !someSucceeded && failures.every((error) => wasNotSent(error) || isAccessDenied(error));
  const reason = isAccessDenied(first) ? deniedReason('appending') : `EventStoreDB did not append: ${messageOf(first)}`;
  return new EngineUnavailable(reason, isNone ? 'none' : 'unknown');
}

/** The reader would abandon a call whose events lie too far from each other. */
function checkGaps(written: readonly (bigint | undefined)[]): void {
  const positions = written.flatMap((position) => position ?? []).sort((one, other) => (one < other ? -1 : 1));
  let before = positions[0] ?? 0n;
  for (const position of positions) {
    if (position - before > maxGapBytes) {
      throw new EngineUnavailable('EventStoreDB wrote the events of one call too far from each other', 'unknown');
    }
    before = position;
  }
}

/**
 * Reads the appends of one log from `$all`: from the beginning or a place, then live. A subscription that the server
 * ends, or that is silent although there are events, is replaced by another from the event that was read last.
 */
interface ReadOptions {
  readonly connection: EventStoreConnection;
  readonly logName: string;
  /** After this time without an event, the reader looks whether it has missed any. */
  readonly idleMs: number;
}

/** Replaced subscriptions without an event between them, before reading fails. */
const maxReplacements = 3;
/** The server reports its search at least this often in events that do not belong to the log. */
const searchWindow = 64;

async function* readAppends(
  options: ReadOptions,
  after: EnginePlace | undefined,
  signal: AbortSignal,
): AsyncGenerator<ReadBatch> {
  const start = startOf(after);
  const assembly = new CallAssembly(start);
  await checkPlace(options, start.readTo);
  for (let replaced = 0; !signal.aborted; replaced++) {
    await checkPlace(options, assembly.latest);
    const subscription = new EventSubscription(
      options.connection.client,
      streamPrefix(options.logName),
      assembly.latest,
    );
    try {
      for (let piece = await nextPiece(); piece.type === 'events'; piece = await nextPiece()) {
        replaced = 0;
        const appends = piece.events.flatMap((event) => addTo(assembly, event));
        yield { appends, resume: formatPlace(assembly.resume) };
      }
    } finally {
      await subscription.close();
    }

    async function nextPiece(): Promise<SubscriptionPiece> {
      for (;;) {
        const piece = await subscription.next(options.idleMs, signal);
        if (piece.type === 'ended') failIfLost(piece.error, replaced);
        if (piece.type !== 'idle' || (await hasMissed(options, assembly.latest, subscription.checked))) return piece;
      }
    }
  }
}

/** @throws PlaceLost, EngineUnavailable */
async function verifyPlace(options: ReadOptions, place: EnginePlace | undefined): Promise<PlaceState> {
  const { readTo } = startOf(place);
  await checkPlace(options, readTo);
  return { isEnd: !(await hasMissed(options, readTo, 0n)) };
}

function startOf(after: EnginePlace | undefined): ResumePlace {
  const place = after === undefined ? resumeAfter(beginning) : parsePlace(after);
  if (place === undefined) throw new PlaceLost('the place is none of EventStoreDB');
  return place;
}

/** The server still has the event at the place. @throws PlaceLost */
async function checkPlace({ connection, logName }: ReadOptions, place: EventPlace): Promise<void> {
  if (isBeginning(place)) return;
  const found = await attempt(async () => {
    const [last] = await connection.readLast(1);
    const end = last?.event?.position.commit ?? 0n;
    if (end < place.commit) return undefined;
    return connection.readAt({ commit: place.commit, prepare: place.prepare });
  });
  const isSame =
    found?.event?.position.commit === place.commit &&
    found.event.streamId.startsWith(streamPrefix(logName)) &&
    found.event.id.startsWith(place.check);
  if (!isSame) {
    throw new PlaceLost(
      'EventStoreDB does not have the event that was read last: it was restored from an older backup, or streams of the log were deleted',
    );
  }
}

function addTo(assembly: CallAssembly, { event }: AllStreamResolvedEvent) {
  if (event === undefined) return [];
  const { commit, prepare } = event.position;
  const place = { commit, prepare, check: event.id.slice(0, 8) };
  const isOurs = !event.isJson && event.data instanceof Uint8Array;
  return assembly.add(place, isOurs ? metadataOf(event.metadata) : undefined, isOurs ? event.data : new Uint8Array());
}

/** Errors of a server that still serves: it dropped the subscription, or is no longer the leader. */
const droppedTypes: readonly unknown[] = ['timeout', 'cancelled', 'unknown', 'not-leader'];

function failIfLost(error: unknown, replaced: number): void {
  const type = typeof error === 'object' && error !== null && 'type' in error ? error.type : undefined;
  if ((error === undefined || droppedTypes.includes(type)) && replaced < maxReplacements) return;
  throw engineErrorOf(error ?? new Error('it ends the subscription again and again'), 'reading');
}

/** Whether the server has events of the log that the subscription should have yielded by now. */
async function hasMissed({ connection, logName }: ReadOptions, latest: EventPlace, checked: bigint): Promise<boolean> {
  const read = latest.commit > checked ? latest.commit : checked;
  const isNewer = ({ event }: AllStreamResolvedEvent) => event !== undefined && event.position.commit > read;
  const [last] = await attempt(() => connection.readLast(1));
  if (last === undefined || !isNewer(last)) return false;
  const newer = (await attempt(() => connection.readLast(searchWindow))).filter(isNewer);
  if (newer.some(({ event }) => event?.streamId.startsWith(streamPrefix(logName)))) return true;
  return newer.length === searchWindow;
}

async function attempt<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw engineErrorOf(error, 'reading');
  }
}

// A subscription to the events of one log in `$all`, read in pieces at the reader's pace. The client's stream holds back
// the server when its buffers are full. A server that drops a slow subscriber ends the stream; so does one that stops.

/** Events in each of the client's two buffers; an event has at most 128 KiB of data. */
const bufferedEvents = 128;
const maxPieceEvents = 512;

type SubscriptionPiece =
  | { readonly type: 'events'; readonly events: readonly AllStreamResolvedEvent[] }
  /** Nothing arrived for the time given. */
  | { readonly type: 'idle' }
  | { readonly type: 'aborted' }
  /** No more events come from this subscription. `error` is undefined when the server gave no reason. */
  | { readonly type: 'ended'; readonly error: unknown };

class EventSubscription {
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
