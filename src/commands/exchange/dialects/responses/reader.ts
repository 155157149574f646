/** Reads the answer of a provider with a Responses API, as events of that API. */
import { isObject } from '../../../../json/is-object.ts';
import type { Frame } from '../../../../providers/sse.ts';
import { filled, type JsonObject } from '../../../../providers/translate/json.ts';
import { mapUpstreamError } from '../../../../providers/upstream-error.ts';
import type { DeferredWork } from '../../../model-request/deferred-work.ts';
import { parseChunk } from '../../../model-request/parse-chunk.ts';
import { type Answering, redacted } from '../../../model-request/redacted.ts';
import { refusalFromUpstream } from '../../../model-request/refusal-from-upstream.ts';
import type { TokenUsage } from '../../../model-request/usage.ts';
import type { Refusal } from '../../../refusal.ts';
import {
  type AnswerReader,
  type FrameEvents,
  type FrameOutcome,
  failureIn,
  unreadableEvent,
  withoutEvents,
} from '../../relay.ts';
import { checkedResponse, ResponseFacts, unusableId } from './response-facts.ts';

/** Events in which a provider may repeat the credentials it was given. */
const FAILURES = new Set<unknown>(['error', 'response.failed']);

export interface ReadEvent {
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
