/** Responses to a client whose model sits behind a chat provider: translated, answer and stream. */
import type { Frame } from '../../providers/sse.ts';
import { responseFromChat } from '../../providers/translate/responses-to-chat/answer.ts';
import {
  DONE,
  encodeResponseEvent,
  type ResponseEvent,
} from '../../providers/translate/responses-to-chat/response-events.ts';
import type { ResponseShell } from '../../providers/translate/responses-to-chat/response-object.ts';
import {
  type ChatStreamTranslator,
  createChatStreamTranslator,
} from '../../providers/translate/responses-to-chat/stream.ts';
import { isErrorBody, mapUpstreamError } from '../../providers/upstream-error.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { refusalFromUpstream } from './refusal-from-upstream.ts';
import { type Answering, type FrameAnswer, type Relay, redacted, type StorableResponse } from './relay.ts';
import { parseChunk, streamIncomplete } from './relay-chat.ts';
import { isObject, readUsage, type TokenUsage, unknownUsage } from './usage.ts';

export class TranslatedResponsesRelay implements Relay {
  readonly #provider: Answering;
  readonly #shell: ResponseShell;
  /** Unix seconds. */
  readonly #now: () => number;
  readonly #translator: ChatStreamTranslator;
  #whole: StorableResponse | undefined;
  #usage: TokenUsage = unknownUsage;
  #endMarker = false;

  constructor(provider: Answering, shell: ResponseShell, now: () => number) {
    this.#provider = provider;
    this.#shell = shell;
    this.#now = now;
    this.#translator = createChatStreamTranslator(shell);
  }

  whole(_bytes: Buffer, parsed: unknown): Buffer {
    if (isObject(parsed)) this.#usage = readUsage(parsed.usage);
    const answer = responseFromChat(parsed, this.#shell, this.#now());
    if (!answer.ok) throw refusals.badAnswer(this.#shell.provider, answer.error.message, answer.error.code);
    this.#whole = { id: answer.response.id, status: answer.response.status, json: JSON.stringify(answer.response) };
    return Buffer.from(this.#whole.json);
  }

  frame(frame: Frame): FrameAnswer {
    if (frame.data === undefined) return { terminal: this.#hasEnded };
    if (frame.data === '[DONE]') {
      this.#endMarker = true;
      return { terminal: true };
    }
    const chunk = parseChunk(frame.data);
    if (chunk === undefined) return { terminal: this.#hasEnded };
    if (isErrorBody(chunk)) {
      const said = { status: 200, headers: {}, body: Buffer.from(frame.data), provider: this.#provider };
      const record = redacted(frame.raw, this.#provider);
      return { terminal: true, refusal: refusalFromUpstream(mapUpstreamError(said)), record };
    }
    if (isObject(chunk.usage)) this.#usage = readUsage(chunk.usage);
    const events = this.#translator.push(chunk);
    return { bytes: encode(events), terminal: this.#hasEnded };
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    const events = this.#translator.finish({ completedAt: this.#now(), endMarker: this.#endMarker });
    const { incomplete_details: details } = this.#translator.snapshot();
    return { bytes: this.#lastBytes(events), cut: details?.reason === 'interrupted' };
  }

  broken(refusal: Refusal): Buffer | undefined {
    if (this.#hasEnded) return DONE;
    if (refusal.code === streamIncomplete('').code) return this.#lastBytes(this.#translator.cut('interrupted'));
    const { type, message, provider } = refusal;
    return this.#lastBytes(this.#translator.fail({ type, code: refusal.code ?? 'provider_error', message, provider }));
  }

  abandon(): Buffer | undefined {
    return this.#hasEnded ? undefined : this.#lastBytes(this.#translator.cut('interrupted'));
  }

  usage(): TokenUsage {
    return this.#usage;
  }

  finishReason(): string | null {
    return (this.#whole ?? this.#translator.snapshot()).status;
  }

  response(): StorableResponse | undefined {
    if (this.#whole !== undefined) return this.#whole;
    const response = this.#translator.snapshot();
    return { id: response.id, status: response.status, json: JSON.stringify(response) };
  }

  get #hasEnded(): boolean {
    return this.#translator.ended !== undefined;
  }

  #lastBytes(events: readonly ResponseEvent[]): Buffer {
    return Buffer.concat([...events.map(encodeResponseEvent), DONE]);
  }
}

function encode(events: readonly ResponseEvent[]): Buffer | undefined {
  const [first] = events;
  if (first === undefined) return undefined;
  return events.length === 1 ? encodeResponseEvent(first) : Buffer.concat(events.map(encodeResponseEvent));
}
