/** Responses to a client that asked for responses: the provider's bytes, untouched, observed for the record. */
import type { Frame } from '../../providers/sse.ts';
import { isErrorBody } from '../../providers/upstream-error.ts';
import type { Refusal } from '../refusal.ts';
import { parseChunk } from './parse-chunk.ts';
import { isPending } from './pending-response.ts';
import {
  type Answering,
  type DeferredWork,
  type FrameAnswer,
  type Relay,
  redacted,
  type StorableResponse,
  statusOf,
} from './relay.ts';
import { reportedFailure } from './reported-failure.ts';
import { isObject, readUsage, type TokenUsage } from './usage.ts';

/** Events in which a provider may repeat the credentials it was given. */
const FAILURES = new Set<unknown>(['error', 'response.failed']);
const TERMINAL = new Set(['response.completed', 'response.incomplete', 'response.failed']);

export interface NativeResponsesOptions {
  /** Members that every response object is to have instead of the provider's own, such as the id it goes by here. */
  readonly echo?: Readonly<Record<string, unknown>>;
  /** The provider goes on with the response when nobody listens any more: a stream that ends early ends nothing. */
  readonly providerRuns?: boolean;
}

export class NativeResponsesRelay implements Relay {
  readonly #provider: Answering;
  readonly #options: NativeResponsesOptions;
  /** The newest response object seen, brought up to date from the events after it. */
  #response: Record<string, unknown> | undefined;
  #whole: Buffer | undefined;
  #output: Record<string, unknown>[] = [];
  #sequence = -1;
  #ended = false;
  /** What the provider's own `error` event said: `response.failed` has to follow it. */
  #reported: { readonly code: string; readonly message: string } | undefined;

  constructor(provider: Answering, options: NativeResponsesOptions = {}) {
    this.#provider = provider;
    this.#options = options;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    const { echo } = this.#options;
    const echoed = echo !== undefined && isObject(parsed);
    if (isObject(parsed)) this.#response = echoed ? { ...parsed, ...echo } : parsed;
    this.#whole = echoed ? Buffer.from(JSON.stringify(this.#response)) : bytes;
    return this.#whole;
  }

  frame(frame: Frame): FrameAnswer {
    if (frame.data === undefined || frame.data === '[DONE]') return { bytes: frame.raw, terminal: this.#ended };
    const said = parseChunk(frame.data);
    if (said === undefined) return { bytes: frame.raw, terminal: this.#ended };
    const clean = FAILURES.has(said.type) ? redacted(frame.raw, this.#provider) : frame.raw;
    const event = clean === frame.raw ? said : (parseChunk(this.#clean(frame.data)) ?? said);
    if (event.type === undefined && isErrorBody(event)) return reportedFailure(event, frame, this.#provider);
    if (typeof event.sequence_number === 'number') this.#sequence = event.sequence_number;
    const echoed = this.#echoed(event);
    this.#observe(echoed ?? event);
    const bytes = echoed === undefined ? clean : sse(String(event.type), echoed);
    return { bytes, record: clean, terminal: this.#ended };
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    if (this.#ended) return { cut: false };
    if (this.#reported !== undefined) return { bytes: this.#endAsFailed(this.#reported), cut: true };
    return { bytes: this.#interrupt(), cut: true };
  }

  broken(refusal: Refusal): Buffer | undefined {
    if (this.#ended) return undefined;
    if (this.#reported !== undefined) return this.#endAsFailed(this.#reported);
    // A provider that reports a failure fails the response; one that just goes away leaves it incomplete.
    return refusal.code === 'stream_incomplete' ? this.#interrupt() : this.#fail(refusal);
  }

  abandon(): Buffer | undefined {
    return this.#ended ? undefined : this.#interrupt();
  }

  usage(): TokenUsage {
    return readUsage(this.#response?.usage);
  }

  goesOn(): DeferredWork | undefined {
    const { id, status } = this.#response ?? {};
    if (this.#options.providerRuns !== true || typeof id !== 'string' || typeof status !== 'string') return undefined;
    return isPending({ status }) ? { kind: 'response', id } : undefined;
  }

  finishReason(): string | null {
    const status = this.#response?.status;
    return typeof status === 'string' ? status : null;
  }

  response(): StorableResponse | undefined {
    const response = this.#response;
    if (response === undefined || typeof response.id !== 'string') return undefined;
    return {
      id: response.id,
      status: statusOf(response) ?? 'completed',
      json: this.#whole?.toString() ?? JSON.stringify(response),
      output: Array.isArray(response.output) ? response.output : [],
    };
  }

  #observe(event: Record<string, unknown>): void {
    const { type } = event;
    if (type === 'error') {
      const said = isObject(event.error) ? event.error : event;
      const { code, message } = said;
      this.#reported = {
        code: typeof code === 'string' ? code : 'provider_error',
        message: typeof message === 'string' ? message : `The provider '${this.#provider.name}' reported an error.`,
      };
      return;
    }
    if (isObject(event.response)) {
      this.#response = event.response;
      if (typeof type === 'string' && TERMINAL.has(type)) this.#ended = true;
      return;
    }
    const index = event.output_index;
    if (typeof index !== 'number') return;
    if (isObject(event.item)) {
      this.#output[index] = event.item;
    } else if (type === 'response.content_part.added' && isObject(event.part)) {
      contentOf(this.#output[index])?.push({ ...event.part });
    } else if (type === 'response.output_text.delta' && typeof event.delta === 'string') {
      const part = contentOf(this.#output[index])?.at(-1);
      if (isObject(part) && typeof part.text === 'string') part.text += event.delta;
    }
  }

  /** The event with the members of its response that the gateway knows better; undefined when it is right as it is. */
  #echoed(event: Record<string, unknown>): Record<string, unknown> | undefined {
    const { echo } = this.#options;
    if (echo === undefined || !isObject(event.response)) return undefined;
    return { ...event, response: { ...event.response, ...echo } };
  }

  #clean(text: string): string {
    return this.#provider.redact?.(text) ?? text;
  }

  #interrupt(): Buffer | undefined {
    if (this.#options.providerRuns === true) return undefined;
    return this.#end('response.incomplete', {
      status: 'incomplete',
      incomplete_details: { reason: 'interrupted' },
    });
  }

  #fail(refusal: Refusal): Buffer | undefined {
    const { code, message, param, type } = refusal;
    const error = {
      type: 'error',
      sequence_number: ++this.#sequence,
      code,
      message,
      param,
      error: { type, code, message, param, provider: this.#provider.name },
    };
    const failed = this.#endAsFailed({ code: code ?? 'provider_error', message, type });
    return Buffer.concat([sse('error', error), failed ?? Buffer.alloc(0)]);
  }

  #endAsFailed(error: { code: string; message: string; type?: string }): Buffer | undefined {
    return this.#end('response.failed', { status: 'failed', error: { type: 'provider_error', ...error } });
  }

  #end(type: string, changes: Record<string, unknown>): Buffer | undefined {
    this.#ended = true;
    if (this.#response === undefined) return undefined;
    const output = this.#output.filter((item) => item !== undefined);
    this.#response = { ...this.#response, ...changes, output };
    return Buffer.concat([
      sse(type, { type, sequence_number: ++this.#sequence, response: this.#response }),
      Buffer.from('data: [DONE]\n\n'),
    ]);
  }
}

function contentOf(item: Record<string, unknown> | undefined): unknown[] | undefined {
  return Array.isArray(item?.content) ? item.content : undefined;
}

function sse(type: string, data: object): Buffer {
  return Buffer.from(`event: ${type}\ndata: ${JSON.stringify(data)}\n\n`);
}
