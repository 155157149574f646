/**
 * After a crash: exchanges that began and never ended are ended now, so that nothing in the log stays open for ever,
 * and a response that was being streamed is kept as `incomplete`, as far as it had come.
 */
import type { z } from 'zod';
import { attemptStarted, chunkReceived, exchangeFailed, requestReceived } from '../../events/catalogue/exchange.ts';
import { idOf, type RecordedEvent, type StreamName } from '../../events/event.ts';
import type { EventLog, StreamWrite } from '../../events/log.ts';
import { createFrameSplitter } from '../../providers/sse.ts';
import { parseCreateResponse } from '../responses/create-request.ts';
import { storedInputItems } from '../responses/input-items.ts';
import { readWith } from './chat-dialect.ts';
import type { Asked } from './dialect.ts';
import type { Relay } from './relay.ts';
import { NativeResponsesRelay } from './relay-responses-native.ts';
import { TranslatedResponsesRelay } from './relay-responses-translated.ts';
import { responseIdOf, shellOf } from './responses-dialect.ts';
import { storedResponseWrite } from './settle.ts';

const MAX_FRAME_BYTES = 16 * 1024 * 1024;

/** @returns how many were closed */
export async function closeOpenExchanges(streams: readonly StreamName[], log: EventLog): Promise<number> {
  for (const stream of streams) await closeExchange(stream, log);
  return streams.length;
}

type Attempt = z.infer<typeof attemptStarted.data>;

async function closeExchange(stream: StreamName, log: EventLog): Promise<void> {
  let received: RecordedEvent | undefined;
  let attempt: Attempt | undefined;
  let last: RecordedEvent | undefined;
  let chunks: RecordedEvent[] = [];
  let chunkCount = 0;
  for await (const event of log.readStream(stream)) {
    last = event;
    if (event.type === requestReceived.type) received = event;
    if (event.type === attemptStarted.type) {
      attempt = event.data as Attempt;
      chunks = [];
    }
    if (event.type === chunkReceived.type) {
      chunks.push(event);
      chunkCount += 1;
    }
  }
  if (last === undefined || received === undefined) return;
  const context = { ...received.context, actor: 'system' as const };
  const response = responseSoFar(idOf(stream), received, attempt, chunks);
  const write: StreamWrite = {
    stream,
    expectedRevision: last.revision,
    events: [
      exchangeFailed.create(
        {
          status: chunkCount > 0 ? 200 : 0,
          type: 'internal_error',
          code: 'gateway_stopped',
          message: 'The gateway stopped without warning in the middle of this exchange.',
          reason: 'gateway_stopped',
          chunks: chunkCount,
          durationMs: Math.max(0, last.at - received.at),
          responseId: response?.id,
        },
        context,
      ),
    ],
  };
  await log.append(response === undefined ? [write] : [write, response.write]);
}

/** The stored form of a response that had begun, or undefined when there is nothing to keep. */
function responseSoFar(
  exchangeId: string,
  received: RecordedEvent,
  attempt: Attempt | undefined,
  chunks: readonly RecordedEvent[],
): { id: string; write: StreamWrite } | undefined {
  if (attempt === undefined || chunks.length === 0 || received.body === undefined) return undefined;
  const { dialect } = received.data as z.infer<typeof requestReceived.data>;
  if (dialect !== 'responses') return undefined;
  const asked = askedOf(received.body);
  if (asked === undefined || !asked.stream || asked.json.store === false) return undefined;
  const { provider, providerType, model = '' } = attempt;
  const native = attempt.dialect === 'responses';
  const createdAt = Math.floor(received.at / 1000);
  const relay: Relay = native
    ? new NativeResponsesRelay({ name: provider })
    : new TranslatedResponsesRelay(
        { name: provider },
        shellOf(asked, { id: responseIdOf(exchangeId), createdAt, provider }),
        () => createdAt,
      );
  for (const { body } of chunks) {
    if (body === undefined) continue;
    const splitter = createFrameSplitter({ maxFrameBytes: MAX_FRAME_BYTES, provider });
    for (const frame of splitter.push(Buffer.from(body.buffer, body.byteOffset, body.byteLength))) relay.frame(frame);
  }
  relay.abandon();
  const stored = relay.response();
  if (stored === undefined) return undefined;
  const previous = asked.json.previous_response_id;
  const facts = {
    provider,
    providerType,
    model,
    native,
    previousResponseId: typeof previous === 'string' && previous !== '' ? previous : null,
  };
  const inputItems = JSON.stringify(storedInputItems(asked.json.input, stored.id));
  return { id: stored.id, write: storedResponseWrite(exchangeId, received.context, stored, facts, inputItems) };
}

function askedOf(body: Uint8Array): Asked | undefined {
  try {
    const read = readWith(parseCreateResponse(JSON.parse(new TextDecoder().decode(body))));
    return read.ok ? read.asked : undefined;
  } catch {
    return undefined;
  }
}
