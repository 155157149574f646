/** Writes Responses events for a client of the Responses API, and observes those that are passed on unchanged. */

import type { Frame } from '../../../../providers/stream-frames.ts';
import {
  DONE,
  encodeResponseEvent,
  failureForClients,
  type ResponseEvent,
  type ResponseShell,
} from '../../../../providers/translate/chat-to-responses/response-object.ts';
import {
  type ChatStreamTranslator,
  createChatStreamTranslator,
  responseFromChat,
} from '../../../../providers/translate/chat-to-responses/stream.ts';
import { type JsonObject, rewriteMembers } from '../../../../providers/translate/json.ts';
import { type EarlyEnd, streamIncomplete } from '../../../model-request/upstream-refusals.ts';
import type { DeferredWork, TokenUsage } from '../../../model-request/usage.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import type { StorableResponse } from '../../../responses/storable-response.ts';
import { type AnswerObserver, type AnswerWriter, type FrameAnswer, joined } from '../../relay.ts';
import { checkedResponse, ObservedResponse, ResponseFacts, type ResponsesReader } from './answer.ts';

interface ResponsesWriterOptions {
  /** Shared with the observer where the provider's bytes pass unchanged. */
  readonly response?: ObservedResponse;
  /** The response without any output, for a stream that fails before its provider has sent one. */
  readonly shell?: () => object;
}

export class ResponsesWriter implements AnswerWriter<JsonObject> {
  readonly #provider: string;
  readonly #response: ObservedResponse;
  readonly #shell: (() => object) | undefined;
  #writesEvents = false;

  constructor(provider: string, { response, shell }: ResponsesWriterOptions = {}) {
    this.#provider = provider;
    this.#response = response ?? new ObservedResponse(new ResponseFacts(provider));
    this.#shell = shell;
  }

  whole(response: unknown): Buffer {
    this.#response.facts.response = checkedResponse(response, this.#provider);
    this.#response.whole = Buffer.from(JSON.stringify(response));
    return this.#response.whole;
  }

  events(events: readonly JsonObject[]): Buffer | undefined {
    this.#writesEvents = true;
    return joined(events.map((event) => this.#written(event)));
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    if (!this.#response.facts.ended) return { bytes: this.broken(streamIncomplete(this.#provider)), cut: true };
    return { bytes: this.#writesEvents ? DONE : undefined, cut: false };
  }

  broken(refusal: Refusal): Buffer | undefined {
    return this.abandon({ refusal, status: 'failed' });
  }

  abandon({ refusal, status }: EarlyEnd): Buffer | undefined {
    const { facts } = this.#response;
    if (facts.ended) return undefined;
    if (facts.reported !== undefined) return this.#endAs(status, facts.reported);
    if (facts.deferredWork() !== undefined) return streamEndsEarly(this.#response.sequence, refusal);
    this.#response.sequence += 1;
    const error = responseErrorEvent(this.#response.sequence, refusal);
    return Buffer.concat([error, this.#endAs(status, { type: refusal.type, ...failureForClients(refusal) })]);
  }

  filtered(): Buffer | undefined {
    const { facts } = this.#response;
    if (facts.ended) return undefined;
    const response = this.#response.endAs('incomplete', {}, this.#shell);
    this.#response.sequence += 1;
    const type = 'response.incomplete';
    return Buffer.concat([responseEvent({ type, sequence_number: this.#response.sequence, response }), DONE]);
  }

  finishReason(): string | null {
    const status = this.#response.facts.response?.['status'];
    return typeof status === 'string' ? status : null;
  }

  response(): StorableResponse | undefined {
    return this.#response.storable();
  }

  /** Encoded first, because later events may change the objects that are noted from this one. */
  #written(event: JsonObject): Buffer {
    const bytes = responseEvent(event);
    this.#response.facts.note(event);
    this.#response.noteItems(event);
    return bytes;
  }

  #endAs(status: EarlyEnd['status'], error: object): Buffer {
    const response = this.#response.endAs(status, error, this.#shell);
    this.#response.sequence += 1;
    const type = 'response.failed';
    return Buffer.concat([responseEvent({ type, sequence_number: this.#response.sequence, response }), DONE]);
  }
}

/**
 * Relays responses to a client of the Responses API: the provider's bytes, unchanged except for members that the
 * gateway replaces.
 */
export class ResponsesObserver implements AnswerObserver {
  readonly #reader: ResponsesReader;
  readonly #response: ObservedResponse;

  /**
   * @param reader with the facts of `response`
   * @param response shared with the writer
   */
  constructor(reader: ResponsesReader, response: ObservedResponse) {
    this.#reader = reader;
    this.#response = response;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    this.#reader.whole(parsed);
    this.#response.whole = rewriteMembers(bytes, textsOf(this.#reader.replaced()));
    return this.#response.whole;
  }

  frame(frame: Frame): FrameAnswer {
    const { data, raw } = frame;
    const { facts } = this.#response;
    // Clients stop reading at the end marker, so it is not passed on before the end of the response.
    if (data === '[DONE]') return facts.ended ? { bytes: raw, terminal: true } : { terminal: false };
    const read = data === undefined ? undefined : this.#reader.read(frame, data);
    if (read === undefined) return { bytes: raw, terminal: facts.ended };
    if (!('event' in read)) return read;
    const { event, record, echoed, refusal } = read;
    this.#response.noteItems(event);
    const bytes = echoed ? responseEvent(event) : record;
    return { bytes, record, terminal: facts.ended, refusal };
  }

  usage(): TokenUsage {
    return this.#reader.usage();
  }

  answerId(): string | undefined {
    return this.#reader.answerId();
  }

  deferredWork(): DeferredWork | undefined {
    return this.#reader.deferredWork();
  }
}

function textsOf(members: JsonObject): Record<string, string> {
  return Object.fromEntries(Object.entries(members).map(([name, value]) => [name, JSON.stringify(value)]));
}

// The `error` event of a Responses stream: flat as in OpenAI's API, nested as in Open Responses.

/** The code is never null: without one of its own, an error has that of its type, as in translated streams. */
function responseErrorEvent(sequenceNumber: number, refusal: Refusal, note = ''): Buffer {
  const { type, param, provider } = refusal;
  const { code, message: reason } = failureForClients(refusal);
  const message = `${reason}${note}`;
  const error = { type, code, message, param, ...(provider === undefined ? {} : { provider }) };
  return responseEvent({ type: 'error', sequence_number: sequenceNumber, code, message, param, error });
}

/**
 * The end of a stream whose response continues at its provider. The event carries the sequence number of the last
 * event sent, so that a client that resumes from there misses nothing.
 */
export function streamEndsEarly(lastNumber: number, refusal: Refusal): Buffer {
  const note = ' The provider continues the response: retrieve it by its id.';
  return Buffer.concat([responseErrorEvent(Math.max(0, lastNumber), refusal, note), DONE]);
}

/** One whole server-sent event, named by its `type`. */
function responseEvent(event: Readonly<Record<string, unknown>>): Buffer {
  const { type } = event;
  const name = typeof type === 'string' ? `event: ${type}\n` : '';
  return Buffer.from(`${name}data: ${JSON.stringify(event)}\n\n`);
}

/** Writes chat completion chunks for a client of the Responses API. */
export class ResponsesFromChatWriter implements AnswerWriter<JsonObject> {
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

  whole(completion: unknown): Buffer {
    const answer = responseFromChat(completion, this.#shell, this.#now());
    if (!answer.ok) throw refusals.badAnswer(this.#shell.provider, answer.error.message, answer.error.code);
    const { id, status, output } = answer.response;
    this.#whole = { id, status, json: JSON.stringify(answer.response), output };
    return Buffer.from(this.#whole.json);
  }

  events(chunks: readonly JsonObject[]): Buffer | undefined {
    return joined(chunks.flatMap((chunk) => this.#translator.push(chunk)).map(encodeResponseEvent));
  }

  get ended(): boolean {
    return this.#translator.ended !== undefined;
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    const events = this.#translator.finish({ completedAt: this.#now(), endMarker: false });
    return { bytes: lastBytes(events), cut: this.#translator.ended === 'response.failed' };
  }

  broken(refusal: Refusal): Buffer | undefined {
    return this.ended ? DONE : lastBytes(this.#translator.fail(refusal));
  }

  abandon({ refusal, status }: EarlyEnd): Buffer | undefined {
    return this.ended ? undefined : lastBytes(this.#translator.fail(refusal, status));
  }

  finishReason(): string | null {
    return (this.#whole ?? this.#translator.snapshot()).status;
  }

  response(): StorableResponse | undefined {
    if (this.#whole !== undefined) return this.#whole;
    const response = this.#translator.snapshot();
    const { id, status, output } = response;
    return { id, status, json: JSON.stringify(response), output };
  }
}

function lastBytes(events: readonly ResponseEvent[]): Buffer {
  return Buffer.concat([...events.map(encodeResponseEvent), DONE]);
}
