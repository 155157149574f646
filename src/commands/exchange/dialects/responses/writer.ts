/** Writes Responses events for a client of the Responses API. */
import { failureForClients } from '../../../../providers/translate/chat-to-responses/failure.ts';
import { DONE } from '../../../../providers/translate/chat-to-responses/response-events.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import { type EarlyEnd, streamIncomplete } from '../../../model-request/stream-refusals.ts';
import type { Refusal } from '../../../refusal.ts';
import type { StorableResponse } from '../../../responses/storable-response.ts';
import { type AnswerWriter, joined } from '../../relay.ts';
import { ObservedResponse } from './observed-response.ts';
import { responseErrorEvent, responseEvent, streamEndsEarly } from './response-error-event.ts';
import { checkedResponse, ResponseFacts } from './response-facts.ts';

export interface ResponsesWriterOptions {
  /** Shared with the observer where the provider's bytes pass unchanged. */
  readonly response?: ObservedResponse;
  /** The response without any output, for a stream that fails before its provider has sent one. */
  readonly shell?: () => object;
}

export class ResponsesWriter implements AnswerWriter<JsonObject> {
  readonly #provider: string;
  readonly #response: ObservedResponse;
  readonly #shell: (() => object) | undefined;
  #writesEvents = false;

  constructor(provider: string, { response, shell }: ResponsesWriterOptions = {}) {
    this.#provider = provider;
    this.#response = response ?? new ObservedResponse(new ResponseFacts(provider));
    this.#shell = shell;
  }

  whole(response: unknown): Buffer {
    this.#response.facts.response = checkedResponse(response, this.#provider);
    this.#response.whole = Buffer.from(JSON.stringify(response));
    return this.#response.whole;
  }

  events(events: readonly JsonObject[]): Buffer | undefined {
    this.#writesEvents = true;
    return joined(events.map((event) => this.#written(event)));
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    if (!this.#response.facts.ended) return { bytes: this.broken(streamIncomplete(this.#provider)), cut: true };
    return { bytes: this.#writesEvents ? DONE : undefined, cut: false };
  }

  broken(refusal: Refusal): Buffer | undefined {
    return this.abandon({ refusal, status: 'failed' });
  }

  abandon({ refusal, status }: EarlyEnd): Buffer | undefined {
    const { facts } = this.#response;
    if (facts.ended) return undefined;
    if (facts.reported !== undefined) return this.#endAs(status, facts.reported);
    if (facts.deferredWork() !== undefined) return streamEndsEarly(this.#response.sequence, refusal);
    this.#response.sequence += 1;
    const error = responseErrorEvent(this.#response.sequence, refusal);
    return Buffer.concat([error, this.#endAs(status, { type: refusal.type, ...failureForClients(refusal) })]);
  }

  filtered(): Buffer | undefined {
    const { facts } = this.#response;
    if (facts.ended) return undefined;
    const response = this.#response.endAs('incomplete', {}, this.#shell);
    this.#response.sequence += 1;
    const type = 'response.incomplete';
    return Buffer.concat([responseEvent({ type, sequence_number: this.#response.sequence, response }), DONE]);
  }

  finishReason(): string | null {
    const status = this.#response.facts.response?.['status'];
    return typeof status === 'string' ? status : null;
  }

  response(): StorableResponse | undefined {
    return this.#response.storable();
  }

  /** Encoded first, because later events may change the objects that are noted from this one. */
  #written(event: JsonObject): Buffer {
    const bytes = responseEvent(event);
    this.#response.facts.note(event);
    this.#response.noteItems(event);
    return bytes;
  }

  #endAs(status: EarlyEnd['status'], error: object): Buffer {
    const response = this.#response.endAs(status, error, this.#shell);
    this.#response.sequence += 1;
    const type = 'response.failed';
    return Buffer.concat([responseEvent({ type, sequence_number: this.#response.sequence, response }), DONE]);
  }
}
