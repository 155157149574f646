/** A native response: as the client has received it so far, built from its events, its facts, and its reader. */
import { isObject } from '../../../../json/is-object.ts';
import type { Frame } from '../../../../providers/stream-frames.ts';
import { filled, type JsonObject } from '../../../../providers/translate/json.ts';
import { mapUpstreamError } from '../../../../providers/upstream-error.ts';
import { type Answering, parseChunk, redacted } from '../../../model-request/answer-body.ts';
import { type EarlyEnd, refusalFromUpstream } from '../../../model-request/upstream-refusals.ts';
import { type DeferredWork, readUsage, type TokenUsage } from '../../../model-request/usage.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import { isPending, type StorableResponse, statusOf } from '../../../responses/storable-response.ts';
import {
  type AnswerReader,
  type FrameEvents,
  type FrameOutcome,
  failureIn,
  unreadableEvent,
  withoutEvents,
} from '../../relay.ts';

export class ObservedResponse {
  readonly facts: ResponseFacts;
  /** Sequence number of the last event. */
  sequence = -1;
  /** A whole answer, as the client received it. */
  whole: Buffer | undefined;
  readonly #items = new StreamedItems();

  constructor(facts: ResponseFacts) {
    this.facts = facts;
  }

  /** @param event an event that `facts` has noted already; its item is kept and changed by later events */
  noteItems(event: JsonObject): void {
    const { type, response, sequence_number: sequence } = event;
    if (typeof sequence === 'number') this.sequence = sequence;
    if (type !== 'error' && !isObject(response)) this.#items.observe(event);
  }

  /**
   * The response with its output so far, ended before its provider ended it. `incomplete`: by a guardrail.
   * @param shell the response without output, used when the provider has sent none
   */
  endAs(status: EarlyEnd['status'] | 'incomplete', error: object, shell: (() => object) | undefined): JsonObject {
    const { facts } = this;
    const items = this.#items.atEnd();
    const begun: JsonObject = { ...(facts.response ?? shell?.()), provider: facts.provider };
    facts.ended = true;
    facts.response = {
      ...begun,
      status,
      error: status === 'failed' ? { type: 'provider_error', ...error } : null,
      completed_at: null,
      incomplete_details: status === 'incomplete' ? { reason: 'content_filter' } : null,
      output: items.length > 0 || !Array.isArray(begun['output']) ? items : begun['output'],
    };
    return facts.response;
  }

  storable(): StorableResponse | undefined {
    const { response } = this.facts;
    if (response === undefined || typeof response['id'] !== 'string') return undefined;
    return {
      id: response['id'],
      status: statusOf(response) ?? 'completed',
      json: this.whole?.toString() ?? JSON.stringify(response),
      output: Array.isArray(response['output']) ? response['output'] : [],
    };
  }
}

/**
 * The output items of a native Responses stream, kept up to date from its events. OpenAI Responses API: streaming
 * events.
 */
type Item = Record<string, unknown>;

interface PartPlace {
  readonly list: 'content' | 'summary';
  readonly index: 'content_index' | 'summary_index';
  readonly member: 'text' | 'refusal';
  /** Type of the part when no event announced it. */
  readonly type: string;
}

/** Deltas of a member of the item itself. */
const MEMBER_DELTAS = new Map<unknown, string>([
  ['response.function_call_arguments.delta', 'arguments'],
  ['response.mcp_call_arguments.delta', 'arguments'],
  ['response.custom_tool_call_input.delta', 'input'],
  ['response.code_interpreter_call_code.delta', 'code'],
]);

const content = { list: 'content', index: 'content_index', member: 'text' } as const;
/** Deltas of one part of the item. */
const PART_DELTAS = new Map<unknown, PartPlace>([
  ['response.output_text.delta', { ...content, type: 'output_text' }],
  ['response.refusal.delta', { ...content, member: 'refusal', type: 'refusal' }],
  ['response.reasoning_text.delta', { ...content, type: 'reasoning_text' }],
  ['response.reasoning.delta', { ...content, type: 'reasoning_text' }],
  [
    'response.reasoning_summary_text.delta',
    { list: 'summary', index: 'summary_index', member: 'text', type: 'summary_text' },
  ],
]);

/** Types of items that cannot be `incomplete`. */
const FAILED_WHEN_INCOMPLETE = new Set<unknown>(['web_search_call', 'image_generation_call']);
/** Types of items that have a status even when the provider leaves it out. */
const WITH_STATUS = new Set<unknown>(['message', 'reasoning', 'function_call', 'custom_tool_call']);

class StreamedItems {
  readonly #items = new Map<number, Item>();
  readonly #done = new Set<number>();

  /** @param event parsed from the stream; its item is kept and changed by later events */
  observe(event: Record<string, unknown>): void {
    const { type, output_index: index } = event;
    if (typeof index !== 'number') return;
    if (isObject(event.item)) {
      this.#items.set(index, event.item);
      if (type === 'response.output_item.done') this.#done.add(index);
      return;
    }
    const item = this.#items.get(index);
    if (item === undefined) return;
    if (isObject(event.part)) setPart(item, event, event.part);
    else if (type === 'response.output_text.annotation.added') addAnnotation(item, event);
    else if (typeof event.delta === 'string') addDelta(item, event, event.delta);
  }

  /** The items in their order when no more events follow: an item that is not done is incomplete. */
  atEnd(): Item[] {
    return [...this.#items.entries()]
      .sort(([a], [b]) => a - b)
      .map(([index, item]) => (this.#done.has(index) ? item : cutOff(item)));
  }
}

function cutOff(item: Item): Item {
  if (!('status' in item) && !WITH_STATUS.has(item.type)) return item;
  return { ...item, status: FAILED_WHEN_INCOMPLETE.has(item.type) ? 'failed' : 'incomplete' };
}

/** `content_part.added` and `.done`, `reasoning_summary_part.added` and `.done`. */
function setPart(item: Item, event: Record<string, unknown>, part: Record<string, unknown>): void {
  const list = 'summary_index' in event ? 'summary' : 'content';
  const index = list === 'summary' ? event.summary_index : event.content_index;
  if (typeof index === 'number') partsOf(item, list).set(index, { ...part });
}

function addDelta(item: Item, event: Record<string, unknown>, delta: string): void {
  const member = MEMBER_DELTAS.get(event.type);
  if (member !== undefined) {
    item[member] = textIn(item, member) + delta;
    return;
  }
  const place = PART_DELTAS.get(event.type);
  if (place === undefined) return;
  const parts = partsOf(item, place.list);
  const index = event[place.index];
  if (typeof index !== 'number') return;
  const part = parts.get(index) ?? parts.set(index, { type: place.type, [place.member]: '' });
  part[place.member] = textIn(part, place.member) + delta;
}

function addAnnotation(item: Item, event: Record<string, unknown>): void {
  if (typeof event.content_index !== 'number') return;
  const part = partsOf(item, 'content').get(event.content_index);
  if (Array.isArray(part?.annotations)) part.annotations.push(event.annotation);
}

/** The list of parts of an item. A part with too high an index is appended. */
function partsOf(item: Item, list: 'content' | 'summary') {
  const known: unknown = item[list];
  const parts: unknown[] = Array.isArray(known) ? known : [];
  if (parts !== known) item[list] = parts;
  return {
    get(index: number): Item | undefined {
      const part = parts[index];
      return isObject(part) ? part : undefined;
    },
    set(index: number, part: Item): Item {
      parts[Math.min(index, parts.length)] = part;
      return part;
    },
  };
}

function textIn(holder: Item, member: string): string {
  const text = holder[member];
  return typeof text === 'string' ? text : '';
}

// The facts of a native response that its events have contained so far.

const TERMINAL = new Set(['response.completed', 'response.incomplete', 'response.failed']);

/** The content of the provider's `error` event, after which `response.failed` has to follow. */
interface ReportedError {
  readonly code: string;
  readonly message: string;
}

export class ResponseFacts {
  /** Name of the instance. */
  readonly provider: string;
  readonly #providerRuns: boolean;
  /** The newest response object. */
  response: JsonObject | undefined;
  /** The provider's own id of the response. */
  answerId: string | undefined;
  ended = false;
  reported: ReportedError | undefined;

  /**
   * @param providerRuns whether the provider continues a response whose stream ends early, as it does for background
   * responses
   */
  constructor(provider: string, providerRuns = false) {
    this.provider = provider;
    this.#providerRuns = providerRuns;
  }

  note(event: JsonObject): void {
    const { type, response } = event;
    if (type === 'error') {
      this.reported = this.#errorIn(event);
    } else if (isObject(response)) {
      this.response = response;
      if (typeof type === 'string' && TERMINAL.has(type)) this.ended = true;
    }
  }

  usage(): TokenUsage {
    return readUsage(this.response?.['usage']);
  }

  deferredWork(): DeferredWork | undefined {
    const { id, status } = this.response ?? {};
    if (!this.#providerRuns || this.reported !== undefined) return undefined;
    if (typeof id !== 'string' || typeof status !== 'string') return undefined;
    return isPending({ status }) ? { kind: 'response', id } : undefined;
  }

  #errorIn(event: JsonObject): ReportedError {
    const { code, message } = isObject(event['error']) ? event['error'] : event;
    return {
      code: typeof code === 'string' ? code : 'provider_error',
      message: typeof message === 'string' ? message : `The provider '${this.provider}' reported an error.`,
    };
  }
}

/** @throws Refusal when a whole answer is not a response */
export function checkedResponse(answer: unknown, provider: string): JsonObject {
  if (isObject(answer) && (Array.isArray(answer.output) || typeof answer.status === 'string')) return answer;
  throw refusals.badAnswer(provider, `The provider '${provider}' gave an answer that is not a response.`);
}

/** Ids of providers are shorter. */
const MAX_ID_LENGTH = 256;

/** The refusal of a response with an id under which it cannot be stored; undefined for every other one. */
function unusableId({ id }: JsonObject, provider: string): Refusal | undefined {
  if (typeof id !== 'string' || (id.length <= MAX_ID_LENGTH && id.isWellFormed())) return undefined;
  const why = id.length > MAX_ID_LENGTH ? `has ${id.length} characters` : 'is not well-formed Unicode';
  return refusals.badAnswer(provider, `The provider '${provider}' gave a response whose id ${why}.`);
}

// Reads the answer of a provider with a Responses API, as events of that API.

/** Events in which a provider may repeat the credentials it was given. */
const FAILURES = new Set<unknown>(['error', 'response.failed']);

interface ReadEvent {
  /** Without the provider's credentials, and with the members that the gateway replaces. */
  readonly event: JsonObject;
  /** The event's own bytes without the provider's credentials. */
  readonly record: Buffer;
  /** Whether the client's bytes differ from `record`, because the gateway replaces a member. */
  readonly echoed: boolean;
  /** Set when the response failed: the exchange has failed, though the client gets the provider's event. */
  readonly refusal: Refusal | undefined;
}

export class ResponsesReader implements AnswerReader<JsonObject> {
  readonly #provider: Answering;
  /**
   * Members that replace the provider's own in every response object, such as the gateway's id of the response. Without
   * any, a stream passes unchanged, and only a whole answer gets the member `provider`.
   */
  readonly #echo: Readonly<JsonObject> | undefined;
  readonly #facts: ResponseFacts;

  constructor(
    provider: Answering,
    echo?: Readonly<JsonObject>,
    facts: ResponseFacts = new ResponseFacts(provider.name),
  ) {
    this.#provider = provider;
    this.#echo = echo;
    this.#facts = facts;
  }

  whole(parsed: unknown): unknown {
    const answer = checkedResponse(parsed, this.#provider.name);
    this.#facts.answerId = filled(answer['id']);
    const response = this.#withEcho(answer);
    this.#facts.response = response;
    const unusable = unusableId(response, this.#provider.name);
    if (unusable !== undefined) throw unusable;
    return response;
  }

  events(frame: Frame): FrameEvents<JsonObject> {
    const { data } = frame;
    // The writer adds the end marker.
    const read = data === undefined || data === '[DONE]' ? undefined : this.read(frame, data);
    if (read === undefined) return { events: [], terminal: this.#facts.ended };
    if (!('event' in read)) return withoutEvents(read);
    const { event, record, refusal } = read;
    return { events: [event], record, terminal: this.#facts.ended, refusal };
  }

  /**
   * Reads one frame with data other than the end marker. Undefined when it is empty, an outcome when it cannot be
   * read.
   */
  read(frame: Frame, data: string): ReadEvent | FrameOutcome | undefined {
    const parsed = parseChunk(data);
    if (parsed === undefined) return data.trim() === '' ? undefined : unreadableEvent(frame, this.#provider);
    const record = FAILURES.has(parsed.type) ? redacted(frame.raw, this.#provider) : frame.raw;
    const event = record === frame.raw ? parsed : (parseChunk(this.#redacted(data)) ?? parsed);
    const failure = event.type === undefined ? failureIn(event, frame, this.#provider) : undefined;
    if (failure !== undefined) return failure;
    if (isObject(event.response)) this.#facts.answerId ??= filled(event.response.id);
    const echoed = this.#echoed(event);
    const noted = echoed ?? event;
    this.#facts.note(noted);
    const unusable = isObject(noted.response) ? unusableId(noted.response, this.#provider.name) : undefined;
    if (unusable !== undefined) return { terminal: true, refusal: unusable };
    const refusal = event.type === 'response.failed' ? this.#failureOf(event.response) : undefined;
    return { event: echoed ?? event, record, echoed: echoed !== undefined, refusal };
  }

  usage(): TokenUsage {
    return this.#facts.usage();
  }

  answerId(): string | undefined {
    return this.#facts.answerId;
  }

  deferredWork(): DeferredWork | undefined {
    return this.#facts.deferredWork();
  }

  #echoed(event: JsonObject): JsonObject | undefined {
    if (this.#echo === undefined || !isObject(event.response)) return undefined;
    return { ...event, response: this.#withEcho(event.response) };
  }

  #withEcho(response: JsonObject): JsonObject {
    return { ...response, ...this.replaced() };
  }

  /** The members that differ from the provider's own in a whole answer. */
  replaced(): JsonObject {
    return { ...this.#echo, provider: this.#provider.name };
  }

  #failureOf(response: unknown): Refusal {
    const error = isObject(response) && isObject(response.error) ? response.error : {};
    const body = Buffer.from(JSON.stringify({ error }));
    return refusalFromUpstream(mapUpstreamError({ status: 200, headers: {}, body, provider: this.#provider }));
  }

  #redacted(text: string): string {
    return this.#provider.redact?.(text) ?? text;
  }
}
