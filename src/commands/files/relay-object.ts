/** What a provider says of an object it keeps, or the object itself: nothing in it is a model's answer. */
import type { Frame } from '../../providers/sse.ts';
import type { FrameAnswer, Relay } from '../exchange/relay.ts';
import type { DeferredWork } from '../model-request/deferred-work.ts';
import { type TokenUsage, unknownUsage } from '../model-request/usage.ts';

export class ObjectRelay implements Relay {
  readonly #whole: (bytes: Buffer, parsed: unknown) => Buffer;
  readonly #work: () => DeferredWork | undefined;

  /**
   * @param whole sees a JSON answer, and says what the client gets
   * @param work what the provider goes on with after it
   */
  constructor(
    whole: (bytes: Buffer, parsed: unknown) => Buffer = (bytes) => bytes,
    work: () => DeferredWork | undefined = () => undefined,
  ) {
    this.#whole = whole;
    this.#work = work;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    return this.#whole(bytes, parsed);
  }

  frame({ raw }: Frame): FrameAnswer {
    return { bytes: raw, terminal: false };
  }

  finish(): { cut: boolean } {
    return { cut: false };
  }

  goesOn(): DeferredWork | undefined {
    return this.#work();
  }

  usage(): TokenUsage {
    return unknownUsage;
  }
}
