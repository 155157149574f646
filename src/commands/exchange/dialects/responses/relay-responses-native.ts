/** Responses to a client that asked for responses: the provider's bytes, untouched, observed for the record. */

import { isObject } from '../../../../json/is-object.ts';
import type { Frame } from '../../../../providers/sse.ts';
import { filled } from '../../../../providers/translate/json.ts';
import { DONE } from '../../../../providers/translate/responses-to-chat/response-events.ts';
import { mapUpstreamError } from '../../../../providers/upstream-error.ts';
import type { DeferredWork } from '../../../model-request/deferred-work.ts';
import { parseChunk } from '../../../model-request/parse-chunk.ts';
import { type Answering, redacted } from '../../../model-request/redacted.ts';
import { refusalFromUpstream } from '../../../model-request/refusal-from-upstream.ts';
import { type EarlyEnd, streamIncomplete } from '../../../model-request/stream-refusals.ts';
import { readUsage, type TokenUsage } from '../../../model-request/usage.ts';
import type { Refusal } from '../../../refusal.ts';
import { isPending } from '../../../responses/pending-response.ts';
import { type StorableResponse, statusOf } from '../../../responses/storable-response.ts';
import { failureIn, unreadableEvent } from '../../delivery/reported-failure.ts';
import type { FrameAnswer, Relay } from '../../relay.ts';
import { responseErrorEvent, responseEvent, streamEndsEarly } from './response-error-event.ts';
import { StreamedItems } from './streamed-items.ts';

/** Events in which a provider may repeat the credentials it was given. */
const FAILURES = new Set<unknown>(['error', 'response.failed']);
const TERMINAL = new Set(['response.completed', 'response.incomplete', 'response.failed']);

export interface NativeResponsesOptions {
  /** Members that every response object is to have instead of the provider's own, such as the id it goes by here. */
  readonly echo?: Readonly<Record<string, unknown>>;
  /** The provider goes on with a response whose stream ends early, since it makes it in the background. */
  readonly providerRuns?: boolean;
  /** The response before anything is known of it: for a stream that fails before its provider has shown one. */
  readonly shell?: () => object;
}

export class NativeResponsesRelay implements Relay {
  readonly #provider: Answering;
  readonly #options: NativeResponsesOptions;
  /** The newest response object seen, brought up to date from the events after it. */
  #response: Record<string, unknown> | undefined;
  #whole: Buffer | undefined;
  readonly #items = new StreamedItems();
  #sequence = -1;
  #ended = false;
  #answerId: string | undefined;
  /** What the provider's own `error` event said: `response.failed` has to follow it. */
  #reported: { readonly code: string; readonly message: string } | undefined;

  constructor(provider: Answering, options: NativeResponsesOptions = {}) {
    this.#provider = provider;
    this.#options = options;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    const { echo } = this.#options;
    const echoed = echo !== undefined && isObject(parsed);
    if (isObject(parsed)) this.#answerId = filled(parsed.id);
    if (isObject(parsed)) this.#response = echoed ? { ...parsed, ...echo } : parsed;
    this.#whole = echoed ? Buffer.from(JSON.stringify(this.#response)) : bytes;
    return this.#whole;
  }

  frame(frame: Frame): FrameAnswer {
    // Clients stop reading at the end marker: before the end of the response it is not passed on.
    if (frame.data === '[DONE]') return this.#ended ? { bytes: frame.raw, terminal: true } : { terminal: false };
    if (frame.data === undefined) return { bytes: frame.raw, terminal: this.#ended };
    const said = parseChunk(frame.data);
    if (said === undefined) {
      if (frame.data.trim() !== '') return unreadableEvent(frame, this.#provider);
      return { bytes: frame.raw, terminal: this.#ended };
    }
    const clean = FAILURES.has(said.type) ? redacted(frame.raw, this.#provider) : frame.raw;
    const event = clean === frame.raw ? said : (parseChunk(this.#clean(frame.data)) ?? said);
    const failure = event.type === undefined ? failureIn(event, frame, this.#provider) : undefined;
    if (failure !== undefined) return failure;
    if (typeof event.sequence_number === 'number') this.#sequence = event.sequence_number;
    if (isObject(event.response)) this.#answerId ??= filled(event.response.id);
    const echoed = this.#echoed(event);
    this.#observe(echoed ?? event);
    const bytes = echoed === undefined ? clean : responseEvent(String(event.type), echoed);
    const refusal = event.type === 'response.failed' ? this.#failure(event.response) : undefined;
    return { bytes, record: clean, terminal: this.#ended, ...(refusal === undefined ? {} : { refusal }) };
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    if (this.#ended) return { cut: false };
    return { bytes: this.broken(streamIncomplete(this.#provider.name)), cut: true };
  }

  broken(refusal: Refusal): Buffer | undefined {
    return this.abandon({ refusal, status: 'failed' });
  }

  abandon({ refusal, status }: EarlyEnd): Buffer | undefined {
    if (this.#ended) return undefined;
    if (this.#reported !== undefined) return this.#endAs(status, this.#reported);
    if (this.goesOn() !== undefined) return streamEndsEarly(this.#sequence, refusal);
    const { code, message, type } = refusal;
    const error = responseErrorEvent(++this.#sequence, refusal);
    return Buffer.concat([error, this.#endAs(status, { code: code ?? 'provider_error', message, type })]);
  }

  usage(): TokenUsage {
    return readUsage(this.#response?.usage);
  }

  goesOn(): DeferredWork | undefined {
    const { id, status } = this.#response ?? {};
    if (this.#options.providerRuns !== true || typeof id !== 'string' || typeof status !== 'string') return undefined;
    return isPending({ status }) ? { kind: 'response', id } : undefined;
  }

  answerId(): string | undefined {
    return this.#answerId;
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

  /** What a failed response says of its failure: the exchange has failed, though the client has the provider's event. */
  #failure(response: unknown): Refusal {
    const error = isObject(response) && isObject(response.error) ? response.error : {};
    const body = Buffer.from(JSON.stringify({ error }));
    return refusalFromUpstream(mapUpstreamError({ status: 200, headers: {}, body, provider: this.#provider }));
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
    } else if (isObject(event.response)) {
      this.#response = event.response;
      if (typeof type === 'string' && TERMINAL.has(type)) this.#ended = true;
    } else {
      this.#items.observe(event);
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

  #endAs(status: EarlyEnd['status'], error: { code: string; message: string; type?: string }): Buffer {
    this.#ended = true;
    const items = this.#items.atEnd();
    const begun: Record<string, unknown> = this.#response ?? { ...this.#options.shell?.(), ...this.#options.echo };
    this.#response = {
      ...begun,
      status,
      error: status === 'failed' ? { type: 'provider_error', ...error } : null,
      completed_at: null,
      incomplete_details: null,
      output: items.length > 0 || !Array.isArray(begun.output) ? items : begun.output,
    };
    const type = 'response.failed';
    return Buffer.concat([
      responseEvent(type, { type, sequence_number: ++this.#sequence, response: this.#response }),
      DONE,
    ]);
  }
}
