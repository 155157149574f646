/** Chat completions to a client that asked for chat completions: the provider's bytes, untouched. */
import type { Frame } from '../../providers/sse.ts';
import { isErrorBody } from '../../providers/upstream-error.ts';
import { Refusal } from '../refusal.ts';
import type { Answering, FrameAnswer, Relay } from './relay.ts';
import { reportedFailure } from './reported-failure.ts';
import { isObject, readUsage, type TokenUsage, unknownUsage } from './usage.ts';

const DONE = Buffer.from('data: [DONE]\n\n');

/** In JSON text this matches members only: inside a string the quotes would be escaped. */
const SAYS_MORE = /"(?:usage|error)"\s*:\s*[{"]|"finish_reason"\s*:\s*"/;

export class ChatRelay implements Relay {
  readonly #provider: Answering;
  /** Whether the client asked for the usage chunk; when the gateway did, it is recorded and not passed on. */
  readonly #clientWantsUsage: boolean;
  #usage: TokenUsage = unknownUsage;
  #finishReason: string | null = null;
  #done = false;

  constructor(provider: Answering, clientWantsUsage: boolean) {
    this.#provider = provider;
    this.#clientWantsUsage = clientWantsUsage;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    if (isObject(parsed)) {
      this.#usage = readUsage(parsed.usage);
      this.#readFinishReason(parsed.choices);
    }
    return bytes;
  }

  frame(frame: Frame): FrameAnswer {
    if (frame.data === undefined) return { bytes: frame.raw, terminal: this.#done };
    if (frame.data === '[DONE]') {
      this.#done = true;
      return { bytes: frame.raw, terminal: true };
    }
    // Most chunks say nothing that has to be known: a few words more, and nothing else.
    const chunk = SAYS_MORE.test(frame.data) ? parseChunk(frame.data) : undefined;
    if (chunk === undefined) return { bytes: frame.raw, terminal: this.#done };
    if (isErrorBody(chunk)) return reportedFailure(chunk, frame, this.#provider);
    let usageOnly = false;
    if (isObject(chunk.usage)) {
      this.#usage = readUsage(chunk.usage);
      usageOnly = Array.isArray(chunk.choices) && chunk.choices.length === 0;
    }
    this.#readFinishReason(chunk.choices);
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
    return Buffer.from(`data: ${JSON.stringify(refusal.envelope())}\n\n`);
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

  response(): undefined {
    return undefined;
  }

  #readFinishReason(choices: unknown): void {
    if (!Array.isArray(choices)) return;
    for (const choice of choices) {
      if (isObject(choice) && typeof choice.finish_reason === 'string') this.#finishReason = choice.finish_reason;
    }
  }
}

export function streamIncomplete(provider: string): Refusal {
  return new Refusal({
    status: 502,
    type: 'provider_error',
    code: 'stream_incomplete',
    message: `The provider '${provider}' ended its stream before the answer was complete.`,
    provider,
  });
}

export function gatewayStopping(): Refusal {
  return new Refusal({
    status: 503,
    type: 'internal_error',
    code: 'stopping',
    message: 'The gateway was stopped before the answer was complete.',
  });
}

export function parseChunk(data: string): Record<string, unknown> | undefined {
  try {
    const parsed: unknown = JSON.parse(data);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}
