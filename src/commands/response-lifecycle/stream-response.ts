/**
 * `GET /v1/responses/{id}?stream=true`: the stream of a response, again from the record; while it is still being
 * generated, until its end. A response that was not streamed is converted to events.
 */
import { streamName } from '../../events/event.ts';
import { createFrameSplitter, type Frame } from '../../providers/sse.ts';
import { readExchange } from '../exchange/record/read-exchange.ts';
import { type ReplayDependencies, replayAnswer } from '../exchange/record/replay-answer.ts';
import { parseChunk } from '../model-request/parse-chunk.ts';
import type { StoredResponse } from '../responses/archive.ts';
import { isPending } from '../responses/pending-response.ts';
import { everything } from '../visibility.ts';
import { responseAsEvents, type StreamedEvent } from './response-as-events.ts';

const DONE = Buffer.from('data: [DONE]\n\n');

/**
 * The events after the given sequence number, in wire format, followed by `[DONE]`.
 * @param after -1 for all events
 */
export async function* streamResponse(
  stored: StoredResponse,
  after: number,
  deps: ReplayDependencies,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const numbered = new AfterNumber(after);
  const exchange = await readExchange(streamName('exchange', stored.exchangeId), deps.log);
  const wasStreamed = exchange?.request.stream === true && exchange.request.capture === 'full';
  // The recorded chunks do not contain what a provider generated in the background after its stream had been cut.
  const isProviders = stored.native && stored.response.background === true;
  const isWhole = !isProviders || exchange?.end?.type === 'exchange.completed';
  if (exchange !== undefined && wasStreamed && isWhole) {
    for await (const part of replayAnswer(exchange.id, deps, signal)) {
      if (part.kind === 'bytes') yield* numbered.of(part.bytes);
    }
    yield* numbered.rest();
  } else if (isPending(stored) && exchange !== undefined && exchange.end === undefined) {
    yield* numbered.events(responseAsEvents(stored.response));
    for await (const _ of replayAnswer(exchange.id, deps, signal));
  }
  if (signal.aborted || numbered.hasEnded) return;
  const latest = isPending(stored) ? await deps.archive.find(stored.id, everything) : stored;
  if (latest !== undefined) yield* numbered.ending(responseAsEvents(latest.response));
  yield DONE;
}

const TERMINAL = new Set(['response.completed', 'response.incomplete', 'response.failed']);

interface Numbered {
  readonly type?: unknown;
  readonly sequence_number?: unknown;
}

/** Passes the events that a reader has not received yet. */
class AfterNumber {
  readonly #after: number;
  #last: number;
  #isFirst = true;
  #hasEnded = false;
  /** Whether frames without a sequence number are passed: those after a new event are. */
  #isForwarding: boolean;
  readonly #splitter = createFrameSplitter();

  constructor(after: number) {
    this.#after = after;
    this.#last = after;
    this.#isForwarding = after < 0;
  }

  /** Whether the stream contained its terminal event. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  of(bytes: Buffer): Generator<Buffer> {
    return this.#new(this.#splitter.push(bytes));
  }

  /** The rest of a stream that ended without the blank line after its last event. */
  rest(): Generator<Buffer> {
    const last = this.#splitter.end();
    return this.#new(last === undefined ? [] : [last]);
  }

  *#new(frames: readonly Frame[]): Generator<Buffer> {
    for (const { raw, data } of frames) {
      const event = data === undefined ? undefined : parseChunk(data);
      if (event !== undefined) this.#isForwarding = this.#isNew(event, this.#after);
      if (this.#isForwarding || data === '[DONE]') yield raw;
    }
  }

  *events(events: readonly StreamedEvent[]): Generator<Buffer> {
    for (const event of events) {
      if (this.#isNew(event, this.#last)) yield Buffer.from(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    }
  }

  /** All events, or only the terminal ones when the reader has received others: a reader must always get the end. */
  *ending(events: readonly StreamedEvent[]): Generator<Buffer> {
    const last = events.at(-1);
    if (this.#isFirst || last === undefined || last.sequence_number > this.#last) {
      yield* this.events(events);
      return;
    }
    const end = events.filter(({ type }) => type === 'error' || TERMINAL.has(type));
    yield* this.events(end.map((event, at) => ({ ...event, sequence_number: this.#last + 1 + at })));
  }

  #isNew({ type, sequence_number: number }: Numbered, after: number): boolean {
    if (typeof type === 'string' && TERMINAL.has(type)) this.#hasEnded = true;
    if (typeof number !== 'number') return true;
    this.#isFirst = false;
    this.#last = Math.max(this.#last, number);
    return number > after;
  }
}
