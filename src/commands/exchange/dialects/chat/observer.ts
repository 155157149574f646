/** Relays chat completions to a client of the chat API: the provider's bytes, unchanged. */
import { isObject } from '../../../../json/is-object.ts';
import type { Frame } from '../../../../providers/sse.ts';
import { filled } from '../../../../providers/translate/json.ts';
import { isNoEvent, parseChunk } from '../../../model-request/parse-chunk.ts';
import type { Answering } from '../../../model-request/redacted.ts';
import type { TokenUsage } from '../../../model-request/usage.ts';
import { type AnswerObserver, type FrameAnswer, failureIn, unreadableEvent } from '../../relay.ts';
import { isUsageOnly, type ObservedCompletion } from './observed-completion.ts';

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
