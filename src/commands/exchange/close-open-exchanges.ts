/**
 * After a crash: exchanges that began and never ended are ended now, so that nothing in the log stays open for ever.
 * What the provider said is in the log, so it is put through the same relay once more. If it had said its last word,
 * the exchange is complete; if not, it failed, and a response is kept as `incomplete`, as far as it had come.
 */
import type { z } from 'zod';
import {
  attemptStarted,
  chunkReceived,
  clientDisconnected,
  exchangeCompleted,
  exchangeFailed,
  requestReceived,
  requestRefused,
  usageRecorded,
} from '../../events/catalogue/exchange.ts';
import { idOf, type RecordedEvent, type StreamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { createFrameSplitter } from '../../providers/sse.ts';
import { parseChatRequest } from '../chat/chat-request.ts';
import { parseEmbeddingsRequest } from '../embeddings/embeddings-request.ts';
import { Refusal } from '../refusal.ts';
import { parseCreateResponse } from '../responses/create-request.ts';
import { storedInputItems } from '../responses/input-items.ts';
import { clientWantsUsage, type Parsed, readWith } from './chat-dialect.ts';
import type { Asked } from './dialect.ts';
import * as events from './end-events.ts';
import { ExchangeRecord } from './exchange-record.ts';
import type { Relay } from './relay.ts';
import { ChatRelay, parseChunk } from './relay-chat.ts';
import { TranslatedChatRelay } from './relay-chat-translated.ts';
import { PassthroughRelay } from './relay-passthrough.ts';
import { NativeResponsesRelay } from './relay-responses-native.ts';
import { TranslatedResponsesRelay } from './relay-responses-translated.ts';
import { responseIdOf, shellOf } from './responses-dialect.ts';
import { previousResponseOf } from './settle.ts';
import { chatAnswerFacts, chatReader } from './upstream-chat.ts';

const MAX_FRAME_BYTES = 16 * 1024 * 1024;

const REFUSALS = {
  gateway_stopped: new Refusal({
    status: 503,
    type: 'internal_error',
    code: 'gateway_stopped',
    message: 'The gateway stopped without warning in the middle of this exchange.',
  }),
  log_unavailable: new Refusal({
    status: 503,
    type: 'internal_error',
    code: 'log_unavailable',
    message: 'The event log could not be written any more in the middle of this exchange.',
  }),
};

const ENDPOINTS = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  embeddings: '/v1/embeddings',
  messages: '/v1/messages',
  forward: '/v1',
  passthrough: '/p',
} as const;

/** Why they were left open. */
export type LeftOpen = 'gateway_stopped' | 'log_unavailable';

/** @throws LogUnavailable */
export async function closeOpenExchanges(streams: Iterable<StreamName>, log: EventLog, why: LeftOpen): Promise<void> {
  for (const stream of streams) await closeExchange(stream, log, why);
}

interface Begun {
  readonly id: string;
  readonly received: RecordedEvent;
  readonly request: z.infer<typeof requestReceived.data>;
  readonly attempt: z.infer<typeof attemptStarted.data> | undefined;
  /** Of the last attempt. */
  readonly chunks: readonly RecordedEvent[];
  readonly last: RecordedEvent;
}

async function closeExchange(stream: StreamName, log: EventLog, why: LeftOpen): Promise<void> {
  const begun = await readBegun(stream, log);
  if (begun === undefined) return;
  const { id, received, request, attempt, chunks, last } = begun;
  const context = { ...received.context, actor: 'system' as const };
  const elapsedMs = Math.max(0, last.at - received.at);
  const record = new ExchangeRecord(log, id, context, { lastRevision: last.revision, elapsedMs });
  const asked = received.body === undefined ? undefined : readAsked(request.dialect, received.body);
  const relay = attempt === undefined || asked === undefined ? undefined : relayOf(begun, attempt, asked);
  const replayed = relay === undefined ? { ended: false } : replay(relay, chunks, asked?.stream === true);
  const responseId = relay === undefined || asked === undefined ? undefined : noteResponse(begun, relay, asked, record);

  const counted = { chunks: chunks.length, bytes: sizeOf(chunks), firstByteMs: undefined };
  if (replayed.ended && attempt !== undefined && relay !== undefined) {
    const translated = attempt.dialect !== request.dialect && responseId === undefined;
    const json = translated ? relay.response()?.json : undefined;
    events.noteCompleted(record, counted, {
      status: 200,
      attempt: attempt.attempt,
      provider: attempt.provider,
      model: attempt.model,
      finishReason: relay.finishReason(),
      responseId,
      answer: json === undefined ? undefined : Buffer.from(json),
    });
  } else {
    const status = chunks.length > 0 ? 200 : 0;
    events.noteFailed(record, REFUSALS[why], {
      status,
      reason: why,
      chunks: chunks.length,
      responseId,
    });
  }
  if (attempt !== undefined && relay !== undefined && chunks.length > 0) {
    const { provider, providerType, model = '' } = attempt;
    const endpoint = ENDPOINTS[request.dialect];
    events.noteUsage(record, { provider, providerType, model, endpoint, usage: relay.usage() });
  }
  await record.flush('durable');
}

async function readBegun(stream: StreamName, log: EventLog): Promise<Begun | undefined> {
  let received: RecordedEvent | undefined;
  let attempt: Begun['attempt'];
  let last: RecordedEvent | undefined;
  let chunks: RecordedEvent[] = [];
  for await (const event of log.readStream(stream)) {
    last = event;
    if (event.type === requestReceived.type) received = event;
    if (event.type === chunkReceived.type) chunks.push(event);
    if (event.type === attemptStarted.type) {
      attempt = event.data as Begun['attempt'];
      chunks = [];
    }
  }
  if (last === undefined || received === undefined || ENDS.has(last.type)) return undefined;
  const request = received.data as Begun['request'];
  return { id: idOf(stream), received, request, attempt, chunks, last };
}

/** What an exchange can end with; usage may follow it, in the same append. */
const ENDS: ReadonlySet<string> = new Set([
  requestRefused.type,
  exchangeCompleted.type,
  exchangeFailed.type,
  clientDisconnected.type,
  usageRecorded.type,
]);

const PARSERS = new Map<Begun['request']['dialect'], (json: unknown) => Parsed>([
  ['chat', parseChatRequest],
  ['responses', parseCreateResponse],
  ['embeddings', parseEmbeddingsRequest],
]);

function readAsked(dialect: Begun['request']['dialect'], body: Uint8Array): Asked | undefined {
  const parser = PARSERS.get(dialect);
  if (parser === undefined) return undefined;
  try {
    const read = readWith(parser(JSON.parse(new TextDecoder().decode(body))));
    return read.ok ? read.asked : undefined;
  } catch {
    return undefined;
  }
}

/** The relay that the exchange had, with everything it knew then. */
function relayOf({ id, received, request }: Begun, attempt: NonNullable<Begun['attempt']>, asked: Asked): Relay {
  const provider = { name: attempt.provider };
  const createdAt = Math.floor(received.at / 1000);
  const facts = chatAnswerFacts(id, asked.model, createdAt);
  const reader = () => chatReader(attempt.dialect, facts);
  if (request.dialect === 'chat') {
    return attempt.dialect === 'chat'
      ? new ChatRelay(provider, true)
      : new TranslatedChatRelay(provider, reader(), clientWantsUsage(asked));
  }
  if (request.dialect === 'embeddings') return new PassthroughRelay();
  if (attempt.dialect === 'responses') return new NativeResponsesRelay(provider);
  const shell = shellOf(asked, { id: responseIdOf(id), createdAt, provider: provider.name });
  return new TranslatedResponsesRelay(provider, reader(), shell, () => createdAt);
}

/** @returns whether the provider had said its last word */
function replay(relay: Relay, chunks: readonly RecordedEvent[], stream: boolean): { ended: boolean } {
  try {
    if (!stream) {
      const [only] = chunks;
      if (only?.body === undefined) return { ended: false };
      const bytes = bufferOf(only.body);
      relay.whole(bytes, parseChunk(bytes.toString()));
      return { ended: true };
    }
    let ended = false;
    const splitter = createFrameSplitter({ maxFrameBytes: MAX_FRAME_BYTES });
    for (const { body } of chunks) {
      if (body === undefined) continue;
      for (const frame of splitter.push(bufferOf(body))) {
        const answer = relay.frame(frame);
        if (answer.refusal !== undefined) return { ended: false };
        ended ||= answer.terminal;
      }
    }
    if (ended) relay.finish();
    else relay.abandon();
    return { ended };
  } catch (error) {
    if (error instanceof Refusal) return { ended: false };
    throw error;
  }
}

function noteResponse(begun: Begun, relay: Relay, asked: Asked, record: ExchangeRecord): string | undefined {
  const { attempt, chunks, request } = begun;
  if (request.dialect !== 'responses' || attempt === undefined) return undefined;
  if (chunks.length === 0 || asked.json.store === false) return undefined;
  const stored = relay.response();
  if (stored === undefined) return undefined;
  const { provider, providerType, model = '' } = attempt;
  events.noteResponse(record, stored, {
    provider,
    providerType,
    model,
    native: attempt.dialect === 'responses',
    previousResponseId: previousResponseOf(asked),
    inputItems: JSON.stringify(storedInputItems(asked.json.input, stored.id)),
  });
  return stored.id;
}

function sizeOf(chunks: readonly RecordedEvent[]): number {
  return chunks.reduce((bytes, { body }) => bytes + (body?.length ?? 0), 0);
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
