/**
 * Reads the appends of one log from `$all`: from the beginning or a place, then live. A subscription that the server
 * ends, or that is silent although there are events, is replaced by another from the event that was read last.
 */
import type { AllStreamResolvedEvent } from '@eventstore/db-client';
import { type EnginePlace, PlaceLost, type PlaceState, type ReadBatch } from '../replicated/engine.ts';
import { CallAssembly } from './assemble-calls.ts';
import { metadataOf, streamPrefix } from './event-layout.ts';
import { EventSubscription, type SubscriptionPiece } from './event-subscription.ts';
import type { EventStoreConnection } from './eventstore-connection.ts';
import { engineErrorOf } from './eventstore-errors.ts';
import {
  beginning,
  type EventPlace,
  formatPlace,
  isBeginning,
  parsePlace,
  type ResumePlace,
  resumeAfter,
} from './eventstore-place.ts';

export interface ReadOptions {
  readonly connection: EventStoreConnection;
  readonly logName: string;
  /** After this time without an event, the reader looks whether it has missed any. */
  readonly idleMs: number;
}

/** Replaced subscriptions without an event between them, before reading fails. */
const maxReplacements = 3;
/** The server reports its search at least this often in events that do not belong to the log. */
const searchWindow = 64;

export async function* readAppends(
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
export async function verifyPlace(options: ReadOptions, place: EnginePlace | undefined): Promise<PlaceState> {
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
