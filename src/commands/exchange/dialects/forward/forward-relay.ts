/** The answer of a forwarded endpoint: its bytes pass unchanged. */

import type { Frame } from '../../../../providers/sse.ts';
import { isNoEvent, parseChunk } from '../../../model-request/parse-chunk.ts';
import type { Answering } from '../../../model-request/redacted.ts';
import { streamIncomplete } from '../../../model-request/stream-refusals.ts';
import type { TokenUsage } from '../../../model-request/usage.ts';
import {
  type AnswerObserver,
  type FrameAnswer,
  failureIn,
  type Relay,
  unchangedRelay,
  unreadableEvent,
} from '../../relay.ts';
import { chatStreamError } from '../chat/writer.ts';
import { PassthroughObserver } from '../passthrough/observer.ts';

/** @param endsWithReason whether a stream is whole only with a finish reason or `[DONE]`, as for text completions */
export function forwardRelay(provider: Answering, endsWithReason: boolean): Relay {
  const observer = new ForwardObserver(provider, endsWithReason);
  return unchangedRelay(observer, {
    finish: () =>
      observer.isCut ? { bytes: chatStreamError(streamIncomplete(provider.name)), cut: true } : { cut: false },
    broken: chatStreamError,
  });
}

// The answer of a forwarded endpoint: read only for its usage, and for errors after its start.

/** In JSON text this matches members only: inside a string the quotes would be escaped. */
const MAY_FAIL = /"error"\s*:\s*[{"]|"(?:finish_reason|object)"\s*:\s*"error"|"error_code"\s*:|^{\s*"detail"/;

const GIVES_REASON = /"(?:finish|stop)_reason"\s*:\s*"/;

class ForwardObserver implements AnswerObserver {
  readonly #provider: Answering;
  readonly #passing = new PassthroughObserver();
  /** For a stream that must end with a reason: whether it is a stream, and whether the reason has arrived. */
  #streams = false;
  #ended: boolean;

  /** @param endsWithReason whether a stream is whole only with a finish reason or `[DONE]`, as for text completions */
  constructor(provider: Answering, endsWithReason: boolean) {
    this.#provider = provider;
    this.#ended = !endsWithReason;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    return this.#passing.whole(bytes, parsed);
  }

  frame(frame: Frame): FrameAnswer {
    if (frame.data !== undefined && isNoEvent(frame.data)) return unreadableEvent(frame, this.#provider);
    const isError = frame.event === 'error' && frame.data !== undefined;
    const mayFail = isError || (frame.data !== undefined && MAY_FAIL.test(frame.data));
    const failed = mayFail ? parseChunk(frame.data ?? '') : undefined;
    if (isError && failed === undefined) return unreadableEvent(frame, this.#provider);
    const failure = failed === undefined ? undefined : failureIn(failed, frame, this.#provider);
    if (failure !== undefined) return failure;
    this.#streams = true;
    if (!this.#ended && frame.data !== undefined) {
      this.#ended = frame.data === '[DONE]' || GIVES_REASON.test(frame.data);
    }
    return this.#passing.frame(frame);
  }

  /** Whether this is a stream that is not whole if it ends now. */
  get isCut(): boolean {
    return this.#streams && !this.#ended;
  }

  usage(): TokenUsage {
    return this.#passing.usage();
  }

  answerId(): string | undefined {
    return this.#passing.answerId();
  }
}
