/** An answer whose bytes pass unchanged, because the provider's dialect is the client's. */
import type { Frame } from '../../../providers/sse.ts';
import type { DeferredWork } from '../../model-request/deferred-work.ts';
import type { EarlyEnd } from '../../model-request/stream-refusals.ts';
import type { TokenUsage } from '../../model-request/usage.ts';
import type { Refusal } from '../../refusal.ts';
import type { StorableResponse } from '../../responses/storable-response.ts';
import type { FrameAnswer, Relay } from '../relay.ts';
import type { AnswerEnd, AnswerObserver } from './reader-and-writer.ts';

/** @param end a writer that shares the observer's state, since it sees no events */
export function unchangedRelay(observer: AnswerObserver, end: AnswerEnd): Relay {
  return new UnchangedRelay(observer, end);
}

/** A class, so that its methods are not created again for each exchange: nearly every exchange has one. */
class UnchangedRelay implements Relay {
  readonly #observer: AnswerObserver;
  readonly #end: AnswerEnd;

  constructor(observer: AnswerObserver, end: AnswerEnd) {
    this.#observer = observer;
    this.#end = end;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    return this.#observer.whole(bytes, parsed);
  }

  frame(frame: Frame): FrameAnswer {
    return this.#observer.frame(frame);
  }

  finish(): { readonly bytes?: Buffer; readonly cut: boolean } {
    return this.#end.finish();
  }

  broken(refusal: Refusal): Buffer | undefined {
    return this.#end.broken?.(refusal);
  }

  abandon(end: EarlyEnd): Buffer | undefined {
    return this.#end.abandon?.(end);
  }

  usage(): TokenUsage {
    return this.#observer.usage();
  }

  deferredWork(): DeferredWork | undefined {
    return this.#observer.deferredWork?.();
  }

  model(): string | undefined {
    return this.#observer.model?.();
  }

  answerId(): string | undefined {
    return this.#observer.answerId?.();
  }

  finishReason(): string | null {
    return this.#end.finishReason?.() ?? null;
  }

  response(): StorableResponse | undefined {
    return this.#end.response?.();
  }
}
