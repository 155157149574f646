/**
 * `Idempotency-Key`: one key, one answer. The first request under a key claims it in the log, in the same append that
 * records the request; whoever comes with the same key and body within 24 hours gets that answer, also while it is
 * still being made. A request that was refused, or failed, leaves the key to the next.
 */
import { createHash } from 'node:crypto';
import type { z } from 'zod';
import { answerReplayed, exchangeCompleted } from '../../../events/catalogue/exchange.ts';
import { idempotencyKeyClaimed } from '../../../events/catalogue/idempotency.ts';
import { type StreamName, streamName } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import { newestEvent, untilMoved } from '../../../events/newest-event.ts';
import { wallClock } from '../../../events/wall-clock.ts';
import type { Client } from '../../model-request/client.ts';
import type { ModelRequest } from '../../model-request/model-request.ts';
import { gatewayStopping, streamIncomplete } from '../../model-request/stream-refusals.ts';
import { refusals } from '../../refusal.ts';
import type { ResponseArchive } from '../../responses/archive.ts';
import { everything } from '../../visibility.ts';
import { addRequestedModel } from '../delivery/requested-model.ts';
import { responseIdOf } from '../dialects/responses/responses-dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import * as events from '../record/end-events.ts';
import { type FollowDependencies, followAnswer } from '../record/follow-answer.ts';
import { type RecordedExchange, readExchange, recordedFailure } from '../record/recorded-exchange.ts';
import { tell } from './settle.ts';

const HOLDS_FOR_MS = 24 * 60 * 60 * 1000;
const KEY = /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/;

/** @returns the exchange that has the key already; `left` when the client, or the gateway, waits no longer */
async function claimKey(
  { endpoint, request, record, client, admission }: Repeat,
  log: EventLog,
): Promise<RecordedExchange | 'claimed' | 'left'> {
  const key = request.headers['idempotency-key'] ?? '';
  if (!KEY.test(key)) {
    throw refusals.invalidRequest('An Idempotency-Key has 1 to 255 printable ASCII characters.', 'Idempotency-Key');
  }
  const stream = keyStream(key, endpoint, request);
  const requestDigest = createHash('sha256').update(request.body).digest('hex');
  const claim = idempotencyKeyClaimed.create({ exchangeId: record.id, requestDigest }, record.context);
  for (;;) {
    const newest = await newestEvent(stream, log);
    if (newest !== undefined && newest.at > wallClock() - HOLDS_FOR_MS) {
      const held = newest.data as z.infer<typeof idempotencyKeyClaimed.data>;
      const earlier = await readExchange(streamName('exchange', held.exchangeId), log);
      if (earlier !== undefined && isRunningOrAnswered(earlier)) {
        if (held.requestDigest !== requestDigest) throw refusals.idempotencyKeyReused();
        return earlier;
      }
    }
    await admission.admit();
    const expectedRevision = newest === undefined ? 'noStream' : newest.revision;
    if (await record.flushIf({ stream, events: [claim], expectedRevision })) return 'claimed';
    admission.giveBack();
    // Somebody else was faster; who it was can be read as soon as it is on disk.
    await untilMoved(stream, newest?.revision, log, client.ended);
    if (client.ended.aborted) return 'left';
  }
}

/** Callers are strangers to one another: a key means something only to whoever chose it. */
function keyStream(key: string, endpoint: string, { caller }: ModelRequest): StreamName {
  const scope = JSON.stringify([caller.actor, caller.userPath ?? null, endpoint, key]);
  return streamName('idempotency', createHash('sha256').update(scope).digest('hex'));
}

function isRunningOrAnswered({ end }: RecordedExchange): boolean {
  return end === undefined || end.type === exchangeCompleted.type;
}

export interface Repeat {
  readonly endpoint: string;
  /** `request.received` is noted in it, and recorded with the claim. */
  readonly record: ExchangeRecord;
  readonly request: ModelRequest;
  readonly client: Client;
  readonly admission: {
    /** Called when there is no answer to give again, before anything is recorded. @throws Refusal when it is not admitted */
    admit(): Promise<void>;
    /** Another request has claimed the key. */
    giveBack(): void;
  };
}

/**
 * Gives the answer again that was given under the request's key, following it while it is still being made.
 * @returns the status it was given with; undefined when there is none, and the key is claimed for this exchange
 * @throws Refusal when the key is none, was used for another request, or its answer was not kept or deleted;
 *   LogUnavailable
 */
export async function answerUnderKey(repeat: Repeat, deps: FollowDependencies): Promise<number | undefined> {
  for (;;) {
    const earlier = await claimKey(repeat, deps.log);
    if (earlier === 'claimed') return undefined;
    if (earlier === 'left') return endEarly(repeat, 0);
    const status = await giveAgain(earlier, repeat, deps);
    if (status !== undefined) return status;
  }
}

/** @returns its status; undefined when it came to nothing before the client got a byte */
async function giveAgain(
  earlier: RecordedExchange,
  repeat: Repeat,
  deps: FollowDependencies,
): Promise<number | undefined> {
  const { record, request, client } = repeat;
  const isStream = earlier.request.stream;
  const headers: Record<string, string> = {
    'content-type': isStream ? 'text/event-stream; charset=utf-8' : 'application/json',
    'x-request-id': request.requestId,
    'x-exchange-id': record.id,
    'idempotent-replayed': 'true',
  };
  addRequestedModel(headers, earlier.request.model ?? '');
  const note = () => record.note(answerReplayed.create({ exchangeId: earlier.id }, record.context));
  const given = async (bytes: number): Promise<void> => {
    const received = { chunks: 0, bytes, firstByteMs: undefined };
    const { attempt = 1, provider = '', model } = earlier.attempt ?? {};
    events.noteCompleted(record, received, { status: 200, attempt, provider, model, finishReason: null });
    await record.flush('durable');
  };

  await refuseDeleted(earlier, deps.archive);
  const promised = isStream ? undefined : await promisedResponse(earlier, deps.archive);
  if (promised !== undefined) {
    note();
    await given(promised.length);
    client.answer(200, headers, promised);
    return 200;
  }
  let held: Buffer | undefined;
  let bytes = 0;
  for await (const part of followAnswer(earlier.id, deps, client.ended)) {
    if (part.kind === 'bytes') {
      bytes += part.bytes.length;
      // The newest piece waits: the last one leaves only when everything is on disk.
      const before = held;
      held = part.bytes;
      if (before === undefined) {
        note();
        await record.flush('written');
      } else {
        if (!client.begun) client.begin(200, headers);
        await client.write(before);
      }
      continue;
    }
    if (held === undefined && !part.complete) return undefined;
    if (held === undefined) throw refusals.answerNotKept();
    if (part.complete) await given(bytes);
    else await brokenOff(part.exchange, record);
    if (!isStream) {
      client.answer(200, headers, held);
      return 200;
    }
    if (!client.begun) client.begin(200, headers);
    client.write(held);
    client.end();
    return 200;
  }
  if (held === undefined) note();
  return endEarly(repeat, bytes);
}

/** It was followed to where it broke off. */
async function brokenOff(earlier: RecordedExchange, record: ExchangeRecord): Promise<void> {
  const refusal = recordedFailure(earlier)?.refusal ?? streamIncomplete(earlier.attempt?.provider ?? '');
  events.noteFailed(record, refusal, { status: 200, reason: 'stream_broken', chunks: 0 });
  await record.flush('durable');
}

/** The client left, or the gateway stops. */
async function endEarly(
  { record, request, client }: Pick<Repeat, 'record' | 'request' | 'client'>,
  bytes: number,
): Promise<number> {
  if (client.ended.reason === 'client_gone') {
    events.noteDisconnected(record, { chunks: 0, bytes, firstByteMs: undefined });
    await record.flush('durable');
    return 499;
  }
  const refusal = gatewayStopping();
  const status = client.begun ? 200 : refusal.status;
  events.noteFailed(record, refusal, { status, reason: 'gateway_stopped', chunks: 0 });
  await record.flush('durable');
  return tell({ record, request, client }, refusal);
}

/** What its client had deleted is not given again. @throws Refusal (404) */
async function refuseDeleted({ end }: RecordedExchange, archive: ResponseArchive): Promise<void> {
  if (end?.type !== exchangeCompleted.type) return;
  const { responseId } = end.data as z.infer<typeof exchangeCompleted.data>;
  if (responseId === undefined || (await archive.find(responseId, everything)) !== undefined) return;
  throw refusals.responseNotFound(responseId);
}

/** What a background request was answered with, as it stands now. */
async function promisedResponse(earlier: RecordedExchange, archive: ResponseArchive): Promise<Buffer | undefined> {
  if (earlier.request.dialect !== 'responses') return undefined;
  const stored = await archive.find(responseIdOf(earlier.id), everything);
  return stored?.response.background === true ? Buffer.from(JSON.stringify(stored.response)) : undefined;
}
