/** Any answer of a provider's own API: unchanged, and read only for its usage. */
import { isObject } from '../../../../json/is-object.ts';
import type { Frame } from '../../../../providers/sse.ts';
import type { DeferredWork } from '../../../model-request/deferred-work.ts';
import { parseChunk } from '../../../model-request/parse-chunk.ts';
import { readUsage, type TokenUsage } from '../../../model-request/usage.ts';
import { isPending } from '../../../responses/storable-response.ts';
import type { AnswerObserver, FrameAnswer } from '../../relay.ts';

const TERMINAL_TYPES = new Set(['response.completed', 'response.incomplete', 'response.failed', 'message_stop']);
/** A longer text is not the name of a model or the id of an answer. */
const MAX_NAME_LENGTH = 256;

export class PassthroughObserver implements AnswerObserver {
  readonly #begins: DeferredWork['kind'] | undefined;
  #work: DeferredWork | undefined;
  /** The last reported usage, member by member: the counts of a stream are cumulative. */
  #usage: Record<string, unknown> | undefined;
  #model: string | undefined;
  #answerId: string | undefined;
  #terminal = false;

  /** @param begins the result of `deferredWorkKind` for the request */
  constructor(begins?: DeferredWork['kind']) {
    this.#begins = begins;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    this.#observe(parsed);
    return bytes;
  }

  frame({ data, raw }: Frame): FrameAnswer {
    if (data === '[DONE]') this.#terminal = true;
    else if (data !== undefined) {
      const event = parseChunk(data);
      this.#observe(event);
      if (typeof event?.type === 'string' && TERMINAL_TYPES.has(event.type)) this.#terminal = true;
    }
    return { bytes: raw, terminal: this.#terminal };
  }

  deferredWork(): DeferredWork | undefined {
    return this.#work;
  }

  usage(): TokenUsage {
    return readUsage(this.#usage);
  }

  answerId(): string | undefined {
    return this.#answerId;
  }

  model(): string | undefined {
    return this.#model;
  }

  /** Notes a background response of the provider, or a batch, until it is over. */
  #follow({ id, status, background }: Record<string, unknown>, kind: DeferredWork['kind']): void {
    const isWork = kind === 'batch' || (background === true && isPending({ status: String(status) }));
    this.#work = isWork && typeof id === 'string' ? { kind, id } : undefined;
  }

  /** The facts are at the top, in the `response` of a Responses event, or in the `message` of a Messages event. */
  #observe(parsed: unknown): void {
    if (!isObject(parsed)) return;
    for (const holder of [parsed, parsed.response, parsed.message]) {
      if (!isObject(holder)) continue;
      if (this.#begins !== undefined && holder.object === this.#begins) this.#follow(holder, this.#begins);
      if (typeof holder.model === 'string' && holder.model.length <= MAX_NAME_LENGTH) this.#model = holder.model;
      if (typeof holder.id === 'string' && holder.id.length <= MAX_NAME_LENGTH) this.#answerId ??= holder.id;
      if (!isObject(holder.usage)) continue;
      if (readUsage(holder.usage).source === 'unknown') continue;
      const counts = Object.entries(holder.usage).filter(([, value]) => value !== null);
      this.#usage = this.#usage === undefined ? holder.usage : { ...this.#usage, ...Object.fromEntries(counts) };
    }
  }
}
