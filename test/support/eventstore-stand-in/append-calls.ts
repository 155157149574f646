/** `Append` and `BatchAppend` of the stand-in. */

import type {
  AppendReq,
  AppendResp,
  BatchAppendReq,
  BatchAppendResp,
} from '@eventstore/db-client/generated/streams_pb.js';
import { type ServerDuplexStream, type ServerReadableStream, type sendUnaryData, status } from '@grpc/grpc-js';
import any from 'google-protobuf/google/protobuf/any_pb.js';
import empty from 'google-protobuf/google/protobuf/empty_pb.js';
import { exception, type Refusal, refusalOf } from './access.ts';
import { messages, shared, status as statusMessages } from './definitions.ts';
import type { StandInState } from './stand-in-state.ts';
import { type AppendedWrite, type ExpectedState, WrongRevision } from './store.ts';
import type { ProposedEvent } from './stored-writes.ts';

interface WriteRequest {
  readonly stream: string;
  readonly expected: ExpectedState;
  readonly events: ProposedEvent[];
}

type Outcome = AppendedWrite | WrongRevision | Refusal | 'cut';

export function appendCall(
  state: StandInState,
  call: ServerReadableStream<AppendReq, AppendResp>,
  answer: sendUnaryData<AppendResp>,
): void {
  let request: WriteRequest | undefined;
  call.on('data', (part: AppendReq) => {
    const options = part.getOptions();
    if (options !== undefined) {
      const stream = nameOf(options.getStreamIdentifier());
      request = { stream, expected: expectationOf(options, options.getRevision()), events: [] };
    }
    const event = part.getProposedMessage();
    if (event !== undefined) request?.events.push(proposed(event));
  });
  call.on('end', async () => {
    const refused = refusalOf(state.users, call.metadata, false);
    if (refused !== undefined || request === undefined) return answer(refused ?? { code: status.INVALID_ARGUMENT });
    const outcome = await record(state, request);
    if (outcome === 'cut') state.disconnect();
    else if (outcome instanceof WrongRevision) answer(wrongVersion(request, outcome));
    else if ('code' in outcome) answer(outcome);
    else answer(null, succeeded(outcome));
  });
}

export function batchAppendCall(state: StandInState, call: ServerDuplexStream<BatchAppendReq, BatchAppendResp>): void {
  const open = new Map<string, WriteRequest>();
  call.on('data', async (part: BatchAppendReq) => {
    const id = part.getCorrelationId();
    const key = id?.getString() ?? '';
    const options = part.getOptions();
    if (options !== undefined) {
      const stream = nameOf(options.getStreamIdentifier());
      open.set(key, { stream, expected: expectationOf(options, options.getStreamPosition()), events: [] });
    }
    const request = open.get(key);
    if (request === undefined) return;
    request.events.push(...part.getProposedMessagesList().map(proposed));
    if (!part.getIsFinal()) return;
    open.delete(key);
    const refused = refusalOf(state.users, call.metadata, false);
    const outcome = refused ?? (await record(state, request));
    if (outcome === 'cut') return state.disconnect();
    const stream = new shared.StreamIdentifier().setStreamName(Buffer.from(request.stream).toString('base64'));
    call.write(batchAnswer(request, outcome).setCorrelationId(id).setStreamIdentifier(stream));
  });
  call.on('end', () => call.end());
  call.on('error', () => {});
}

async function record(state: StandInState, { stream, expected, events }: WriteRequest): Promise<Outcome> {
  await state.beforeAppend();
  const fate = state.faults.nextAppend();
  if (fate === 'refuse') return exception(status.UNAVAILABLE, 'Server Is Not Ready', {});
  const bytes = events.reduce(
    (sum, { type, metadata, data }) => sum + 2 * type.length + metadata.length + data.length,
    0,
  );
  if (bytes > state.maxAppendBytes) {
    return exception(status.INVALID_ARGUMENT, 'Maximum Append Size Exceeded.', {
      exception: 'maximum-append-size-exceeded',
      'maximum-append-size': String(state.maxAppendBytes),
    });
  }
  try {
    const appended = await state.store.append(stream, expected, events);
    return fate === 'cut' ? 'cut' : appended;
  } catch (error) {
    if (error instanceof WrongRevision) return error;
    return exception(status.UNKNOWN, String(error), {});
  }
}

function succeeded({ revision, position }: AppendedWrite): AppendResp {
  const place = new messages.AppendResp.Position();
  place.setCommitPosition(String(position)).setPreparePosition(String(position));
  const success = new messages.AppendResp.Success().setCurrentRevision(String(revision)).setPosition(place);
  return new messages.AppendResp().setSuccess(success);
}

function wrongVersion({ stream, expected }: WriteRequest, { actual }: WrongRevision): Refusal {
  return exception(status.FAILED_PRECONDITION, `Append failed due to WrongExpectedVersion. Stream: ${stream}`, {
    exception: 'wrong-expected-version',
    'stream-name': stream,
    'expected-version':
      typeof expected === 'bigint' ? String(expected) : { any: '-2', noStream: '-1', exists: '-4' }[expected],
    ...(actual === undefined ? {} : { 'actual-version': String(actual) }),
  });
}

function batchAnswer({ expected }: WriteRequest, outcome: Exclude<Outcome, 'cut'>): BatchAppendResp {
  const answer = new messages.BatchAppendResp();
  if (!('position' in outcome)) return answer.setError(batchError(expected, outcome));
  const place = new shared.AllStreamPosition();
  place.setCommitPosition(String(outcome.position)).setPreparePosition(String(outcome.position));
  const success = new messages.BatchAppendResp.Success()
    .setCurrentRevision(String(outcome.revision))
    .setPosition(place);
  return answer.setSuccess(success);
}

function batchError(expected: ExpectedState, outcome: WrongRevision | Refusal) {
  const details = new any.Any();
  if (outcome instanceof WrongRevision) {
    const wrong = new shared.WrongExpectedVersion();
    if (outcome.actual !== undefined) wrong.setCurrentStreamRevision(String(outcome.actual));
    else wrong.setCurrentNoStream(new empty.Empty());
    if (typeof expected === 'bigint') wrong.setExpectedStreamPosition(String(expected));
    else if (expected === 'noStream') wrong.setExpectedNoStream(new empty.Empty());
    details.pack(wrong.serializeBinary(), 'event_store.client.WrongExpectedVersion');
  } else if (outcome.code === status.INVALID_ARGUMENT) {
    const tooLarge = new shared.MaximumAppendSizeExceeded().serializeBinary();
    details.pack(tooLarge, 'event_store.client.MaximumAppendSizeExceeded');
  } else if (outcome.code === status.UNAUTHENTICATED) {
    details.pack(new shared.AccessDenied().serializeBinary(), 'event_store.client.AccessDenied');
  } else {
    details.pack(new shared.Timeout().serializeBinary(), 'event_store.client.Timeout');
  }
  return new statusMessages.Status().setMessage('the append failed').setDetails(details);
}

export function nameOf(identifier: { getStreamName_asU8(): Uint8Array } | undefined): string {
  return Buffer.from(identifier?.getStreamName_asU8() ?? []).toString();
}

function proposed(event: AppendReq.ProposedMessage | BatchAppendReq.ProposedMessage): ProposedEvent {
  return {
    id: event.getId()?.getString() ?? '',
    type: event.getMetadataMap().get('type') ?? '',
    contentType: event.getMetadataMap().get('content-type') ?? '',
    metadata: event.getCustomMetadata_asU8(),
    data: event.getData_asU8(),
  };
}

interface Expectations {
  hasNoStream(): boolean;
  hasStreamExists(): boolean;
  hasAny(): boolean;
}

function expectationOf(options: Expectations, revision: string): ExpectedState {
  if (options.hasAny()) return 'any';
  if (options.hasNoStream()) return 'noStream';
  return options.hasStreamExists() ? 'exists' : BigInt(revision);
}
