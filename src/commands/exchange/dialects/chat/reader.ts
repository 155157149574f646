/** Reads the answer of a provider, in any dialect, as chat completion chunks. */
import { isObject } from '../../../../json/is-object.ts';
import type { Frame } from '../../../../providers/sse.ts';
import type { ChatReader } from '../../../../providers/translate/chat-adapter.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import type { Answering } from '../../../model-request/redacted.ts';
import { streamIncomplete } from '../../../model-request/stream-refusals.ts';
import { readUsage, type TokenUsage, unknownUsage } from '../../../model-request/usage.ts';
import { type AnswerReader, type FrameEvents, failureIn, unreadableEvent, withoutEvents } from '../../relay.ts';

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
    return this.#usage === unknownUsage ? readUsage(this.#reader.counted) : this.#usage;
  }

  answerId(): string | undefined {
    return this.#reader.answerId;
  }

  #noteUsage({ usage }: JsonObject): void {
    if (isObject(usage)) this.#usage = readUsage(usage);
  }
}
