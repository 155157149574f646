/** A chat completion: passed on unchanged, written for a client, or read from another dialect. */
import { isObject } from '../../../../json/is-object.ts';
import { dataOf, type Frame, type UnreadFrames, type UnreadPattern } from '../../../../providers/stream-frames.ts';
import type { ChatReader } from '../../../../providers/translate/chat-adapter.ts';
import { type ClientEvent, END_MARKER, filled, type JsonObject } from '../../../../providers/translate/json.ts';
import { type Answering, isNoEvent, parseChunk } from '../../../model-request/answer-body.ts';
import { gatewayStopping, streamIncomplete } from '../../../model-request/upstream-refusals.ts';
import { isReported, readUsage, type TokenUsage, unknownUsage } from '../../../model-request/usage.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import {
  type AnswerReader,
  type AnswerWriter,
  type FrameResult,
  failureIn,
  unreadableEvent,
  type WrittenEnd,
} from '../../response-stream.ts';

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

/** In JSON text this matches members only: inside a string the quotes would be escaped. */
const SAYS_MORE =
  /"(?:usage|error)"\s*:\s*[{"]|"finish_reason"\s*:\s*"|"object"\s*:\s*"error"|"error_code"\s*:|^{\s*"detail"/;

const UNREAD: UnreadPattern = { start: 'data: {', isRead: new RegExp(SAYS_MORE.source.replace('^', 'data: '), 'g') };

/** A chat completion for a client of the chat API: the provider's bytes, unchanged, or chunks that are written. */
export class ChatCompletionAnswer implements AnswerReader, AnswerWriter {
  readonly namesEvents = false;
  finishReason: string | null = null;
  readonly #provider: Answering;
  /** Whether the client gets the usage chunk; one that only the gateway requested is recorded and not passed on. */
  readonly #passesUsage: boolean;
  #usage: TokenUsage = unknownUsage;
  #answerId: string | undefined;
  /** The first chunk, kept until the id of the answer is known: nearly always a later chunk has to be parsed anyway. */
  #first: string | undefined;
  /** Whether the client has received the end marker. */
  #isMarked = false;
  /** Of a written answer: the last chunk with a choice, and the choices that have begun and not ended. */
  #last: JsonObject | undefined;
  #open: Set<unknown> | undefined;

  constructor(provider: Answering, passesUsage: boolean) {
    this.#provider = provider;
    this.#passesUsage = passesUsage;
  }

  readWhole(bytes: Buffer, parsed: unknown) {
    if (isObject(parsed)) this.#note(parsed);
    return { answer: parsed, bytes };
  }

  read(frame: Frame): FrameResult {
    const { data, raw } = frame;
    if (data === undefined) return { bytes: raw, terminal: this.#isMarked };
    if (data === END_MARKER) {
      // Without a finish reason the answer is not whole; `finish` reports it as cut.
      if (this.finishReason === null) return { terminal: false };
      this.#isMarked = true;
      return { bytes: raw, terminal: true };
    }
    // Most chunks hold only a few more words of text; they are not parsed.
    const chunk = frame.event === 'error' || SAYS_MORE.test(data) ? parseChunk(data) : undefined;
    if (chunk === undefined) {
      if (frame.event === 'error' || isNoEvent(data)) return unreadableEvent(frame, this.#provider);
      this.#first ??= data;
      return { bytes: raw, terminal: this.#isMarked };
    }
    this.#note(chunk);
    const failure = failureIn(chunk, frame, this.#provider);
    if (failure !== undefined) return failure;
    if (!this.#passesUsage && isUsageOnly(chunk)) return { terminal: this.#isMarked };
    return { bytes: raw, events: [chunk], terminal: this.#isMarked };
  }

  readonly unread = UNREAD;

  passRun(run: UnreadFrames): void {
    if (this.#first === undefined) [this.#first] = dataOf(run, UNREAD);
  }

  usage(): TokenUsage {
    return this.#usage;
  }

  get answerId(): string | undefined {
    this.#answerId ??= this.#first === undefined ? undefined : filled(parseChunk(this.#first)?.id);
    return this.#answerId;
  }

  writeWhole(completion: unknown): JsonObject {
    const answer = checkedCompletion(completion, this.#provider.name);
    this.#note(answer);
    return answer;
  }

  write(chunk: JsonObject): readonly JsonObject[] {
    this.#note(chunk);
    const { choices } = chunk;
    if (Array.isArray(choices) && choices.length > 0) {
      this.#last = chunk;
      this.#open ??= new Set();
      for (const choice of choices.filter(isObject)) {
        if (choice.finish_reason == null) this.#open.add(choice.index);
        else this.#open.delete(choice.index);
      }
    }
    return this.#passesUsage || !isUsageOnly(chunk) ? [chunk] : [];
  }

  finish(): WrittenEnd {
    if (this.#isMarked) return { events: [], cut: false };
    if (this.finishReason !== null) return { events: [END_MARKER], cut: false };
    return { events: this.broken(streamIncomplete(this.#provider.name)), cut: true };
  }

  broken(refusal: Refusal): readonly ClientEvent[] {
    return [refusal.envelope()];
  }

  abandon(): readonly ClientEvent[] {
    return this.broken(gatewayStopping());
  }

  filtered(): readonly ClientEvent[] {
    const { choices: _, usage: __, ...envelope } = this.#last ?? {};
    const empty = envelope['object'] === 'text_completion' ? { text: '' } : { delta: {} };
    const open = this.#open === undefined || this.#open.size === 0 ? [0] : [...this.#open];
    const choices = open.map((index) => ({ index, ...empty, logprobs: null, finish_reason: 'content_filter' }));
    const end = this.write({ ...envelope, choices });
    this.#isMarked = true;
    return [...end, END_MARKER];
  }

  /** @param part a chunk, or a whole completion */
  #note(part: JsonObject): void {
    const { usage, choices } = part;
    this.#answerId ??= filled(part['id']);
    if (isObject(usage)) this.#usage = readUsage(usage);
    if (!Array.isArray(choices)) return;
    const finished = choices.findLast((choice) => isObject(choice) && filled(choice.finish_reason) !== undefined);
    this.finishReason = filled(finished?.finish_reason) ?? this.finishReason;
  }
}

/** Reads the answer of a provider, in any dialect, as chat completion chunks. */
export class ChatAnswerReader implements AnswerReader {
  readonly #provider: Answering;
  readonly #reader: ChatReader;
  #usage: TokenUsage = unknownUsage;

  /** @param reader of the dialect that the provider speaks */
  constructor(provider: Answering, reader: ChatReader) {
    this.#provider = provider;
    this.#reader = reader;
  }

  readWhole(_bytes: Buffer, parsed: unknown) {
    const answer = this.#reader.whole(parsed);
    if (isObject(answer)) this.#noteUsage(answer);
    return { answer };
  }

  read(frame: Frame): FrameResult {
    const { data, call } = frame;
    const chunks = data === undefined ? (this.#reader.endOfCall?.(call) ?? []) : this.#reader.chunks(data, call);
    if (chunks === 'cut') return { terminal: true, refusal: streamIncomplete(this.#provider.name) };
    if (chunks === undefined) return unreadableEvent(frame, this.#provider);
    for (const chunk of chunks) {
      this.#noteUsage(chunk);
      const failure = failureIn(chunk, frame, this.#provider);
      if (failure !== undefined) return failure;
    }
    return { events: chunks, terminal: this.#reader.ended };
  }

  usage(): TokenUsage {
    const usage = this.#usage === unknownUsage ? readUsage(this.#reader.counted) : this.#usage;
    const { reports } = this.#reader;
    if (reports === undefined || (usage === this.#usage && isReported(usage))) return usage;
    return { ...usage, byCall: reports.map((report) => ({ ...report, usage: readUsage(report.usage) })) };
  }

  get answerId(): string | undefined {
    return this.#reader.answerId;
  }

  #noteUsage({ usage }: JsonObject): void {
    if (isObject(usage)) this.#usage = readUsage(usage);
  }
}
