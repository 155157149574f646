/** Chat completions to a client that asked for chat completions: the provider's bytes, untouched. */

import { isObject } from '../../../../json/is-object.ts';
import type { Frame } from '../../../../providers/sse.ts';
import { filled } from '../../../../providers/translate/json.ts';
import { isTorn, parseChunk } from '../../../model-request/parse-chunk.ts';
import type { Answering } from '../../../model-request/redacted.ts';
import { gatewayStopping, streamIncomplete } from '../../../model-request/stream-refusals.ts';
import { readUsage, type TokenUsage, unknownUsage } from '../../../model-request/usage.ts';
import type { Refusal } from '../../../refusal.ts';
import { failureIn, unreadableEvent } from '../../delivery/reported-failure.ts';
import type { FrameAnswer, Relay } from '../../relay.ts';

export const DONE = Buffer.from('data: [DONE]\n\n');

/** In JSON text this matches members only: inside a string the quotes would be escaped. */
const SAYS_MORE =
  /"(?:usage|error)"\s*:\s*[{"]|"finish_reason"\s*:\s*"|"object"\s*:\s*"error"|"error_code"\s*:|^{\s*"detail"/;

export class ChatRelay implements Relay {
  readonly #provider: Answering;
  /** Whether the client asked for the usage chunk; when the gateway did, it is recorded and not passed on. */
  readonly #clientWantsUsage: boolean;
  #usage: TokenUsage = unknownUsage;
  #finishReason: string | null = null;
  #done = false;
  #answerId: string | undefined;
  /** The first chunk, until the id of the answer is known: nearly always a later one has to be parsed anyway. */
  #first: string | undefined;

  constructor(provider: Answering, clientWantsUsage: boolean) {
    this.#provider = provider;
    this.#clientWantsUsage = clientWantsUsage;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    if (isObject(parsed)) {
      this.#usage = readUsage(parsed.usage);
      this.#answerId = filled(parsed.id);
      this.#finishReason = finishReasonIn(parsed.choices) ?? this.#finishReason;
    }
    return bytes;
  }

  frame(frame: Frame): FrameAnswer {
    if (frame.data === undefined) return { bytes: frame.raw, terminal: this.#done };
    if (frame.data === '[DONE]') {
      // Without a finish reason the answer is not whole, and `finish` says so.
      if (this.#finishReason === null) return { terminal: false };
      this.#done = true;
      return { bytes: frame.raw, terminal: true };
    }
    // Most chunks say nothing that has to be known: a few words more, and nothing else.
    const chunk = frame.event === 'error' || SAYS_MORE.test(frame.data) ? parseChunk(frame.data) : undefined;
    if (chunk === undefined) {
      if (frame.event === 'error' || isTorn(frame.data)) return unreadableEvent(frame, this.#provider);
      this.#first ??= frame.data;
      return { bytes: frame.raw, terminal: this.#done };
    }
    this.#answerId ??= filled(chunk.id);
    if (isObject(chunk.usage)) this.#usage = readUsage(chunk.usage);
    const failure = failureIn(chunk, frame, this.#provider);
    if (failure !== undefined) return failure;
    const usageOnly = isObject(chunk.usage) && Array.isArray(chunk.choices) && chunk.choices.length === 0;
    this.#finishReason = finishReasonIn(chunk.choices) ?? this.#finishReason;
    if (usageOnly && !this.#clientWantsUsage) return { terminal: this.#done };
    return { bytes: frame.raw, terminal: this.#done };
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    if (this.#done) return { cut: false };
    if (this.#finishReason !== null) return { bytes: DONE, cut: false };
    const refusal = streamIncomplete(this.#provider.name);
    return { bytes: this.broken(refusal), cut: true };
  }

  broken(refusal: Refusal): Buffer {
    return chatStreamError(refusal);
  }

  abandon(): Buffer | undefined {
    return this.broken(gatewayStopping());
  }

  usage(): TokenUsage {
    return this.#usage;
  }

  finishReason(): string | null {
    return this.#finishReason;
  }

  answerId(): string | undefined {
    this.#answerId ??= this.#first === undefined ? undefined : filled(parseChunk(this.#first)?.id);
    return this.#answerId;
  }
}

/** Why the model stopped, if this completion or chunk says so. */
export function finishReasonIn(choices: unknown): string | undefined {
  if (!Array.isArray(choices)) return undefined;
  const said = choices.findLast((choice) => isObject(choice) && filled(choice.finish_reason) !== undefined);
  return filled(said?.finish_reason);
}

/** The last frame of a chat stream that broke. */
export function chatStreamError(refusal: Refusal): Buffer {
  return Buffer.from(`data: ${JSON.stringify(refusal.envelope())}\n\n`);
}
