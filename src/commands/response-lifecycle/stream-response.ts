/**
 * `GET /v1/responses/{id}?stream=true`: the stream of a response, again from the record; while it is still being
 * generated, until its end. A response that was not streamed is converted to events.
 */
import { streamName } from '../../events/event.ts';
import { isObject } from '../../json/is-object.ts';
import { ProviderFailure, type ReplyBody } from '../../providers/provider.ts';
import { createFrameSplitter, type Frame } from '../../providers/stream-frames.ts';
import { encodeEvent, filled, type JsonObject } from '../../providers/translate/json.ts';
import { streamEndsEarly } from '../exchange/dialects/responses/answer.ts';
import { readExchange } from '../exchange/record/read-exchange.ts';
import { type ReplayDependencies, replayAnswer } from '../exchange/record/replay-answer.ts';
import { type Answering, parseChunk, redacted } from '../model-request/answer-body.ts';
import { refusalFromFailure, responseCancelled, streamIncomplete } from '../model-request/upstream-refusals.ts';
import type { StoredResponse } from '../responses/archive.ts';
import { isPending } from '../responses/storable-response.ts';
import { everything } from '../visibility.ts';

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

/**
 * Converts a response to the events of a stream, for responses that were not streamed. OpenAI Responses API:
 * streaming events. Every text is one delta. Pure: the same response gives the same events.
 */
type StreamedEvent = JsonObject & { readonly type: string; readonly sequence_number: number };

/** @param response in any state; one that has not ended gives the events of its output so far */
function responseAsEvents(response: JsonObject): StreamedEvent[] {
  const events: StreamedEvent[] = [];
  const add = (type: string, members: JsonObject): void => {
    events.push({ type, sequence_number: events.length, ...members });
  };
  const begun = { ...response, ...NOTHING_YET };
  add('response.created', { response: begun });
  add('response.in_progress', { response: begun });
  if (isPending({ status: String(response['status']) })) return events;
  const output = Array.isArray(response['output']) ? response['output'].filter(isObject) : [];
  for (const [output_index, item] of output.entries()) {
    addItem(item, output_index, add);
    if (wasCutOff(item, response)) dropLastWords(events);
  }
  const error = errorOf(response);
  if (error !== undefined) add('error', { code: error['code'], message: error['message'], param: null, error });
  add(terminalType(response['status']), { response });
  return events;
}

/** Whether the answer ended within this item. Text that a limit cut is reported as done, with its status. */
function wasCutOff({ type, status }: JsonObject, response: JsonObject): boolean {
  if (status !== 'incomplete' && status !== 'in_progress') return false;
  return response['status'] !== 'incomplete' || (type !== 'message' && type !== 'reasoning');
}

/** An item that was cut off gets no `done` event; neither does the part in which it was cut. */
function dropLastWords(events: StreamedEvent[]): void {
  while (events.at(-1)?.type.endsWith('.done') === true) events.pop();
}

/** The content of the `error` event in front of `response.failed`. */
function errorOf({ status, error, provider }: JsonObject): JsonObject | undefined {
  if (status === 'cancelled') {
    const { type, code, message } = responseCancelled();
    return { type, code, message, param: null };
  }
  if (status !== 'failed') return undefined;
  const { type = 'provider_error', code = null, message = 'The response failed.' } = isObject(error) ? error : {};
  return { type, code, message, param: null, ...(type === 'provider_error' && filled(provider) ? { provider } : {}) };
}

const NOTHING_YET = {
  status: 'in_progress',
  output: [],
  usage: null,
  error: null,
  incomplete_details: null,
  completed_at: null,
};

/** The API has no event for a cancelled response. */
function terminalType(status: unknown): string {
  if (status === 'failed' || status === 'cancelled') return 'response.failed';
  return status === 'incomplete' ? 'response.incomplete' : 'response.completed';
}

type Add = (type: string, members: JsonObject) => void;

function addItem(item: JsonObject, output_index: number, add: Add): void {
  const place = { item_id: item['id'], output_index };
  add('response.output_item.added', { output_index, item: beginning(item) });
  switch (item['type']) {
    case 'message':
      addContent(item, place, add);
      break;
    case 'reasoning':
      addReasoning(item, place, add);
      break;
    case 'function_call':
      add('response.function_call_arguments.delta', { ...place, delta: item['arguments'] });
      add('response.function_call_arguments.done', { ...place, name: item['name'], arguments: item['arguments'] });
      break;
    case 'custom_tool_call':
      add('response.custom_tool_call_input.delta', { ...place, delta: item['input'] });
      add('response.custom_tool_call_input.done', { ...place, input: item['input'] });
      break;
    case 'mcp_list_tools':
      add('response.mcp_list_tools.in_progress', place);
      add(`response.mcp_list_tools.${filled(item['error']) === undefined ? 'completed' : 'failed'}`, place);
      break;
    case 'mcp_call':
      add('response.mcp_call_arguments.delta', { ...place, delta: item['arguments'] });
      add('response.mcp_call_arguments.done', { ...place, arguments: item['arguments'] });
      add('response.mcp_call.in_progress', place);
      add(`response.mcp_call.${(item['error'] ?? null) === null ? 'completed' : 'failed'}`, place);
      break;
  }
  add('response.output_item.done', { output_index, item });
}

/** The item as it is added: without any content. */
function beginning(item: JsonObject): JsonObject {
  switch (item['type']) {
    case 'message':
      return { ...item, status: 'in_progress', content: [] };
    case 'reasoning':
      return {
        ...item,
        ...('status' in item ? { status: 'in_progress' } : {}),
        ...emptied(item, 'content'),
        summary: [],
      };
    case 'function_call':
      return { ...item, status: 'in_progress', arguments: '' };
    case 'custom_tool_call':
      return { ...item, status: 'in_progress', input: '' };
    case 'mcp_list_tools':
      return { ...item, tools: [], error: null };
    case 'mcp_call':
      return {
        ...item,
        ...('status' in item ? { status: 'in_progress' } : {}),
        arguments: '',
        output: null,
        error: null,
      };
    default:
      return item;
  }
}

function emptied(item: JsonObject, member: string): JsonObject {
  return Array.isArray(item[member]) ? { [member]: [] } : {};
}

function addContent(item: JsonObject, place: JsonObject, add: Add): void {
  for (const [content_index, part] of partsOf(item['content'])) {
    const at = { ...place, content_index };
    if (part['type'] === 'output_text') {
      const { text, logprobs = [] } = part;
      const annotations = Array.isArray(part['annotations']) ? part['annotations'] : [];
      add('response.content_part.added', { ...at, part: { ...part, text: '', annotations: [], logprobs: [] } });
      if (text !== '') add('response.output_text.delta', { ...at, delta: text, logprobs });
      for (const [annotation_index, annotation] of annotations.entries()) {
        add('response.output_text.annotation.added', { ...at, annotation_index, annotation });
      }
      add('response.output_text.done', { ...at, text, logprobs });
    } else if (part['type'] === 'refusal') {
      add('response.content_part.added', { ...at, part: { ...part, refusal: '' } });
      add('response.refusal.delta', { ...at, delta: part['refusal'] });
      add('response.refusal.done', { ...at, refusal: part['refusal'] });
    } else {
      add('response.content_part.added', { ...at, part });
    }
    add('response.content_part.done', { ...at, part });
  }
}

function addReasoning(item: JsonObject, place: JsonObject, add: Add): void {
  for (const [summary_index, part] of partsOf(item['summary'])) {
    const at = { ...place, summary_index };
    add('response.reasoning_summary_part.added', { ...at, part: { ...part, text: '' } });
    add('response.reasoning_summary_text.delta', { ...at, delta: part['text'] });
    add('response.reasoning_summary_text.done', { ...at, text: part['text'] });
    add('response.reasoning_summary_part.done', { ...at, part });
  }
  for (const [content_index, part] of partsOf(item['content'])) {
    const at = { ...place, content_index };
    add('response.content_part.added', { ...at, part: { ...part, text: '' } });
    add('response.reasoning_text.delta', { ...at, delta: part['text'] });
    add('response.reasoning_text.done', { ...at, text: part['text'] });
    add('response.content_part.done', { ...at, part });
  }
}

function partsOf(parts: unknown): [number, JsonObject][] {
  return Array.isArray(parts) ? [...parts.filter(isObject).entries()] : [];
}

/** The stream of a response at its provider, relayed to a client that retrieves it. */
const TERMINAL = new Set<unknown>(['response.completed', 'response.incomplete', 'response.failed']);
const MAY_HOLD_CREDENTIALS = new Set<unknown>(['error', 'response.failed']);

/** The events as the provider sends them. A stream that ends before its terminal event ends with an `error` event. */
export function relayedStream(body: ReplyBody, provider: Answering, signal: AbortSignal): Pick<ReplyBody, 'pieces'> {
  return {
    async pieces(onPiece) {
      const splitter = createFrameSplitter({ provider: provider.name });
      let ended = false;
      let number = -1;
      const forwarded = ({ raw, data }: Frame): Buffer | undefined => {
        if (data === '[DONE]') return ended ? raw : undefined;
        const event = data === undefined ? undefined : parseChunk(data);
        if (typeof event?.sequence_number === 'number') number = event.sequence_number;
        ended ||= TERMINAL.has(event?.type);
        return MAY_HOLD_CREDENTIALS.has(event?.type) ? redacted(raw, provider) : raw;
      };
      const pass = (frames: readonly Frame[]) => {
        const bytes = Buffer.concat(frames.map(forwarded).filter((raw) => raw !== undefined));
        return bytes.length > 0 ? onPiece(bytes) : undefined;
      };
      let refusal = streamIncomplete(provider.name);
      try {
        await body.pieces((piece) => pass(splitter.push(piece)));
        const last = splitter.end();
        if (last !== undefined) await pass([last]);
      } catch (error) {
        if (!(error instanceof ProviderFailure) || signal.aborted) throw error;
        if (error.kind !== 'broken') refusal = refusalFromFailure(error);
      }
      if (!ended)
        await onPiece(Buffer.concat(streamEndsEarly(number, refusal).map((event) => encodeEvent(event, true))));
    },
  };
}
