/**
 * Relays responses to a client of the Responses API: the provider's bytes, unchanged except for members that the
 * gateway replaces.
 */
import { rewriteMembers } from '../../../../providers/json-members.ts';
import type { Frame } from '../../../../providers/sse.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import type { DeferredWork } from '../../../model-request/deferred-work.ts';
import type { TokenUsage } from '../../../model-request/usage.ts';
import type { AnswerObserver, FrameAnswer } from '../../relay.ts';
import type { ObservedResponse } from './observed-response.ts';
import type { ResponsesReader } from './reader.ts';
import { responseEvent } from './response-error-event.ts';

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
