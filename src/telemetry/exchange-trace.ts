/**
 * The trace of one exchange (W3C Trace Context): the ids that must be known before its provider is called, and the facts from
 * which its spans are made when it has ended.
 */
import { randomFillSync } from 'node:crypto';
import type { z } from 'zod';
import type { ExchangeTrace } from '../commands/exchange/exchange-record.ts';
import type { ExchangeSummary } from '../commands/exchange/pipeline/dependencies.ts';
import type { ModelRequest } from '../commands/model-request/model-request.ts';
import type { EventDefinition } from '../events/catalogue/define.ts';
import * as exchange from '../events/catalogue/exchange.ts';
import { guardrailApplied } from '../events/catalogue/guardrail.ts';
import type { EpochMs, NewEvent } from '../events/event.ts';
import { wallClock } from '../events/event-id.ts';
import { AnswerText } from '../projections/request-preview.ts';

/** A span of another program, or of another exchange of this gateway. */
export interface TraceContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

/** A step for which the exchange waited. Times are milliseconds since it began. */
export interface WaitedStep {
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly isFailed: boolean;
}

export interface NotedEvent<Data extends object = object> {
  readonly at: number;
  readonly type: string;
  readonly data: Data;
}

/** Those of the events that are of this definition. */
export function eventsOf<Type extends string, Schema extends z.ZodObject>(
  events: readonly NotedEvent[],
  { type }: EventDefinition<Type, Schema>,
) {
  return events.filter((event): event is NotedEvent<z.infer<Schema>> => event.type === type);
}

/** An exchange that has ended. */
export interface TracedExchange extends ExchangeSummary, TraceContext {
  readonly request: ModelRequest;
  readonly parentSpanId: string | undefined;
  readonly hasRemoteParent: boolean;
  /** The client's `tracestate`, of other programs. */
  readonly state: string | undefined;
  readonly startedAt: EpochMs;
  readonly steps: readonly WaitedStep[];
  readonly events: readonly NotedEvent[];
  /** Where messages are exported: the body of the request as guardrails let it pass, and text or JSON of the answer. */
  readonly content: { readonly request: Uint8Array | undefined; readonly answer: unknown } | undefined;
}

/** The events that spans are made of. */
const noted: ReadonlySet<string> = new Set(
  [
    ...[exchange.requestReceived, exchange.attemptStarted, exchange.attemptFailed, guardrailApplied],
    ...[exchange.exchangeCompleted, exchange.exchangeFailed, exchange.requestRefused, exchange.clientDisconnected],
    exchange.usageRecorded,
  ].map(({ type }) => type),
);

/** A step that took less has waited for nothing, and has no span. */
const MIN_STEP_MS = 0.1;
/** Of one exchange; a request needs far fewer. */
const MAX_SPANS = 128;
/** Of the messages of a request, and of those of an answer. */
const MAX_CONTENT_BYTES = 64 * 1024;

const pool = Buffer.alloc(24 * 256);
let poolUsed = pool.length;

/** @param bytes 8 for a span, 16 for a trace */
function randomId(bytes: number): string {
  if (poolUsed + bytes > pool.length) {
    randomFillSync(pool);
    poolUsed = 0;
  }
  poolUsed += bytes;
  return pool.toString('hex', poolUsed - bytes, poolUsed);
}

/** The spans of one exchange have consecutive ids. */
export function spanIdAt(spanId: string, place: number): string {
  if (place === 0) return spanId;
  const last = (Number.parseInt(spanId.slice(12), 16) + place) & 0xffff;
  return spanId.slice(0, 12) + last.toString(16).padStart(4, '0');
}

/** The parent that a client names; undefined for a header that is malformed, which is ignored. */
function contextOf(traceparent: string | undefined): TraceContext | undefined {
  if (traceparent === undefined) return undefined;
  const [, version, traceId = '', spanId = '', flags = ''] =
    /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(traceparent) ?? [];
  if (version === undefined || version === 'ff' || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

function traceparentOf({ traceId, spanId, isSampled }: TraceContext, place: number): string {
  return `00-${traceId}-${spanIdAt(spanId, place)}-${isSampled ? '01' : '00'}`;
}

export interface TraceSettings {
  /** Undefined where only metrics are exported. */
  readonly sampler: { readonly isParentBased: boolean; readonly ratio: number } | undefined;
  /** Whether the facts of exchanges without exported spans are needed. */
  readonly hasMetrics: boolean;
  readonly capturesContent: boolean;
}

export class TraceOfExchange implements ExchangeTrace {
  readonly traceparent: string | undefined;
  readonly context: TraceContext;
  readonly #began = performance.now();
  readonly #startedAt = wallClock();
  readonly #request: ModelRequest;
  readonly #settings: TraceSettings;
  readonly #parent: TraceContext | undefined;
  readonly #hasRemoteParent: boolean;
  readonly #state: string | undefined;
  /** The content of the last attempt, where it is exported. */
  #body: Uint8Array | undefined;
  #answer: AnswerText | undefined;
  readonly #steps: WaitedStep[] = [];
  readonly #events: NotedEvent[] = [];

  /** @param cause the exchange for which the gateway sends this request */
  constructor(request: ModelRequest, cause: TraceContext | undefined, settings: TraceSettings) {
    const { sampler } = settings;
    const parent = cause ?? contextOf(request.traceparent);
    const traceId = parent?.traceId ?? randomId(16);
    this.#request = request;
    this.#settings = settings;
    this.#parent = parent;
    this.#hasRemoteParent = parent !== undefined && cause === undefined;
    const { tracestate = '' } = request.headers;
    this.#state = this.#hasRemoteParent && /^[\x20-\x7e]{1,512}$/.test(tracestate) ? tracestate : undefined;
    // An id of which no consecutive one is zero.
    const spanId = `1${randomId(8).slice(1)}`;
    this.context = { traceId, spanId, isSampled: sampler !== undefined && isChosen(traceId, parent, sampler) };
    // A span that is not exported is no parent: where only metrics are, the client's own span stays it.
    this.traceparent = sampler === undefined ? request.traceparent : traceparentOf(this.context, 0);
  }

  get #elapsed(): number {
    return performance.now() - this.#began;
  }

  headersOf(attempt: number): Readonly<Record<string, string>> {
    if (this.traceparent === undefined) return {};
    if (this.#settings.sampler === undefined) return { traceparent: this.traceparent };
    const traceparent = traceparentOf(this.context, attempt);
    return this.#state === undefined ? { traceparent } : { traceparent, tracestate: this.#state };
  }

  async step<Result>(name: string, result: Promise<Result>): Promise<Result> {
    const from = this.#elapsed;
    let isFailed = true;
    try {
      const given = await result;
      isFailed = false;
      return given;
    } finally {
      const to = this.#elapsed;
      const hasWaited = to - from >= MIN_STEP_MS || isFailed;
      if (hasWaited && this.#steps.length < MAX_SPANS) this.#steps.push({ name, from, to, isFailed });
    }
  }

  noted({ type, data, body }: NewEvent): void {
    if (this.context.isSampled && this.#settings.capturesContent) this.#keep(type, body);
    if (noted.has(type) && this.#events.length < MAX_SPANS) this.#events.push({ at: this.#elapsed, type, data });
  }

  #keep(type: string, body: Uint8Array | undefined): void {
    if (type === exchange.attemptStarted.type) this.#answer = new AnswerText(MAX_CONTENT_BYTES);
    else if (body === undefined) return;
    else if (type === exchange.chunkReceived.type) this.#answer?.add(body);
    else if (type === exchange.requestReceived.type || type === guardrailApplied.type) this.#body = body;
  }

  /** Undefined where nothing of it is exported. */
  ended(summary: ExchangeSummary): TracedExchange | undefined {
    if (!this.context.isSampled && !this.#settings.hasMetrics) return undefined;
    const { traceId, spanId, isSampled } = this.context;
    return {
      ...summary,
      traceId,
      spanId,
      isSampled,
      request: this.#request,
      parentSpanId: this.#parent?.spanId,
      hasRemoteParent: this.#hasRemoteParent,
      state: this.#state,
      startedAt: this.#startedAt,
      steps: this.#steps,
      events: this.#events,
      content: this.#content(),
    };
  }

  /** Without an answer that guardrails evaluate: its frames restore what they have hidden, its chunks lack what they change. */
  #content(): TracedExchange['content'] {
    if (this.#answer === undefined) return undefined;
    const isGuarded = eventsOf(this.#events, exchange.attemptStarted).some(({ data }) => data.guarded === true);
    return {
      request: (this.#body?.length ?? 0) > MAX_CONTENT_BYTES ? undefined : this.#body,
      answer: isGuarded ? undefined : this.#answer.soFar()?.value,
    };
  }
}

/** By the last 56 bits of the trace id, so that all that use the same share choose the same traces. */
function isChosen(
  traceId: string,
  parent: TraceContext | undefined,
  { isParentBased, ratio }: NonNullable<TraceSettings['sampler']>,
): boolean {
  if (isParentBased && parent !== undefined) return parent.isSampled;
  return ratio === 1 || Number.parseInt(traceId.slice(18), 16) >= (1 - ratio) * 2 ** 56;
}
