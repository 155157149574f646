/** A response: passed on unchanged except for members that the gateway replaces, or written for a client. */
import { isObject } from '../../../../json/is-object.ts';
import { dataOf, type Frame, type UnreadFrames, type UnreadPattern } from '../../../../providers/stream-frames.ts';
import {
  failureForClients,
  type ResponseShell,
} from '../../../../providers/translate/chat-to-responses/response-object.ts';
import {
  type ChatStreamTranslator,
  createChatStreamTranslator,
  responseFromChat,
} from '../../../../providers/translate/chat-to-responses/stream.ts';
import {
  type ClientEvent,
  END_MARKER,
  encodeEvent,
  filled,
  type JsonObject,
  rewriteMembers,
} from '../../../../providers/translate/json.ts';
import { mapUpstreamError } from '../../../../providers/upstream-error.ts';
import { type Answering, parseChunk, redacted } from '../../../model-request/answer-body.ts';
import { type EarlyEnd, refusalFromUpstream, streamIncomplete } from '../../../model-request/upstream-refusals.ts';
import { type DeferredWork, readUsage, type TokenUsage } from '../../../model-request/usage.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import { interruptedCall, isGatewayItemId } from '../../../responses/gateway-tools.ts';
import { isPending, type StorableResponse, statusOf } from '../../../responses/storable-response.ts';
import {
  type AnswerReader,
  type AnswerWriter,
  type FrameResult,
  failureIn,
  unreadableEvent,
  type WrittenEnd,
} from '../../response-stream.ts';

const TERMINAL = new Set(['response.completed', 'response.incomplete', 'response.failed']);
/** Events in which a provider may repeat the credentials it was given. */
const FAILURES = new Set<unknown>(['error', 'response.failed']);

/** In JSON text this matches members only: inside a string the quotes would be escaped. */
const UNREAD: UnreadPattern = {
  start: 'event: response.output_text.delta\ndata: {',
  isRead: /"response"\s*:\s*{|"error"\s*:|"type"\s*:\s*"error"/g,
};

/** Events up to this size wait unread, for an answer that ends before its provider has sent it whole. */
const MAX_UNREAD_BYTES = 64 * 1024;

function isRun(events: JsonObject | UnreadFrames): events is UnreadFrames {
  return Buffer.isBuffer(events.raw);
}

/** The content of the provider's `error` event, after which `response.failed` has to follow. */
interface ReportedError {
  readonly code: string;
  readonly message: string;
}

interface ResponsesAnswerOptions {
  /**
   * Members that replace the provider's own in every response object, such as the gateway's id of the response. Without
   * any, a stream passes unchanged, and only a whole answer gets the member `provider`.
   */
  readonly echo?: Readonly<JsonObject> | undefined;
  /** The response without any output, for a stream that fails before its provider has sent one. */
  readonly shell?: () => object;
  /** Whether the provider continues a response whose stream ends early, as it does for background responses. */
  readonly providerRuns?: boolean;
}

export class ResponsesAnswer implements AnswerReader, AnswerWriter {
  readonly namesEvents = true;
  /** The provider's own id of the response. */
  answerId: string | undefined;
  readonly #provider: Answering;
  readonly #options: ResponsesAnswerOptions;
  readonly #items = new StreamedItems();
  /** Events, and runs of them, that `#items` has not observed. */
  #unread: (JsonObject | UnreadFrames)[] = [];
  #unreadBytes = 0;
  /** The newest response object. */
  #response: JsonObject | undefined;
  /** A whole answer, as the client received it. */
  #whole: string | undefined;
  /** Sequence number of the last event. */
  #sequence = -1;
  #isEnded = false;
  #reported: ReportedError | undefined;
  #isWritten = false;

  constructor(provider: Answering, options: ResponsesAnswerOptions = {}) {
    this.#provider = provider;
    this.#options = options;
  }

  readWhole(bytes: Buffer, parsed: unknown) {
    const given = checkedResponse(parsed, this.#provider.name);
    const replaced = { ...this.#options.echo, provider: this.#provider.name };
    const answer = { ...given, ...replaced };
    this.answerId = filled(given['id']);
    this.#response = answer;
    const unusable = unusableId(answer, this.#provider.name);
    if (unusable !== undefined) throw unusable;
    const texts = Object.entries(replaced).map(([name, value]) => [name, JSON.stringify(value)]);
    const written = rewriteMembers(bytes, Object.fromEntries(texts));
    this.#whole = written.toString();
    return { answer, bytes: written };
  }

  read(frame: Frame): FrameResult {
    const { data, raw } = frame;
    // Clients stop reading at the end marker, so it is not passed on before the end of the response.
    if (data === END_MARKER && !this.#isEnded) return { terminal: false };
    if (data === undefined || data === END_MARKER) return { bytes: raw, terminal: this.#isEnded };
    const parsed = parseChunk(data);
    if (parsed === undefined) {
      return data.trim() === '' ? { bytes: raw, terminal: this.#isEnded } : unreadableEvent(frame, this.#provider);
    }
    const record = FAILURES.has(parsed.type) ? redacted(raw, this.#provider) : raw;
    const given = record === raw ? parsed : (parseChunk(this.#provider.redact?.(data) ?? data) ?? parsed);
    const failure = given.type === undefined ? failureIn(given, frame, this.#provider) : undefined;
    if (failure !== undefined) return failure;
    let event: JsonObject = given;
    let bytes = record;
    if (isObject(given.response)) {
      this.answerId ??= filled(given.response.id);
      const { echo } = this.#options;
      if (echo !== undefined) {
        event = { ...given, response: { ...given.response, ...echo, provider: this.#provider.name } };
        bytes = encodeEvent(event, true);
      }
    }
    this.#noteFacts(event);
    const unusable = isObject(event.response) ? unusableId(event.response, this.#provider.name) : undefined;
    if (unusable !== undefined) return { terminal: true, refusal: unusable };
    this.#noteItem(event, raw.length);
    const refusal = event.type === 'response.failed' ? this.#failureOf(event.response) : undefined;
    return { bytes, events: [event], record, terminal: this.#isEnded, refusal };
  }

  readonly unread = UNREAD;

  passRun(run: UnreadFrames): void {
    this.#readLater(run, run.raw.length);
  }

  usage(): TokenUsage {
    return readUsage(this.#response?.['usage']);
  }

  deferredWork(): DeferredWork | undefined {
    const { id, status } = this.#response ?? {};
    if (this.#options.providerRuns !== true || this.#reported !== undefined) return undefined;
    if (typeof id !== 'string' || typeof status !== 'string') return undefined;
    return isPending({ status }) ? { kind: 'response', id } : undefined;
  }

  writeWhole(response: unknown): JsonObject {
    this.#response = checkedResponse(response, this.#provider.name);
    return this.#response;
  }

  write(event: JsonObject): readonly JsonObject[] {
    this.#isWritten = true;
    this.#noteFacts(event);
    this.#noteItem(event, MAX_UNREAD_BYTES);
    return [event];
  }

  finish(): WrittenEnd {
    if (!this.#isEnded) return { events: this.broken(streamIncomplete(this.#provider.name)), cut: true };
    return { events: this.#isWritten ? [END_MARKER] : [], cut: false };
  }

  broken(refusal: Refusal): readonly ClientEvent[] {
    return this.abandon({ refusal, status: 'failed' });
  }

  abandon({ refusal, status }: EarlyEnd): readonly ClientEvent[] {
    if (this.#isEnded) return [];
    this.#readNow();
    if (this.#reported !== undefined) return this.#endAs(status, this.#reported);
    if (this.deferredWork() !== undefined) return streamEndsEarly(this.#sequence, refusal);
    this.#sequence += 1;
    const error = responseErrorEvent(this.#sequence, refusal);
    return [error, ...this.#endAs(status, { type: refusal.type, ...failureForClients(refusal) })];
  }

  filtered(): readonly ClientEvent[] {
    return this.#isEnded ? [] : this.#endAs('incomplete', {});
  }

  get finishReason(): string | null {
    const status = this.#response?.['status'];
    return typeof status === 'string' ? status : null;
  }

  response(): StorableResponse | undefined {
    const response = this.#response;
    if (response === undefined || typeof response['id'] !== 'string') return undefined;
    return {
      id: response['id'],
      status: statusOf(response) ?? 'completed',
      json: this.#whole ?? JSON.stringify(response),
      output: Array.isArray(response['output']) ? response['output'] : [],
    };
  }

  #noteFacts(event: JsonObject): void {
    const { type, response } = event;
    if (type === 'error') {
      const { code, message } = isObject(event['error']) ? event['error'] : event;
      this.#reported = {
        code: typeof code === 'string' ? code : 'provider_error',
        message: typeof message === 'string' ? message : `The provider '${this.#provider.name}' reported an error.`,
      };
    } else if (isObject(response)) {
      this.#response = response;
      if (typeof type === 'string' && TERMINAL.has(type)) this.#isEnded = true;
    }
  }

  #noteItem(event: JsonObject, bytes: number): void {
    // The terminal event has the whole output.
    if (this.#isEnded) this.#unread = [];
    this.#readLater(event, bytes);
  }

  #readLater(events: JsonObject | UnreadFrames, bytes: number): void {
    this.#unread.push(events);
    this.#unreadBytes += bytes;
    if (this.#unreadBytes >= MAX_UNREAD_BYTES) this.#readNow();
  }

  /** Brings the items and the sequence number up to date. */
  #readNow(): void {
    for (const one of this.#unread) {
      if (!isRun(one)) this.#observe(one);
      else for (const data of dataOf(one, UNREAD)) this.#observe(parseChunk(data) ?? {});
    }
    this.#unread = [];
    this.#unreadBytes = 0;
  }

  /** The item of the event is kept, and changed by later events. */
  #observe(event: JsonObject): void {
    const { type, response, sequence_number: sequence } = event;
    if (typeof sequence === 'number') this.#sequence = sequence;
    if (type !== 'error' && !isObject(response)) this.#items.observe(event);
  }

  /** Ends the response, with its output so far, before its provider did. `incomplete`: by a guardrail. */
  #endAs(status: EarlyEnd['status'] | 'incomplete', error: object): readonly ClientEvent[] {
    this.#readNow();
    const items = this.#items.atEnd();
    const begun: JsonObject = { ...(this.#response ?? this.#options.shell?.()), provider: this.#provider.name };
    this.#isEnded = true;
    this.#response = {
      ...begun,
      status,
      error: status === 'failed' ? { type: 'provider_error', ...error } : null,
      completed_at: null,
      incomplete_details: status === 'incomplete' ? { reason: 'content_filter' } : null,
      output: items.length > 0 || !Array.isArray(begun['output']) ? items : begun['output'],
    };
    this.#sequence += 1;
    const type = status === 'incomplete' ? 'response.incomplete' : 'response.failed';
    return [{ type, sequence_number: this.#sequence, response: this.#response }, END_MARKER];
  }

  #failureOf(response: unknown): Refusal {
    const error = isObject(response) && isObject(response.error) ? response.error : {};
    const body = Buffer.from(JSON.stringify({ error }));
    return refusalFromUpstream(mapUpstreamError({ status: 200, headers: {}, body, provider: this.#provider }));
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
    if (type === 'response.mcp_call.in_progress' && isGatewayItemId(item.id)) item.status = 'calling';
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
  if (item.status === 'calling' && isGatewayItemId(item.id)) return interruptedCall(item);
  if (!('status' in item) && !WITH_STATUS.has(item.type)) return item;
  return { ...item, status: FAILED_WHEN_INCOMPLETE.has(item.type) ? 'failed' : 'incomplete' };
}

/** `content_part.added` and `.done`, `reasoning_summary_part.added` and `.done`. */
function setPart(item: Item, event: Record<string, unknown>, part: Record<string, unknown>): void {
  const list = 'summary_index' in event ? 'summary' : 'content';
  const index = list === 'summary' ? event.summary_index : event.content_index;
  if (typeof index === 'number') keepPart(partsOf(item, list), index, { ...part });
}

function addDelta(item: Item, event: Record<string, unknown>, delta: string): void {
  const member = MEMBER_DELTAS.get(event.type);
  if (member !== undefined) {
    const text = item[member];
    item[member] = typeof text === 'string' ? text + delta : delta;
    return;
  }
  const place = PART_DELTAS.get(event.type);
  if (place === undefined) return;
  const parts = partsOf(item, place.list);
  const index = event[place.index];
  if (typeof index !== 'number') return;
  const part = parts[index];
  if (!isObject(part)) {
    keepPart(parts, index, { type: place.type, [place.member]: delta });
    return;
  }
  const text = part[place.member];
  part[place.member] = typeof text === 'string' ? text + delta : delta;
}

function addAnnotation(item: Item, event: Record<string, unknown>): void {
  if (typeof event.content_index !== 'number') return;
  const part = partsOf(item, 'content')[event.content_index];
  if (isObject(part) && Array.isArray(part.annotations)) part.annotations.push(event.annotation);
}

/** The list of parts of an item. */
function partsOf(item: Item, list: 'content' | 'summary'): unknown[] {
  const known: unknown = item[list];
  if (Array.isArray(known)) return known;
  const parts: unknown[] = [];
  item[list] = parts;
  return parts;
}

/** A part with too high an index is appended. */
function keepPart(parts: unknown[], index: number, part: Item): void {
  parts[Math.min(index, parts.length)] = part;
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

// The `error` event of a Responses stream: flat as in OpenAI's API, nested as in Open Responses.

/** The code is never null: without one of its own, an error has that of its type, as in translated streams. */
function responseErrorEvent(sequenceNumber: number, refusal: Refusal, note = ''): ClientEvent {
  const { type, param, provider } = refusal;
  const { code, message: reason } = failureForClients(refusal);
  const message = `${reason}${note}`;
  const error = { type, code, message, param, ...(provider === undefined ? {} : { provider }) };
  return { type: 'error', sequence_number: sequenceNumber, code, message, param, error };
}

/**
 * The end of a stream whose response continues at its provider. The event carries the sequence number of the last
 * event sent, so that a client that resumes from there misses nothing.
 */
export function streamEndsEarly(lastNumber: number, refusal: Refusal): readonly ClientEvent[] {
  const note = ' The provider continues the response: retrieve it by its id.';
  return [responseErrorEvent(Math.max(0, lastNumber), refusal, note), END_MARKER];
}

/** Writes chat completion chunks for a client of the Responses API. */
export class ResponsesFromChat implements AnswerWriter {
  readonly namesEvents = true;
  readonly #shell: ResponseShell;
  /** Unix seconds. */
  readonly #now: () => number;
  readonly #translator: ChatStreamTranslator;
  #whole: StorableResponse | undefined;

  constructor(shell: ResponseShell, now: () => number) {
    this.#shell = shell;
    this.#now = now;
    this.#translator = createChatStreamTranslator(shell);
  }

  writeWhole(completion: unknown): object {
    const answer = responseFromChat(completion, this.#shell, this.#now());
    if (!answer.ok) throw refusals.badAnswer(this.#shell.provider, answer.error.message, answer.error.code);
    const { id, status, output } = answer.response;
    this.#whole = { id, status, json: JSON.stringify(answer.response), output };
    return answer.response;
  }

  write(chunk: JsonObject): readonly ClientEvent[] {
    return this.#translator.push(chunk);
  }

  get ended(): boolean {
    return this.#translator.ended !== undefined;
  }

  finish(): WrittenEnd {
    const events = this.#translator.finish({ completedAt: this.#now(), endMarker: false });
    return { events: [...events, END_MARKER], cut: this.#translator.ended === 'response.failed' };
  }

  broken(refusal: Refusal): readonly ClientEvent[] {
    return [...this.#translator.fail(refusal), END_MARKER];
  }

  abandon({ refusal, status }: EarlyEnd): readonly ClientEvent[] {
    return this.ended ? [] : [...this.#translator.fail(refusal, status), END_MARKER];
  }

  get finishReason(): string | null {
    return (this.#whole ?? this.#translator.snapshot()).status;
  }

  response(): StorableResponse | undefined {
    if (this.#whole !== undefined) return this.#whole;
    const response = this.#translator.snapshot();
    const { id, status, output } = response;
    return { id, status, json: JSON.stringify(response), output };
  }
}
