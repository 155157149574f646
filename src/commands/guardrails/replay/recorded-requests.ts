/** The recorded requests of a range of time in the order of the log, read page by page. */
import { exchangeEnds, modelResolved, requestReceived, requestRefused } from '../../../events/catalogue/exchange.ts';
import { guardrailApplied } from '../../../events/catalogue/guardrail.ts';
import { type Position, parsePosition, type RecordedEvent, START, type StreamName } from '../../../events/event.ts';
import { type EventLog, positionAtTime } from '../../../events/log.ts';
import { parseExactly } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import { type RecordedExchange, withEvent } from '../../exchange/record/read-exchange.ts';
import { Refusal } from '../../refusal.ts';
import { loadChain, type ResponseArchive } from '../../responses/archive.ts';
import { mergeHistory } from '../../responses/history.ts';
import { everything } from '../../visibility.ts';
import { isAtOrBelow } from '../../workflows/workflow.ts';
import type { GuardedBody } from '../body/body-texts.ts';
import { type GuardedDialect, guardedBodies } from '../body/guarded-bodies.ts';

/** Times are milliseconds since the epoch: `from` inclusive, `until` exclusive. */
export interface ReplayRange {
  readonly from: number;
  readonly until: number;
  /** This path and everything below it. */
  readonly userPath?: string | undefined;
}

/** The part of the log in which the range lies. */
export interface LogRange {
  /** Exclusive. */
  readonly after: Position;
  /** Inclusive. */
  readonly last: Position;
}

/** Neighbouring events may be out of order by this time. */
const DISORDER_MS = 60_000;

export async function logRange({ from, until }: ReplayRange, log: EventLog): Promise<LogRange> {
  const head = await log.head();
  const [after, end] = await Promise.all([
    from <= DISORDER_MS ? START : positionAtTime(log, from - DISORDER_MS),
    positionAtTime(log, until + DISORDER_MS),
  ]);
  const isOpen = end > head;
  return { after, last: isOpen ? head : end };
}

/** How much of the range is before this event, from 0 to 1. */
export function placeIn({ after, last }: LogRange, { position }: Pick<RecordedEvent, 'position'>): number {
  const begin = parsePosition(after);
  const length = parsePosition(last) - begin;
  return length <= 0 ? 1 : Math.min(1, (parsePosition(position) - begin) / length);
}

/** @param after in place of the beginning of the range of the log */
export async function* requestsIn(
  range: ReplayRange,
  within: LogRange,
  { log, signal }: { readonly log: EventLog; readonly signal: AbortSignal },
  after: Position = within.after,
): AsyncGenerator<RecordedEvent> {
  const filter = { types: [requestReceived.type], streams: ['exchange-'] };
  for await (const event of log.readAll({ after, filter, signal })) {
    if (signal.aborted || event.position > within.last) return;
    if (isRequestIn(range, event)) yield event;
  }
}

/** Whether the event is a request of the range. */
function isRequestIn(range: ReplayRange, event: RecordedEvent): boolean {
  return event.type === requestReceived.type && isIn(range, event) && !isOwnCall(event);
}

function isIn({ from, until, userPath }: ReplayRange, { at, context }: RecordedEvent): boolean {
  if (at < from || at >= until) return false;
  return userPath === undefined || isAtOrBelow(context.userPath ?? '/', userPath);
}

/** No guardrails run for the calls of guardrails. */
function isOwnCall({ data }: RecordedEvent): boolean {
  return isObject(data) && data['origin'] !== undefined;
}

export interface ReplayedExchange {
  readonly recorded: RecordedExchange;
  /** Its whole stream. */
  readonly events: readonly RecordedEvent[];
  /** The first candidate of the request; undefined when it was refused before one was found. */
  readonly target: { readonly provider: string; readonly model: string } | undefined;
  /** Whether guardrails ran when the request was made. */
  readonly wasGuarded: boolean;
}

/** Undefined when the exchange is no longer in the log. */
export async function readReplayed(stream: StreamName, log: EventLog): Promise<ReplayedExchange | undefined> {
  const events: RecordedEvent[] = [];
  for await (const event of log.readStream(stream)) events.push(event);
  return replayedOf(events);
}

/** @param events of one exchange, from its beginning to its end or as far as there are any */
function replayedOf(events: readonly RecordedEvent[]): ReplayedExchange | undefined {
  let recorded: RecordedExchange | undefined;
  let target: ReplayedExchange['target'];
  let wasGuarded = false;
  for (const event of events) {
    recorded = withEvent(recorded, event);
    if (event.type === guardrailApplied.type) wasGuarded = true;
    if (event.type === modelResolved.type && target === undefined) {
      const { provider, model } = modelResolved.data.parse(event.data);
      target = { provider, model };
    }
  }
  return recorded === undefined ? undefined : { recorded, events, target, wasGuarded };
}

/**
 * The exchanges of a range in the order in which they began. The log is read once, in its order: the events of the
 * exchanges that have not ended yet are kept, up to a number of bytes. An exchange that does not end within them, or
 * within the range, is read by itself.
 */
interface ExchangesOptions {
  readonly log: EventLog;
  readonly signal: AbortSignal;
  letOthersWork(): Promise<void>;
  /** Default: 32 MiB. */
  readonly mostKeptBytes?: number | undefined;
}

interface KeptExchange {
  readonly events: RecordedEvent[];
  bytes: number;
  hasEnded: boolean;
}

const MOST_KEPT_BYTES = 32 * 1024 * 1024;
/** Of an event beside its body. */
const EVENT_BYTES = 1024;

export async function* exchangesIn(
  range: ReplayRange,
  within: LogRange,
  { log, signal, letOthersWork, mostKeptBytes = MOST_KEPT_BYTES }: ExchangesOptions,
): AsyncGenerator<ReplayedExchange> {
  const kept = new Map<StreamName, KeptExchange>();
  let bytes = 0;

  /** Takes the oldest exchange. */
  async function taken(): Promise<ReplayedExchange | undefined> {
    const [oldest] = kept;
    if (oldest === undefined) return undefined;
    const [stream, exchange] = oldest;
    kept.delete(stream);
    bytes -= exchange.bytes;
    return exchange.hasEnded ? replayedOf(exchange.events) : readReplayed(stream, log);
  }

  for await (const event of log.readAll({ after: within.after, filter: { streams: ['exchange-'] }, signal })) {
    await letOthersWork();
    if (signal.aborted || event.position > within.last) break;
    const { stream, type, body } = event;
    if (isRequestIn(range, event)) kept.set(stream, { events: [], bytes: 0, hasEnded: false });
    const exchange = kept.get(stream);
    if (exchange === undefined || exchange.hasEnded) continue;
    exchange.events.push(event);
    exchange.bytes += (body?.byteLength ?? 0) + EVENT_BYTES;
    bytes += (body?.byteLength ?? 0) + EVENT_BYTES;
    exchange.hasEnded = exchangeEnds.has(type);
    while (kept.values().next().value?.hasEnded === true || bytes > mostKeptBytes) {
      const next = await taken();
      if (next !== undefined) yield next;
    }
  }
  while (kept.size > 0 && !signal.aborted) {
    const next = await taken();
    if (next !== undefined) yield next;
  }
}

// The recorded body of a request as guardrails read it, with the earlier turns that it continues.

/** Why a request is not evaluated. */
export type RequestObstacle =
  /** It is not recorded: the capture level was `metadata`, or it was erased. */
  | 'body_not_recorded'
  | 'body_not_json'
  /** Guardrails do not read such bodies. */
  | 'endpoint_not_read'
  /** The gateway refused it before guardrails run. */
  | 'refused'
  /** The provider would keep the answer, so the gateway refuses such requests where guardrails run. */
  | 'background_at_provider'
  /** It was answered with the answer of an earlier request with the same idempotency key. */
  | 'repeated';

export interface RecordedPrompt {
  readonly dialect: GuardedDialect;
  readonly body: unknown;
  /** How the answer is read; undefined when it has no text. */
  readonly answer: GuardedBody | undefined;
  /** The request continues turns that are not in the body. */
  readonly lacksEarlierTurns: boolean;
}

export async function recordedPrompt(
  { recorded, target, wasGuarded }: ReplayedExchange,
  archive: ResponseArchive,
): Promise<RecordedPrompt | RequestObstacle> {
  const { request, received, attempt, end, answerOf } = recorded;
  const dialect = guardedDialectOf(request);
  if (dialect === undefined) return 'endpoint_not_read';
  if (answerOf !== undefined) return 'repeated';
  if (end?.type === requestRefused.type && !wasGuarded) return 'refused';
  if (received.body === undefined) return 'body_not_recorded';
  const body = jsonIn(received.body);
  if (body === undefined) return 'body_not_json';
  const answer = countsTokens.test(request.path) ? undefined : guardedBodies[dialect].answer;
  if (dialect !== 'responses') return { dialect, body, answer, lacksEarlierTurns: false };
  if (body['background'] === true && attempt?.dialect === 'responses') return 'background_at_provider';
  return { dialect, answer, ...(await withEarlierTurns(body, target?.provider, archive)) };
}

/** Undefined when guardrails do not read such requests. */
function guardedDialectOf({ dialect, path }: RecordedExchange['request']): GuardedDialect | undefined {
  switch (dialect) {
    case 'chat':
    case 'messages':
    case 'embeddings':
      return dialect;
    case 'responses':
      return compacts.test(path) ? undefined : dialect;
    case 'forward':
      return /^\/v1\/completions(?:\?|$)/.test(path) ? 'completions' : undefined;
    default:
      return undefined;
  }
}

const countsTokens = /\/(?:count|input)_tokens(?:\?|$)/;
const compacts = /\/compact(?:\?|$)/;

function jsonIn(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const json = parseExactly(new TextDecoder().decode(bytes));
    return isObject(json) ? json : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The turns before a response, unless the provider looks them up itself, as for a request. A conversation may have
 * changed since then, so its items are not read.
 */
async function withEarlierTurns(
  body: Record<string, unknown>,
  provider: string | undefined,
  archive: ResponseArchive,
): Promise<Pick<RecordedPrompt, 'body' | 'lacksEarlierTurns'>> {
  const { previous_response_id: previous, conversation } = body;
  if (conversation !== undefined && conversation !== null) return { body, lacksEarlierTurns: true };
  if (typeof previous !== 'string' || previous === '') return { body, lacksEarlierTurns: false };
  const head = await archive.find(previous, everything);
  if (head?.native === true && head.provider === provider) return { body, lacksEarlierTurns: false };
  try {
    const chain = await loadChain(previous, everything, archive);
    const turns = chain.map(({ inputItems, response }) => ({ input_items: inputItems, output: outputOf(response) }));
    return { body: { ...body, input: mergeHistory(turns, body['input']) }, lacksEarlierTurns: false };
  } catch (error) {
    if (error instanceof Refusal) return { body, lacksEarlierTurns: true };
    throw error;
  }
}

function outputOf({ output }: Readonly<Record<string, unknown>>): Record<string, unknown>[] {
  return Array.isArray(output) ? output.filter(isObject) : [];
}
