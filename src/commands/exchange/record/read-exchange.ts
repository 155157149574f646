/**
 * An exchange as it is recorded, and the response stream of its last attempt, through which the provider's bytes can pass
 * again.
 */
import { z } from 'zod';
import { cacheHit } from '../../../events/catalogue/cache.ts';
import {
  answerReplayed,
  attemptFailed,
  attemptStarted,
  chunkReceived,
  costReserved,
  exchangeEnds,
  exchangeFailed,
  historyReplayed,
  requestReceived,
  toolCallBegun,
  toolCallEnded,
  usageRecorded,
} from '../../../events/catalogue/exchange.ts';
import { pluginApplied } from '../../../events/catalogue/gateway.ts';
import { frameDelivered, placeholdersAssigned } from '../../../events/catalogue/guardrail.ts';
import { idOf, type RecordedEvent, type StreamName } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import { parseExactly } from '../../../json/exact-json.ts';
import type { RecordedPlaceholder } from '../../guardrails/placeholders.ts';
import type { ParsedRequest } from '../../model-request/model-request.ts';
import type { EarlyEnd } from '../../model-request/upstream-refusals.ts';
import { Refusal } from '../../refusal.ts';
import type { ExchangeDialect, MadeOutput } from '../dialect.ts';
import { type AppliedPlugin, changedHeaders } from '../request-plugin.ts';
import type { AnswerStream } from '../response-stream.ts';

export type Dialects = ReadonlyMap<string, ExchangeDialect>;

type Attempt = z.infer<typeof attemptStarted.data>;

export interface RecordedExchange {
  readonly id: string;
  readonly received: RecordedEvent;
  readonly request: z.infer<typeof requestReceived.data>;
  /** The last attempt. */
  readonly attempt: Attempt | undefined;
  /** Whether the attempt has not failed. */
  readonly isUnderWay: boolean;
  /** Whether budgets had reserved its cost. */
  readonly isReserved: boolean;
  /** Chunks of the last attempt; of a realtime session those after the last usage. */
  readonly chunks: readonly RecordedEvent[];
  /** Beginnings and ends of the calls of tools that the gateway made for the response. */
  readonly toolCalls: readonly RecordedEvent[];
  /** What the client got of the last attempt, where guardrails evaluated it. */
  readonly delivered: readonly RecordedEvent[];
  /** The values that guardrails kept from providers. */
  readonly placeholders: RecordedEvent | undefined;
  /** What plugins changed in the request. */
  readonly plugins: readonly AppliedPlugin[];
  /** Whether earlier turns were put in front of the input, in the last attempt. */
  readonly historyReplayed: boolean;
  /**
   * Whether earlier turns were put in front of the input after the last attempt began; they then belong to the next
   * attempt.
   */
  readonly replayedSince: boolean;
  /** The exchange whose recorded answer was sent instead of a new one. */
  readonly answerOf: string | undefined;
  /** The cached answer that was sent; undefined for other answers. */
  readonly hit: z.infer<typeof cacheHit.data> | undefined;
  /** The event that ended the exchange; undefined while it has not ended. */
  readonly end: RecordedEvent | undefined;
  readonly last: RecordedEvent;
}

/** Undefined when there is no such exchange. */
export async function readExchange(stream: StreamName, log: EventLog): Promise<RecordedExchange | undefined> {
  let recorded: RecordedExchange | undefined;
  for await (const event of log.readStream(stream)) recorded = withEvent(recorded, event);
  return recorded;
}

/** The recorded exchange with one more event. Chunks are collected in place, because an exchange may have many. */
export function withEvent(recorded: RecordedExchange | undefined, event: RecordedEvent): RecordedExchange | undefined {
  if (event.type === requestReceived.type) {
    const request = event.data as RecordedExchange['request'];
    const id = idOf(event.stream);
    const nothing = {
      attempt: undefined,
      isUnderWay: false,
      isReserved: false,
      chunks: [],
      delivered: [],
      toolCalls: [],
      plugins: [],
      answerOf: undefined,
      hit: undefined,
      end: undefined,
    };
    const notReplayed = { historyReplayed: false, replayedSince: false, placeholders: undefined };
    return { ...nothing, ...notReplayed, id, received: event, request, last: event };
  }
  if (recorded === undefined) return undefined;
  switch (event.type) {
    case chunkReceived.type:
      return { ...recorded, chunks: appended(recorded.chunks, event), last: event };
    case toolCallBegun.type:
    case toolCallEnded.type:
      return { ...recorded, toolCalls: [...recorded.toolCalls, event], last: event };
    case frameDelivered.type:
      return { ...recorded, delivered: appended(recorded.delivered, event), last: event };
    case placeholdersAssigned.type:
      return { ...recorded, placeholders: event, last: event };
    case pluginApplied.type:
      return { ...recorded, plugins: [...recorded.plugins, event.data as AppliedPlugin], last: event };
    case attemptStarted.type: {
      const attempt = event.data as Attempt;
      // Each provider gets the turns that it does not have; those sent to the previous provider do not count for this
      // one.
      const isReplayed = attempt.kind === 'failover' ? recorded.replayedSince : recorded.historyReplayed;
      const begun = {
        attempt,
        isUnderWay: true,
        isReserved: recorded.isReserved || Number(attempt.reservedCost ?? 0) > 0,
        chunks: [],
        delivered: [],
        historyReplayed: isReplayed,
        replayedSince: false,
      };
      return { ...recorded, ...begun, last: event };
    }
    case costReserved.type:
      return { ...recorded, isReserved: true, last: event };
    case attemptFailed.type:
      return { ...recorded, isUnderWay: false, last: event };
    case historyReplayed.type:
      return { ...recorded, historyReplayed: true, replayedSince: true, last: event };
    case answerReplayed.type:
      return { ...recorded, answerOf: (event.data as z.infer<typeof answerReplayed.data>).exchangeId, last: event };
    case cacheHit.type:
      return { ...recorded, hit: event.data as RecordedExchange['hit'], last: event };
    case usageRecorded.type:
      // A session may be long, and its usage is charged while it goes on.
      return { ...recorded, ...(recorded.request.dialect === 'realtime' && { chunks: [] }), last: event };
    default:
      return exchangeEnds.has(event.type) ? { ...recorded, end: event, last: event } : { ...recorded, last: event };
  }
}

/** Undefined when a call was recorded without the output. */
export function outputMade({ toolCalls }: Pick<RecordedExchange, 'toolCalls'>): MadeOutput | undefined {
  const items: Record<string, unknown>[] = [];
  let usage: unknown = null;
  for (const { body } of toolCalls) {
    if (body === undefined) return undefined;
    const step = recordedStep.parse(parseExactly(new TextDecoder().decode(body)));
    for (const [index, item] of step.items) items[index] = item;
    usage = step.usage;
  }
  return { items: items.filter((item) => item !== undefined), usage };
}

const recordedStep = z.object({
  items: z.array(z.tuple([z.number(), z.record(z.string(), z.unknown())])),
  usage: z.unknown(),
});

function appended(chunks: readonly RecordedEvent[], chunk: RecordedEvent): readonly RecordedEvent[] {
  (chunks as RecordedEvent[]).push(chunk);
  return chunks;
}

/**
 * Whether the client gets what the guardrails let pass: the recorded frames or the recorded answer, and never the
 * provider's chunks.
 */
export function isGuarded({ attempt, delivered }: Pick<RecordedExchange, 'attempt' | 'delivered'>): boolean {
  return attempt?.guarded === true || delivered.length > 0;
}

const recordedPlaceholders = z.array(z.object({ placeholder: z.string(), value: z.string() }));

export function placeholdersIn({
  placeholders,
}: Pick<RecordedExchange, 'placeholders'>): readonly RecordedPlaceholder[] {
  if (placeholders?.body === undefined) return [];
  return recordedPlaceholders.parse(parseExactly(new TextDecoder().decode(placeholders.body)));
}

/** The reason of a failed exchange and the error that its client got; undefined when it ended in another way. */
export function recordedFailure({ end, attempt }: Pick<RecordedExchange, 'end' | 'attempt'>) {
  if (end?.type !== exchangeFailed.type) return undefined;
  const { reason, status, type, code, message } = end.data as z.infer<typeof exchangeFailed.data>;
  const provider = OWN_ENDS.has(reason) ? undefined : attempt?.provider;
  return { reason, refusal: new Refusal({ status, type: type as Refusal['type'], code, message, provider }) };
}

/** Failure reasons that no provider caused. */
const OWN_ENDS: ReadonlySet<string> = new Set(['gateway_stopped', 'log_unavailable', 'cancelled']);

/** How an exchange that failed for a reason of the gateway ended its response. */
export function earlyEndOf({ reason, refusal }: NonNullable<ReturnType<typeof recordedFailure>>): EarlyEnd {
  return { refusal, status: reason === 'cancelled' ? 'cancelled' : 'failed' };
}

/** The request parsed again from the record; undefined when its body was not kept or no given dialect reads it. */
export function parsedRequestOf(
  { request, received }: RecordedExchange,
  dialects: Dialects,
): ParsedRequest | undefined {
  const dialect = dialects.get(request.dialect);
  if (dialect === undefined || received.body === undefined) return undefined;
  try {
    const read = dialect.read(parseExactly(new TextDecoder().decode(received.body)));
    return read.ok ? read.parsedRequest : undefined;
  } catch {
    return undefined;
  }
}

/** The client's headers, with what plugins changed in them. */
export function clientHeadersOf({
  request,
  plugins,
}: Pick<RecordedExchange, 'request' | 'plugins'>): Record<string, string> {
  return plugins.reduce(changedHeaders, request.headers);
}

/** A new response stream in the state in which the last attempt began. */
export function streamOfRecorded(
  recorded: RecordedExchange,
  parsedRequest: ParsedRequest,
  dialects: Dialects,
  /** Unix seconds at which the answer ended, once that is known. */
  completedAt?: () => number | undefined,
): AnswerStream | undefined {
  const { id, received, request, attempt, historyReplayed } = recorded;
  const dialect = dialects.get(request.dialect);
  if (dialect === undefined || attempt === undefined) return undefined;
  const createdAt = Math.floor(received.at / 1000);
  return dialect.streamOfRecorded({
    parsedRequest,
    clientHeaders: clientHeadersOf(recorded),
    exchangeId: id,
    createdAt,
    provider: { name: attempt.provider },
    providerType: attempt.providerType,
    model: attempt.model ?? '',
    dialect: attempt.dialect,
    calls: attempt.calls,
    historyReplayed,
    now: () => completedAt?.() ?? createdAt,
  });
}
