/**
 * Open exchanges, reduced to the values of their row in `exchanges`. An exchange begins with its `request.received`;
 * its row is a function of its own events up to its end, and of nothing else.
 */
import type { z } from 'zod';
import { cacheHit } from '../../events/catalogue/cache.ts';
import type { usageRecorded } from '../../events/catalogue/exchange.ts';
import * as events from '../../events/catalogue/exchange.ts';
import { guardrailApplied } from '../../events/catalogue/guardrail.ts';
import { targetOfTool, toolAnswered, toolCalled } from '../../events/catalogue/mcp.ts';
import type { RecordedEvent, StreamName } from '../../events/event.ts';
import { isPieceOfAnswer } from '../exchange-events.ts';
import { isA } from '../projection.ts';
import { type GuardrailSummary, withApplied } from '../request-preview.ts';

export interface AttemptFacts {
  readonly started: z.infer<typeof events.attemptStarted.data>;
  readonly at: number;
  failed?: z.infer<typeof events.attemptFailed.data>;
}

export interface ExchangeFacts {
  /** Position of the first event. */
  readonly first: number;
  readonly received: RecordedEvent<string, z.infer<typeof events.requestReceived.data>>;
  /** Of a call of a tool: the server and the tool. */
  resolved?: Pick<z.infer<typeof events.modelResolved.data>, 'provider' | 'providerType' | 'model' | 'through'>;
  toolAnswer?: z.infer<typeof toolAnswered.data>;
  readonly attempts: AttemptFacts[];
  historyItems: number;
  resumed: number;
  /** The exchange whose answer was returned again, by an idempotency key or from the response cache. */
  replayedFrom: string;
  cacheType: string;
  usage?: ExchangeUsage;
  /** Undefined when no guardrail ran. */
  guardrails?: GuardrailSummary;
  /** The cost becomes known later, after the row has been written. */
  isDeferred: boolean;
  end?: ExchangeEnd;
}

export interface ExchangeEnd {
  readonly position: number;
  readonly at: number;
  readonly outcome: 'completed' | 'failed' | 'refused' | 'disconnected';
  readonly status: number;
  readonly durationMs: number;
  readonly error?: { readonly type: string; readonly code: string | null; readonly message: string };
  readonly failureReason?: string;
  readonly completed?: z.infer<typeof events.exchangeCompleted.data>;
  readonly chunks: number;
  readonly bytes: number;
  readonly responseId?: string;
}

const CLIENT_LEFT = 499;

/**
 * An exchange ends in one append: its final event, then its usage. So it is finished once an event of another stream
 * follows, or the log has been read to its end: then all of that append has been read.
 */
export class ExchangeFold {
  readonly #open = new Map<StreamName, ExchangeFacts>();
  #ending: ExchangeFacts | undefined;
  #endingStream: StreamName | undefined;

  /** Whether the final event of an exchange was read and its usage may still follow. */
  get isEnding(): boolean {
    return this.#ending !== undefined;
  }

  /** Position of the first event of the oldest exchange that is open; undefined when none is. */
  get oldest(): number | undefined {
    // A map is in the order of insertion, which is that of the log.
    for (const exchange of this.#open.values()) return exchange.first;
    return undefined;
  }

  /** The state of an open exchange; undefined when it is finished or has not begun. */
  get(stream: StreamName): ExchangeFacts | undefined {
    return this.#open.get(stream);
  }

  /** @returns the exchange that this event shows to be finished */
  apply(event: RecordedEvent, position: number): ExchangeFacts | undefined {
    const finished = this.#endingStream === event.stream ? undefined : this.finish();
    if (!isPieceOfAnswer(event)) this.#tell(event, position);
    return finished;
  }

  /** To be called at the end of the log. @returns the exchange whose final event was read */
  finish(): ExchangeFacts | undefined {
    const finished = this.#ending;
    if (this.#endingStream !== undefined) this.#open.delete(this.#endingStream);
    this.#ending = undefined;
    this.#endingStream = undefined;
    return finished;
  }

  #tell(event: RecordedEvent, position: number): void {
    if (isA(event, events.requestReceived)) {
      const exchange: ExchangeFacts = {
        first: position,
        received: { ...event, body: undefined },
        attempts: [],
        historyItems: 0,
        resumed: 0,
        replayedFrom: '',
        cacheType: '',
        isDeferred: false,
      };
      this.#open.set(event.stream, exchange);
      return;
    }
    if (!event.stream.startsWith('exchange-')) return;
    const exchange = this.#open.get(event.stream);
    if (exchange === undefined) return;
    const end = exchange.end === undefined ? endOf(event, position) : undefined;
    if (end === undefined) noteEvent(exchange, event);
    else {
      exchange.end = end;
      this.#ending = exchange;
      this.#endingStream = event.stream;
    }
  }
}

function noteEvent(exchange: ExchangeFacts, event: RecordedEvent): void {
  if (isA(event, events.modelResolved)) exchange.resolved = event.data;
  else if (isA(event, toolCalled)) exchange.resolved = targetOfTool(event.data.server, event.data.tool);
  else if (isA(event, toolAnswered)) exchange.toolAnswer = event.data;
  else if (isA(event, events.attemptStarted)) exchange.attempts.push({ started: event.data, at: event.at });
  else if (isA(event, events.attemptFailed)) {
    const attempt = exchange.attempts.findLast(({ started }) => started.attempt === event.data.attempt);
    if (attempt !== undefined) attempt.failed = event.data;
  } else if (isA(event, events.historyReplayed)) exchange.historyItems += event.data.items;
  else if (isA(event, events.exchangeResumed)) exchange.resumed += 1;
  else if (isA(event, events.answerReplayed)) exchange.replayedFrom = event.data.exchangeId;
  else if (isA(event, cacheHit)) {
    exchange.replayedFrom = event.data.exchangeId;
    exchange.cacheType = event.data.cacheType;
  } else if (isA(event, guardrailApplied)) exchange.guardrails = withApplied(exchange.guardrails, event.data);
  else if (isA(event, events.usageDeferred)) exchange.isDeferred = true;
  else if (isA(event, events.usageRecorded) && !exchange.isDeferred)
    exchange.usage = usedInAll(exchange.usage, event.data);
}

function endOf(event: RecordedEvent, position: number): ExchangeEnd | undefined {
  const { at } = event;
  if (isA(event, events.exchangeCompleted)) {
    const { status, durationMs, chunks, bytes, responseId } = event.data;
    return { position, at, outcome: 'completed', status, durationMs, completed: event.data, chunks, bytes, responseId };
  }
  if (isA(event, events.exchangeFailed)) {
    const { status, durationMs, chunks, responseId, reason, ...error } = event.data;
    return {
      position,
      at,
      outcome: 'failed',
      status,
      durationMs,
      error,
      failureReason: reason,
      chunks,
      bytes: 0,
      responseId,
    };
  }
  if (isA(event, events.requestRefused)) {
    const { status, durationMs, ...error } = event.data;
    return { position, at, outcome: 'refused', status, durationMs, error, chunks: 0, bytes: 0 };
  }
  if (isA(event, events.clientDisconnected)) {
    const { durationMs, chunks, bytes, responseId } = event.data;
    return { position, at, outcome: 'disconnected', status: CLIENT_LEFT, durationMs, chunks, bytes, responseId };
  }
  return undefined;
}

/** The total usage of an exchange: its answer, and failed attempts that were charged. */
type Usage = z.infer<typeof usageRecorded.data>;

const counts = [
  'inputTokens',
  'outputTokens',
  'totalTokens',
  'cachedInputTokens',
  'cacheWriteInputTokens',
  'cacheWrite1hInputTokens',
  'reasoningTokens',
] as const;

type ExchangeUsage = Pick<Usage, (typeof counts)[number] | 'cacheType' | 'source'> & {
  /** Nano-dollars; null when the cost of one part is not known. */
  readonly totalCost: bigint | null;
};

/** @param before the usage so far; undefined for the first */
function usedInAll(before: ExchangeUsage | undefined, data: Usage): ExchangeUsage {
  const cost = data.totalCost === null || data.totalCost === undefined ? null : BigInt(data.totalCost);
  if (before === undefined) return { ...data, totalCost: cost };
  const sums = Object.fromEntries(counts.map((count) => [count, sum(before[count], data[count])]));
  return {
    ...before,
    ...sums,
    // The answer comes last, and its source counts.
    source: data.source,
    cacheType: data.cacheType ?? before.cacheType,
    totalCost: before.totalCost === null || cost === null ? null : before.totalCost + cost,
  };
}

function sum(before: number | null | undefined, more: number | null | undefined): number | null {
  return before == null && more == null ? null : (before ?? 0) + (more ?? 0);
}
