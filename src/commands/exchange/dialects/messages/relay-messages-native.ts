/** Messages to a client that asked for messages: the provider's bytes, untouched, observed for the record. */

import { isObject } from '../../../../json/is-object.ts';
import { statusOfErrorType } from '../../../../providers/anthropic/error-types.ts';
import type { Frame } from '../../../../providers/sse.ts';
import { filled } from '../../../../providers/translate/json.ts';
import { isErrorBody, mapUpstreamError } from '../../../../providers/upstream-error.ts';
import { isTorn, parseChunk } from '../../../model-request/parse-chunk.ts';
import { type Answering, redacted } from '../../../model-request/redacted.ts';
import { refusalFromUpstream } from '../../../model-request/refusal-from-upstream.ts';
import { gatewayStopping, streamIncomplete } from '../../../model-request/stream-refusals.ts';
import { readUsage, type TokenUsage } from '../../../model-request/usage.ts';
import type { Refusal } from '../../../refusal.ts';
import { reportedFailure, unreadableEvent } from '../../delivery/reported-failure.ts';
import type { FrameAnswer, Relay } from '../../relay.ts';
import { errorEvent } from './relay-messages-translated.ts';

/** In JSON text this matches members only: inside a string the quotes would be escaped. */
const SAYS_MORE = /"type"\s*:\s*"(?:message_start|message_delta|message_stop|error)"|"error"\s*:\s*[{"]/;

export class NativeMessagesRelay implements Relay {
  readonly #provider: Answering;
  /** As it was reported last, member by member: the counts of a stream are cumulative. */
  #usage: Record<string, unknown> | undefined;
  #stopReason: string | null = null;
  #stopped = false;
  #answerId: string | undefined;
  /** The client has the provider's own `error` event. */
  #reported = false;

  constructor(provider: Answering) {
    this.#provider = provider;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    if (isObject(parsed)) {
      this.#answerId = filled(parsed.id);
      this.#observe(parsed, parsed);
    }
    return bytes;
  }

  frame(frame: Frame): FrameAnswer {
    const { data, raw } = frame;
    const event = data !== undefined && SAYS_MORE.test(data) ? parseChunk(data) : undefined;
    if (event === undefined && data !== undefined && isTorn(data)) return unreadableEvent(frame, this.#provider);
    if (event === undefined) return { bytes: raw, terminal: this.#stopped };
    if (isErrorBody(event))
      return event.type === 'error' ? this.#fail(event, raw) : reportedFailure(event, frame, this.#provider);
    const { type, message, delta } = event;
    if (type === 'message_start' && isObject(message)) {
      this.#answerId = filled(message.id);
      this.#observe(message, message);
    }
    if (type === 'message_delta') this.#observe(event, delta);
    if (type === 'message_stop') this.#stopped = true;
    return { bytes: raw, terminal: this.#stopped };
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    if (this.#stopped) return { cut: false };
    return { bytes: this.broken(streamIncomplete(this.#provider.name)), cut: true };
  }

  broken(refusal: Refusal): Buffer | undefined {
    return this.#reported || this.#stopped ? undefined : errorEvent(refusal);
  }

  abandon(): Buffer | undefined {
    return this.broken(gatewayStopping());
  }

  usage(): TokenUsage {
    return readUsage(this.#usage);
  }

  answerId(): string | undefined {
    return this.#answerId;
  }

  finishReason(): string | null {
    return this.#stopReason;
  }

  #fail(event: Record<string, unknown>, raw: Buffer): FrameAnswer {
    this.#reported = true;
    const type = isObject(event.error) ? event.error.type : undefined;
    const said = { headers: {}, body: Buffer.from(JSON.stringify(event)), provider: this.#provider };
    const refusal = refusalFromUpstream(mapUpstreamError({ ...said, status: statusOfErrorType(type) ?? 200 }));
    const clean = redacted(raw, this.#provider);
    return { bytes: clean, record: clean, terminal: true, refusal };
  }

  #observe({ usage }: Record<string, unknown>, stopped: unknown): void {
    if (isObject(usage)) {
      const told = Object.entries(usage).filter(([, value]) => value !== null);
      this.#usage = { ...this.#usage, ...Object.fromEntries(told) };
    }
    if (isObject(stopped) && typeof stopped.stop_reason === 'string') this.#stopReason = stopped.stop_reason;
  }
}
