/** Any answer of a provider's own API: untouched, and looked at only for its usage. */
import type { Frame } from '../../providers/sse.ts';
import type { Refusal } from '../refusal.ts';
import { parseChunk } from './parse-chunk.ts';
import type { FrameAnswer, Relay } from './relay.ts';
import { isObject, readUsage, type TokenUsage, unknownUsage } from './usage.ts';

const TERMINAL_TYPES = new Set(['response.completed', 'response.incomplete', 'response.failed', 'message_stop']);

export class PassthroughRelay implements Relay {
  #usage: TokenUsage = unknownUsage;
  #terminal = false;

  whole(bytes: Buffer, parsed: unknown): Buffer {
    this.#observe(parsed);
    return bytes;
  }

  frame(frame: Frame): FrameAnswer {
    const { data, raw } = frame;
    if (data === '[DONE]') this.#terminal = true;
    else if (data !== undefined) {
      const event = parseChunk(data);
      this.#observe(event);
      if (typeof event?.type === 'string' && TERMINAL_TYPES.has(event.type)) this.#terminal = true;
    }
    return { bytes: raw, terminal: this.#terminal };
  }

  finish(): { cut: boolean } {
    return { cut: false };
  }

  broken(refusal: Refusal): Buffer {
    return Buffer.from(`data: ${JSON.stringify(refusal.envelope())}\n\n`);
  }

  usage(): TokenUsage {
    return this.#usage;
  }

  /** Usage sits at the top, in the `response` of a Responses event, or in the `message` of a Messages event. */
  #observe(parsed: unknown): void {
    if (!isObject(parsed)) return;
    for (const holder of [parsed, parsed.response, parsed.message]) {
      if (!isObject(holder) || !isObject(holder.usage)) continue;
      const usage = readUsage(holder.usage);
      if (usage.source === 'provider') this.#usage = usage;
    }
  }
}
