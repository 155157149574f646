/** A chat completion: the facts of a native one, read from its chunks, and its reader and its writer for translations. */
import { isObject } from '../../../../json/is-object.ts';
import type { Frame } from '../../../../providers/stream-frames.ts';
import type { ChatReader } from '../../../../providers/translate/chat-adapter.ts';
import { filled, type JsonObject } from '../../../../providers/translate/json.ts';
import { type Answering, isNoEvent, parseChunk } from '../../../model-request/answer-body.ts';
import { gatewayStopping, streamIncomplete } from '../../../model-request/upstream-refusals.ts';
import { isReported, readUsage, type TokenUsage, unknownUsage } from '../../../model-request/usage.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import {
  type AnswerObserver,
  type AnswerReader,
  type AnswerWriter,
  type FrameAnswer,
  type FrameEvents,
  failureIn,
  joined,
  unreadableEvent,
  withoutEvents,
} from '../../relay.ts';

export class ObservedCompletion {
  usage: TokenUsage = unknownUsage;
  finishReason: string | null = null;
  answerId: string | undefined;
  /** Whether the client has received the end marker. */
  marked = false;

  /** @param part a chunk, or a whole completion */
  note(part: JsonObject): void {
    this.answerId ??= filled(part['id']);
    if (isObject(part['usage'])) this.usage = readUsage(part['usage']);
    this.finishReason = finishReasonIn(part['choices']) ?? this.finishReason;
  }
}

/** @throws Refusal when a whole answer has no choice, or a choice without a message or text */
function checkedCompletion(answer: unknown, provider: string): JsonObject {
  const choices = isObject(answer) && Array.isArray(answer.choices) ? answer.choices : [];
  if (!isObject(answer) || choices.length === 0) {
    throw refusals.badAnswer(provider, `The provider '${provider}' gave an answer without a choice.`);
  }
  // Guardrails write text completions as chat completions.
  const hasText = answer.object === 'text_completion';
  if (!choices.every((one) => isObject(one) && (hasText ? typeof one.text === 'string' : isObject(one.message)))) {
    const missing = hasText ? 'text' : 'a message';
    throw refusals.badAnswer(provider, `The provider '${provider}' gave a choice without ${missing}.`);
  }
  return answer;
}

/** Whether this is the usage chunk, which a client gets only when it requested it. */
function isUsageOnly({ usage, choices }: JsonObject): boolean {
  return isObject(usage) && Array.isArray(choices) && choices.length === 0;
}

/** The finish reason in this completion or chunk, if any. */
function finishReasonIn(choices: unknown): string | undefined {
  if (!Array.isArray(choices)) return undefined;
  const finished = choices.findLast((choice) => isObject(choice) && filled(choice.finish_reason) !== undefined);
  return filled(finished?.finish_reason);
}

// Relays chat completions to a client of the chat API: the provider's bytes, unchanged.

/** In JSON text this matches members only: inside a string the quotes would be escaped. */
const SAYS_MORE =
  /"(?:usage|error)"\s*:\s*[{"]|"finish_reason"\s*:\s*"|"object"\s*:\s*"error"|"error_code"\s*:|^{\s*"detail"/;

export class ChatObserver implements AnswerObserver {
  readonly #provider: Answering;
  readonly #completion: ObservedCompletion;
  /** Whether the client gets the usage chunk; one that only the gateway requested is recorded and not passed on. */
  readonly #passesUsage: boolean;
  /** The first chunk, kept until the id of the answer is known: nearly always a later chunk has to be parsed anyway. */
  #first: string | undefined;

  /** @param completion shared with the writer */
  constructor(provider: Answering, completion: ObservedCompletion, passesUsage: boolean) {
    this.#provider = provider;
    this.#completion = completion;
    this.#passesUsage = passesUsage;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    if (isObject(parsed)) this.#completion.note(parsed);
    return bytes;
  }

  frame(frame: Frame): FrameAnswer {
    const completion = this.#completion;
    if (frame.data === undefined) return { bytes: frame.raw, terminal: completion.marked };
    if (frame.data === '[DONE]') {
      // Without a finish reason the answer is not whole; the writer's `finish` reports it as cut.
      if (completion.finishReason === null) return { terminal: false };
      completion.marked = true;
      return { bytes: frame.raw, terminal: true };
    }
    // Most chunks hold only a few more words of text; they are not parsed.
    const chunk = frame.event === 'error' || SAYS_MORE.test(frame.data) ? parseChunk(frame.data) : undefined;
    if (chunk === undefined) {
      if (frame.event === 'error' || isNoEvent(frame.data)) return unreadableEvent(frame, this.#provider);
      this.#first ??= frame.data;
      return { bytes: frame.raw, terminal: completion.marked };
    }
    completion.note(chunk);
    const failure = failureIn(chunk, frame, this.#provider);
    if (failure !== undefined) return failure;
    if (!this.#passesUsage && isUsageOnly(chunk)) return { terminal: completion.marked };
    return { bytes: frame.raw, terminal: completion.marked };
  }

  usage(): TokenUsage {
    return this.#completion.usage;
  }

  answerId(): string | undefined {
    const completion = this.#completion;
    completion.answerId ??= this.#first === undefined ? undefined : filled(parseChunk(this.#first)?.id);
    return completion.answerId;
  }
}

/** Reads the answer of a provider, in any dialect, as chat completion chunks. */
export class ChatAnswerReader implements AnswerReader<JsonObject> {
  readonly #provider: Answering;
  readonly #reader: ChatReader;
  #usage: TokenUsage = unknownUsage;

  /** @param reader of the dialect that the provider speaks */
  constructor(provider: Answering, reader: ChatReader) {
    this.#provider = provider;
    this.#reader = reader;
  }

  whole(parsed: unknown): unknown {
    const completion = this.#reader.whole(parsed);
    if (isObject(completion)) this.#noteUsage(completion);
    return completion;
  }

  events(frame: Frame): FrameEvents<JsonObject> {
    const { data, call } = frame;
    const chunks = data === undefined ? (this.#reader.endOfCall?.(call) ?? []) : this.#reader.chunks(data, call);
    if (chunks === 'cut') return withoutEvents({ terminal: true, refusal: streamIncomplete(this.#provider.name) });
    if (chunks === undefined) return withoutEvents(unreadableEvent(frame, this.#provider));
    for (const chunk of chunks) {
      this.#noteUsage(chunk);
      const failure = failureIn(chunk, frame, this.#provider);
      if (failure !== undefined) return withoutEvents(failure);
    }
    return { events: chunks, terminal: this.#reader.ended };
  }

  usage(): TokenUsage {
    const usage = this.#usage === unknownUsage ? readUsage(this.#reader.counted) : this.#usage;
    const { reports } = this.#reader;
    if (reports === undefined || (usage === this.#usage && isReported(usage))) return usage;
    return { ...usage, byCall: reports.map((report) => ({ ...report, usage: readUsage(report.usage) })) };
  }

  answerId(): string | undefined {
    return this.#reader.answerId;
  }

  #noteUsage({ usage }: JsonObject): void {
    if (isObject(usage)) this.#usage = readUsage(usage);
  }
}

// Writes chat completion chunks for a client of the chat API.

const DONE = Buffer.from('data: [DONE]\n\n');

export class ChatWriter implements AnswerWriter<JsonObject> {
  readonly #provider: string;
  /** Whether the client gets the usage chunk. */
  readonly #passesUsage: boolean;
  readonly #completion: ObservedCompletion;
  /** The last chunk with a choice. */
  #last: JsonObject | undefined;
  /** The choices that have begun and not ended. */
  readonly #open = new Set<unknown>();

  /** @param completion shared with the observer where the provider's bytes pass unchanged */
  constructor(provider: string, passesUsage: boolean, completion = new ObservedCompletion()) {
    this.#provider = provider;
    this.#passesUsage = passesUsage;
    this.#completion = completion;
  }

  whole(completion: unknown): Buffer {
    this.#completion.note(checkedCompletion(completion, this.#provider));
    return Buffer.from(JSON.stringify(completion));
  }

  events(chunks: readonly JsonObject[]): Buffer | undefined {
    const bytes: Buffer[] = [];
    for (const chunk of chunks) {
      this.#completion.note(chunk);
      this.#noteChoices(chunk);
      if (this.#passesUsage || !isUsageOnly(chunk)) bytes.push(Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`));
    }
    return joined(bytes);
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    if (this.#completion.marked) return { cut: false };
    if (this.#completion.finishReason !== null) return { bytes: DONE, cut: false };
    return { bytes: this.broken(streamIncomplete(this.#provider)), cut: true };
  }

  broken(refusal: Refusal): Buffer {
    return chatStreamError(refusal);
  }

  abandon(): Buffer {
    return this.broken(gatewayStopping());
  }

  filtered(): Buffer {
    const { choices: _, usage: __, ...envelope } = this.#last ?? {};
    const empty = envelope['object'] === 'text_completion' ? { text: '' } : { delta: {} };
    const open = this.#open.size === 0 ? [0] : [...this.#open];
    const choices = open.map((index) => ({ index, ...empty, logprobs: null, finish_reason: 'content_filter' }));
    const end = this.events([{ ...envelope, choices }]);
    this.#completion.marked = true;
    return Buffer.concat(end === undefined ? [DONE] : [end, DONE]);
  }

  finishReason(): string | null {
    return this.#completion.finishReason;
  }

  #noteChoices(chunk: JsonObject): void {
    const { choices } = chunk;
    if (!Array.isArray(choices) || choices.length === 0) return;
    this.#last = chunk;
    for (const choice of choices.filter(isObject)) {
      if (choice.finish_reason == null) this.#open.add(choice.index);
      else this.#open.delete(choice.index);
    }
  }
}

/** The last frame of a chat stream that broke. */
export function chatStreamError(refusal: Refusal): Buffer {
  return Buffer.from(`data: ${JSON.stringify(refusal.envelope())}\n\n`);
}
