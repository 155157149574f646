/** The stream events of a response, in OpenAI's order, derived from the finished object. */
import type { BackgroundJob } from './background-job.ts';
import { type Json, type JsonObject, listIn, objectIn, textIn } from './json.ts';
import { DONE, type Frame } from './reply.ts';
import type { EventOptions, ResponseEvent } from './response-event.ts';
import { itemEvents } from './response-item-events.ts';

/** Members of a response that is queued, in progress or cancelled. */
const UNFINISHED = { completed_at: null, incomplete_details: null, error: null, output: [], usage: null };

export function inState(response: JsonObject, status: 'queued' | 'in_progress' | 'cancelled'): JsonObject {
  return { ...response, ...UNFINISHED, status };
}

export function* responseFrames(response: JsonObject, options: EventOptions): Generator<Frame> {
  const numbered = numbering(options);
  for (const event of opening(response)) yield* numbered(event);
  for (const event of progress(response)) yield* numbered(event);
  for (const event of rest(response, options)) yield* numbered(event);
  yield DONE;
}

/** Follows the job: a stream that is opened early waits for it. A cancelled stream ends without a terminal event. */
export async function* backgroundFrames(
  response: JsonObject,
  job: BackgroundJob,
  options: EventOptions,
): AsyncGenerator<Frame> {
  const numbered = numbering(options);
  for (const event of opening(response)) yield* numbered(event);
  await job.begun();
  if (job.state !== 'cancelled') for (const event of progress(response)) yield* numbered(event);
  await job.done();
  if (job.state === 'over') for (const event of rest(response, options)) yield* numbered(event);
  yield DONE;
}

function numbering({ after = -1 }: EventOptions): (event: ResponseEvent) => Iterable<Frame> {
  let sequence = 0;
  return function* numbered({ kind, type, data }) {
    const sequence_number = sequence++;
    if (sequence_number <= after) return;
    yield { kind, text: `event: ${type}\ndata: ${JSON.stringify({ type, ...data, sequence_number })}\n\n` };
  };
}

function* opening(response: JsonObject): Generator<ResponseEvent> {
  const queued = response.background === true;
  const begun = inState(response, queued ? 'queued' : 'in_progress');
  yield { kind: 'open', type: 'response.created', data: { response: begun } };
  if (queued) yield { kind: 'open', type: 'response.queued', data: { response: begun } };
}

function* progress(response: JsonObject): Generator<ResponseEvent> {
  yield { kind: 'open', type: 'response.in_progress', data: { response: inState(response, 'in_progress') } };
}

function* rest(response: JsonObject, options: EventOptions): Generator<ResponseEvent> {
  for (const [index, item] of listIn(response.output).entries()) {
    for (const event of itemEvents(objectIn(item), index, options)) yield obfuscated(event, options);
  }
  yield { kind: 'finish', type: `response.${textIn(response.status) ?? 'completed'}`, data: { response } };
}

/** Filler that gives all deltas the same length, so that an observer of the connection cannot distinguish them. */
function obfuscated(event: ResponseEvent, { obfuscation }: EventOptions): ResponseEvent {
  const delta: Json | undefined = event.data.delta;
  if (!obfuscation || typeof delta !== 'string') return event;
  return { ...event, data: { ...event.data, obfuscation: 'x'.repeat(16 - (delta.length % 16)) } };
}
