/**
 * `GET /v1/responses/{id}?stream=true`: the stream a response was made as, once more from the record; while it is
 * still being made, on to its end. A response that was made in one piece is told as the stream it would have been.
 */
import { streamName } from '../../events/event.ts';
import { createFrameSplitter, type Frame } from '../../providers/sse.ts';
import { readExchange } from '../exchange/record/recorded-exchange.ts';
import { type ReplayDependencies, replayAnswer } from '../exchange/record/replay-answer.ts';
import { parseChunk } from '../model-request/parse-chunk.ts';
import type { StoredResponse } from '../responses/archive.ts';
import { isPending } from '../responses/pending-response.ts';
import { everything } from '../visibility.ts';
import { responseAsEvents, type StreamedEvent } from './response-as-events.ts';

const DONE = Buffer.from('data: [DONE]\n\n');

/**
 * Its events after the given sequence number, as they go on the wire, with `[DONE]` behind them.
 * @param after -1 for all of them
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
  // What a provider made in the background after its stream had been cut, the chunks do not hold.
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

/** Lets through what a reader has not had yet. */
class AfterNumber {
  readonly #after: number;
  #last: number;
  #isFirst = true;
  #hasEnded = false;
  /** Whether the reader gets what has no number of its own: what comes after something that is new. */
  #isPassing: boolean;
  readonly #splitter = createFrameSplitter();

  constructor(after: number) {
    this.#after = after;
    this.#last = after;
    this.#isPassing = after < 0;
  }

  /** Whether the stream told its end itself. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  of(bytes: Buffer): Generator<Buffer> {
    return this.#new(this.#splitter.push(bytes));
  }

  /** What a stream left without the blank line that ends an event. */
  rest(): Generator<Buffer> {
    const last = this.#splitter.end();
    return this.#new(last === undefined ? [] : [last]);
  }

  *#new(frames: readonly Frame[]): Generator<Buffer> {
    for (const { raw, data } of frames) {
      const event = data === undefined ? undefined : parseChunk(data);
      if (event !== undefined) this.#isPassing = this.#isNew(event, this.#after);
      if (this.#isPassing || data === '[DONE]') yield raw;
    }
  }

  *events(events: readonly StreamedEvent[]): Generator<Buffer> {
    for (const event of events) {
      if (this.#isNew(event, this.#last)) yield Buffer.from(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    }
  }

  /** All of the events, or, after others, those of the end alone: a reader must be told how it ended. */
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
