/** One request read from the log, with its request and answer bodies: exact, and available before analytics has it. */
import type { z } from 'zod';
import { cacheHit } from '../../events/catalogue/cache.ts';
import * as exchange from '../../events/catalogue/exchange.ts';
import { frameDelivered, guardrailApplied } from '../../events/catalogue/guardrail.ts';
import { toolAnswered } from '../../events/catalogue/mcp.ts';
import type { RecordedEvent, StreamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { isPieceOfAnswer } from '../exchange-events.ts';
import { isA } from '../projection.ts';
import { type VerdictRow, verdictsIn } from '../verdicts.ts';
import type { RequestUsage } from './audit-queries.ts';
import { type ExchangeRow, exchangeRowOf } from './exchange-row.ts';

export interface RequestInLog {
  readonly row: ExchangeRow;
  readonly usage: RequestUsage | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | undefined;
  /** Of the whole body, where only its beginning is kept. */
  readonly cut: { readonly bytes: number; readonly sha256: string } | undefined;
  /** What providers sent with their errors, by the number of the attempt. */
  readonly failures: ReadonlyMap<number, Uint8Array>;
  /** The answer of the last provider, or of the server of a tool. */
  readonly responseBody: FirstBytes;
  /** What the client received, where guardrails evaluated the answer or gave it. Undefined: what follows from the provider's answer. */
  readonly delivered: FirstBytes | undefined;
  readonly verdicts: readonly VerdictRow[];
  /** The request each time that guardrails changed it. */
  readonly revisions: readonly Uint8Array[];
}

type Reader = Pick<EventLog, 'readStream'>;

/** Its row alone; undefined when there is no such request. */
export async function rowInLog(stream: StreamName, log: Reader): Promise<ExchangeRow | undefined> {
  return (await summaryInLog(stream, log))?.row;
}

/** Its row and its usage; undefined when there is no such request. */
export async function summaryInLog(
  stream: StreamName,
  log: Reader,
): Promise<Pick<RequestInLog, 'row' | 'usage'> | undefined> {
  const events: RecordedEvent[] = [];
  for await (const event of log.readStream(stream)) {
    if (!isPieceOfAnswer(event) && !isA(event, exchange.requestBodyReceived)) events.push(event);
  }
  const row = exchangeRowOf(events);
  return row === undefined ? undefined : { row, usage: usageOf(events) };
}

/** Undefined when there is no such request. */
export async function requestInLog(stream: StreamName, log: Reader): Promise<RequestInLog | undefined> {
  const events: RecordedEvent[] = [];
  const responseBody = new FirstBytes();
  const frames = new FirstBytes();
  const revisions: Uint8Array[] = [];
  const failures = new Map<number, Uint8Array>();
  let received: Pick<RequestInLog, 'headers' | 'body' | 'cut'> | undefined;
  for await (const event of log.readStream(stream)) {
    if (isA(event, exchange.chunkReceived)) {
      responseBody.add(event.body);
      continue;
    }
    if (isA(event, frameDelivered)) {
      frames.add(event.body);
      continue;
    }
    // Of an upload, or of a session of an hour.
    if (isA(event, exchange.requestBodyReceived)) continue;
    if (isA(event, toolAnswered)) responseBody.add(event.body);
    // Chunks of an attempt that failed are not part of the answer.
    if (isA(event, exchange.attemptStarted)) {
      responseBody.clear();
      frames.clear();
    }
    if (isA(event, guardrailApplied) && event.body !== undefined) revisions.push(event.body);
    if (isA(event, exchange.attemptFailed) && event.body !== undefined) failures.set(event.data.attempt, event.body);
    if (isA(event, exchange.requestReceived)) received = receivedIn(event);
    events.push(event);
  }
  const row = exchangeRowOf(events);
  if (row === undefined || received === undefined) return undefined;
  const delivered = deliveredOf(events, frames);
  const verdicts = verdictsIn(events);
  return { row, usage: usageOf(events), ...received, failures, responseBody, delivered, verdicts, revisions };
}

/** The frames, or else the body of the event that ended the exchange. */
function deliveredOf(events: readonly RecordedEvent[], frames: FirstBytes): FirstBytes | undefined {
  const end = events.find(({ type }) => exchange.exchangeEnds.has(type));
  const last = events.findLast((event) => isA(event, exchange.attemptStarted));
  // An answer from the response cache is on the record of the earlier exchange.
  if (events.some((event) => isA(event, cacheHit))) return undefined;
  const isOwnAnswer = end !== undefined && isA(end, exchange.exchangeCompleted) && end.data.attempt === 0;
  const isChangedResult = end?.body !== undefined && events.some((event) => isA(event, toolAnswered));
  if (last?.data.guarded !== true && !isOwnAnswer && !isChangedResult) return undefined;
  if (frames.bytes === 0) frames.add(end?.body);
  return frames;
}

function receivedIn({ data, body }: RecordedEvent<string, z.infer<typeof exchange.requestReceived.data>>) {
  const { headers, bodyBytes: bytes, bodySha256: sha256 } = data;
  return { headers, body, cut: bytes === undefined || sha256 === undefined ? undefined : { bytes, sha256 } };
}

/** Longer bodies are cut to this size. */
export const MOST_BODY_BYTES = 1024 * 1024;

/** The first bytes of a body that may be long. */
export class FirstBytes {
  #pieces: Uint8Array[] = [];
  bytes = 0;
  /** Whether bytes were left out. */
  tooMany = false;

  add(piece: Uint8Array | undefined): void {
    if (piece === undefined || this.tooMany) return;
    const room = MOST_BODY_BYTES - this.bytes;
    this.tooMany = piece.length > room;
    this.#pieces.push(this.tooMany ? piece.subarray(0, room) : piece);
    this.bytes += Math.min(piece.length, room);
  }

  clear(): void {
    this.#pieces = [];
    this.bytes = 0;
    this.tooMany = false;
  }

  joined(): Uint8Array {
    return Buffer.concat(this.#pieces);
  }
}

/** The usage with all corrections. Undefined when no usage was recorded. */
function usageOf(events: readonly RecordedEvent[]): RequestUsage | undefined {
  const recorded = events.filter((event) => isA(event, exchange.usageRecorded));
  if (recorded.length === 0) return undefined;
  const costs = new Map<string, string | null>();
  const tokens = { input: 0, cachedInput: 0, cacheWriteInput: 0, output: 0, total: 0 };
  for (const event of events) {
    if (isA(event, exchange.usageRecalculated)) costs.set(event.data.usageId, event.data.totalCost);
    if (!isA(event, exchange.usageRecorded)) continue;
    const { data } = event;
    costs.set(event.id, data.totalCost);
    tokens.input += data.inputTokens ?? 0;
    tokens.cachedInput += data.cachedInputTokens ?? 0;
    tokens.cacheWriteInput += data.cacheWriteInputTokens ?? 0;
    tokens.output += data.outputTokens ?? 0;
    tokens.total += data.totalTokens ?? 0;
  }
  const known = [...costs.values()].filter((cost) => cost !== null);
  return {
    entries: recorded.length,
    tokens: recorded.some(({ data }) => data.source === 'provider') ? tokens : null,
    totalCost: known.length === 0 ? null : String(known.reduce((sum, cost) => sum + BigInt(cost), 0n)),
  };
}
