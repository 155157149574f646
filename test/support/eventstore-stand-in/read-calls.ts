/** `Read` of the stand-in: streams and `$all`, both directions, and subscriptions with filters and checkpoints. */
import type { ReadReq, ReadResp } from '@eventstore/db-client/generated/streams_pb.js';
import type { ServerWritableStream } from '@grpc/grpc-js';
import { redirectionOf, refusalOf } from './access.ts';
import { nameOf } from './append-calls.ts';
import { messages, shared } from './definitions.ts';
import type { StandInState } from './stand-in-state.ts';
import type { StoredEvent } from './stored-writes.ts';

type ReadCall = ServerWritableStream<ReadReq, ReadResp>;
type Wanted = (event: StoredEvent) => boolean;

/** Events after which a filtered subscription gets a checkpoint when the client names no window. */
const defaultWindow = 32;

export async function readCall(state: StandInState, call: ReadCall): Promise<void> {
  const options = call.request.getOptions();
  const stream = options?.getStream();
  const refused =
    refusalOf(state.users, call.metadata, stream === undefined) ?? redirectionOf(state.leaderPort, call.metadata);
  if (refused !== undefined || options === undefined) return void call.emit('error', refused);
  call.on('error', () => {});
  if (options.hasSubscription()) return subscribe(state, call, options);
  const events = stream === undefined ? allEvents(state, options) : streamEvents(state, options);
  if (events === undefined) {
    const missing = new messages.ReadResp.StreamNotFound().setStreamIdentifier(stream?.getStreamIdentifier());
    call.write(new messages.ReadResp().setStreamNotFound(missing));
  } else {
    let left = Number(options.getCount());
    for (const event of events) {
      if (left-- <= 0 || call.cancelled) break;
      await send(call, answerOf(event));
    }
  }
  call.end();
}

function* allEvents({ store }: StandInState, options: ReadReq.Options): Generator<StoredEvent> {
  const all = options.getAll();
  const backwards = options.getReadDirection() === 1;
  const named = all?.getPosition()?.getCommitPosition();
  const from = named === undefined ? (all?.hasEnd() ? Number.MAX_SAFE_INTEGER : 0) : Number(named);
  if (!backwards) {
    for (let index = store.firstWriteFrom(from); index < store.writeCount; index++) {
      for (const event of store.writeAt(index)) if (event.position >= from) yield event;
    }
    return;
  }
  // Backwards, the position itself is excluded.
  for (let index = Math.min(store.firstWriteFrom(from), store.writeCount - 1); index >= 0; index--) {
    for (const event of store.writeAt(index).reverse()) if (event.position < from) yield event;
  }
}

function streamEvents({ store }: StandInState, options: ReadReq.Options): readonly StoredEvent[] | undefined {
  const stream = options.getStream();
  const events = store.streamEvents(nameOf(stream?.getStreamIdentifier()));
  if (events.length === 0) return undefined;
  const from = Number(stream?.getRevision() ?? 0);
  if (options.getReadDirection() === 0) return stream?.hasEnd() ? [] : events.slice(stream?.hasRevision() ? from : 0);
  return (stream?.hasEnd() ? events : events.slice(0, from + 1)).reverse();
}

async function subscribe(state: StandInState, call: ReadCall, options: ReadReq.Options): Promise<void> {
  const { store } = state;
  call.once('cancelled', state.wake);
  call.once('close', state.wake);
  const { mutes } = state.faults;
  const wanted = filterOf(options);
  const window = windowOf(options);
  const position = options.getAll()?.getPosition()?.getCommitPosition();
  let after = position === undefined ? (options.getAll()?.hasEnd() ? store.lastPosition : 0) : Number(position);
  call.write(
    new messages.ReadResp().setConfirmation(
      new messages.ReadResp.SubscriptionConfirmation().setSubscriptionId('stand-in'),
    ),
  );
  let skipped = 0;
  let announced = false;
  for (let index = store.firstWriteFrom(after + 1); !call.cancelled && !call.destroyed; ) {
    if (index >= store.writeCount || state.faults.mutes > mutes || state.faults.holdsEvents) {
      if (!announced) call.write(new messages.ReadResp().setCaughtUp(new messages.ReadResp.CaughtUp()));
      announced = true;
      await state.changed();
      continue;
    }
    for (const event of store.writeAt(index++)) {
      if (event.position <= after) continue;
      after = event.position;
      if (wanted(event)) await send(call, answerOf(event));
      if (options.hasFilter() && ++skipped % window === 0) await send(call, checkpoint(after));
    }
  }
}

function filterOf(options: ReadReq.Options): Wanted {
  const filter = options.getFilter();
  const byStream = filter?.getStreamIdentifier();
  const expression = byStream ?? filter?.getEventType();
  if (expression === undefined) return () => true;
  const regex = expression.getRegex() === '' ? undefined : new RegExp(expression.getRegex());
  const prefixes = expression.getPrefixList();
  return ({ stream, type }) => {
    const text = byStream === undefined ? type : stream;
    return regex === undefined ? prefixes.some((prefix) => text.startsWith(prefix)) : regex.test(text);
  };
}

function windowOf(options: ReadReq.Options): number {
  const filter = options.getFilter();
  return (filter?.hasMax() ? filter.getMax() : defaultWindow) * (filter?.getCheckpointintervalmultiplier() || 1);
}

function checkpoint(position: number): ReadResp {
  const place = new messages.ReadResp.Checkpoint();
  place.setCommitPosition(String(position)).setPreparePosition(String(position));
  return new messages.ReadResp().setCheckpoint(place);
}

function answerOf({
  id,
  stream,
  revision,
  position,
  created,
  type,
  contentType,
  metadata,
  data,
}: StoredEvent): ReadResp {
  const recorded = new messages.ReadResp.ReadEvent.RecordedEvent();
  recorded.setId(new shared.UUID().setString(id)).setStreamRevision(String(revision));
  recorded.setStreamIdentifier(new shared.StreamIdentifier().setStreamName(Buffer.from(stream).toString('base64')));
  recorded.setCommitPosition(String(position)).setPreparePosition(String(position));
  recorded.setCustomMetadata(Uint8Array.from(metadata)).setData(Uint8Array.from(data));
  recorded
    .getMetadataMap()
    .set('type', type)
    .set('content-type', contentType)
    .set('created', String(created * 10_000));
  const event = new messages.ReadResp.ReadEvent().setEvent(recorded).setCommitPosition(String(position));
  return new messages.ReadResp().setEvent(event);
}

/** Waits while the client reads too slowly. */
async function send(call: ReadCall, answer: ReadResp): Promise<void> {
  if (call.write(answer) || call.cancelled || call.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const ends = ['drain', 'cancelled', 'close'];
  for (const end of ends) call.once(end, resolve);
  await promise;
  for (const end of ends) call.off(end, resolve);
}
