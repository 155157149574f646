/** The recorded answer of a request as its client got it: a whole body, or the events of a stream. */
import { exchangeCompleted } from '../../../events/catalogue/exchange.ts';
import { createFrameSplitter, type Frame } from '../../../providers/sse.ts';
import type { RecordedExchange } from '../../exchange/record/read-exchange.ts';
import { type ReplayDependencies, replayAnswer } from '../../exchange/record/replay-answer.ts';
import { parseChunk } from '../../model-request/parse-chunk.ts';
import type { StreamEvent } from '../events/guarded-events.ts';

/** Why an answer is not evaluated. */
export type AnswerObstacle =
  /** The exchange failed, or its client left. */
  | 'incomplete'
  /** It is not recorded, or it is no JSON. */
  | 'answer_not_recorded';

/** Undefined when it is not on record. */
export async function wholeAnswer(
  recorded: RecordedExchange,
  deps: ReplayDependencies,
  signal: AbortSignal,
): Promise<Record<string, unknown> | undefined> {
  const pieces: Buffer[] = [];
  for await (const bytes of answerBytes(recorded, deps, signal)) pieces.push(bytes);
  return parseChunk(Buffer.concat(pieces).toString());
}

/** An event of a stream, and its size. */
export interface AnswerEvent {
  readonly event: StreamEvent;
  readonly bytes: number;
}

export async function* answerEvents(
  recorded: RecordedExchange,
  deps: ReplayDependencies,
  signal: AbortSignal,
): AsyncGenerator<AnswerEvent> {
  const splitter = createFrameSplitter();
  for await (const bytes of answerBytes(recorded, deps, signal)) yield* eventsIn(splitter.push(bytes));
  const last = splitter.end();
  if (last !== undefined) yield* eventsIn([last]);
}

export function isComplete({ end }: RecordedExchange): boolean {
  return end?.type === exchangeCompleted.type;
}

function* eventsIn(frames: readonly Frame[]): Generator<AnswerEvent> {
  for (const { data, raw } of frames) {
    const event = data === undefined ? undefined : parseChunk(data);
    if (event !== undefined) yield { event, bytes: raw.length };
  }
}

async function* answerBytes(
  { id, request, chunks }: RecordedExchange,
  deps: ReplayDependencies,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  if (request.dialect === 'forward') {
    // Such answers are passed on unchanged.
    for (const { body } of chunks)
      if (body !== undefined) yield Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    return;
  }
  for await (const part of replayAnswer(id, deps, signal)) if (part.kind === 'bytes') yield part.bytes;
}
