/** A native response as the client has received it so far, built from its events. */
import { isObject } from '../../../../json/is-object.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import type { EarlyEnd } from '../../../model-request/stream-refusals.ts';
import { type StorableResponse, statusOf } from '../../../responses/storable-response.ts';
import type { ResponseFacts } from './response-facts.ts';
import { StreamedItems } from './streamed-items.ts';

export class ObservedResponse {
  readonly facts: ResponseFacts;
  /** Sequence number of the last event. */
  sequence = -1;
  /** A whole answer, as the client received it. */
  whole: Buffer | undefined;
  readonly #items = new StreamedItems();

  constructor(facts: ResponseFacts) {
    this.facts = facts;
  }

  /** @param event an event that `facts` has noted already; its item is kept and changed by later events */
  noteItems(event: JsonObject): void {
    const { type, response, sequence_number: sequence } = event;
    if (typeof sequence === 'number') this.sequence = sequence;
    if (type !== 'error' && !isObject(response)) this.#items.observe(event);
  }

  /**
   * The response with its output so far, ended before its provider ended it. `incomplete`: by a guardrail.
   * @param shell the response without output, used when the provider has sent none
   */
  endAs(status: EarlyEnd['status'] | 'incomplete', error: object, shell: (() => object) | undefined): JsonObject {
    const { facts } = this;
    const items = this.#items.atEnd();
    const begun: JsonObject = { ...(facts.response ?? shell?.()), provider: facts.provider };
    facts.ended = true;
    facts.response = {
      ...begun,
      status,
      error: status === 'failed' ? { type: 'provider_error', ...error } : null,
      completed_at: null,
      incomplete_details: status === 'incomplete' ? { reason: 'content_filter' } : null,
      output: items.length > 0 || !Array.isArray(begun['output']) ? items : begun['output'],
    };
    return facts.response;
  }

  storable(): StorableResponse | undefined {
    const { response } = this.facts;
    if (response === undefined || typeof response['id'] !== 'string') return undefined;
    return {
      id: response['id'],
      status: statusOf(response) ?? 'completed',
      json: this.whole?.toString() ?? JSON.stringify(response),
      output: Array.isArray(response['output']) ? response['output'] : [],
    };
  }
}
