/** A native response as the client has received it so far, built from its events. */
import { isObject } from '../../../../json/is-object.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import type { EarlyEnd } from '../../../model-request/stream-refusals.ts';
import { type StorableResponse, statusOf } from '../../../responses/storable-response.ts';
import type { ResponseFacts } from './response-facts.ts';

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

/**
 * The output items of a native Responses stream, kept up to date from its events. OpenAI Responses API: streaming
 * events.
 */
type Item = Record<string, unknown>;

interface PartPlace {
  readonly list: 'content' | 'summary';
  readonly index: 'content_index' | 'summary_index';
  readonly member: 'text' | 'refusal';
  /** Type of the part when no event announced it. */
  readonly type: string;
}

/** Deltas of a member of the item itself. */
const MEMBER_DELTAS = new Map<unknown, string>([
  ['response.function_call_arguments.delta', 'arguments'],
  ['response.mcp_call_arguments.delta', 'arguments'],
  ['response.custom_tool_call_input.delta', 'input'],
  ['response.code_interpreter_call_code.delta', 'code'],
]);

const content = { list: 'content', index: 'content_index', member: 'text' } as const;
/** Deltas of one part of the item. */
const PART_DELTAS = new Map<unknown, PartPlace>([
  ['response.output_text.delta', { ...content, type: 'output_text' }],
  ['response.refusal.delta', { ...content, member: 'refusal', type: 'refusal' }],
  ['response.reasoning_text.delta', { ...content, type: 'reasoning_text' }],
  ['response.reasoning.delta', { ...content, type: 'reasoning_text' }],
  [
    'response.reasoning_summary_text.delta',
    { list: 'summary', index: 'summary_index', member: 'text', type: 'summary_text' },
  ],
]);

/** Types of items that cannot be `incomplete`. */
const FAILED_WHEN_INCOMPLETE = new Set<unknown>(['web_search_call', 'image_generation_call']);
/** Types of items that have a status even when the provider leaves it out. */
const WITH_STATUS = new Set<unknown>(['message', 'reasoning', 'function_call', 'custom_tool_call']);

class StreamedItems {
  readonly #items = new Map<number, Item>();
  readonly #done = new Set<number>();

  /** @param event parsed from the stream; its item is kept and changed by later events */
  observe(event: Record<string, unknown>): void {
    const { type, output_index: index } = event;
    if (typeof index !== 'number') return;
    if (isObject(event.item)) {
      this.#items.set(index, event.item);
      if (type === 'response.output_item.done') this.#done.add(index);
      return;
    }
    const item = this.#items.get(index);
    if (item === undefined) return;
    if (isObject(event.part)) setPart(item, event, event.part);
    else if (type === 'response.output_text.annotation.added') addAnnotation(item, event);
    else if (typeof event.delta === 'string') addDelta(item, event, event.delta);
  }

  /** The items in their order when no more events follow: an item that is not done is incomplete. */
  atEnd(): Item[] {
    return [...this.#items.entries()]
      .sort(([a], [b]) => a - b)
      .map(([index, item]) => (this.#done.has(index) ? item : cutOff(item)));
  }
}

function cutOff(item: Item): Item {
  if (!('status' in item) && !WITH_STATUS.has(item.type)) return item;
  return { ...item, status: FAILED_WHEN_INCOMPLETE.has(item.type) ? 'failed' : 'incomplete' };
}

/** `content_part.added` and `.done`, `reasoning_summary_part.added` and `.done`. */
function setPart(item: Item, event: Record<string, unknown>, part: Record<string, unknown>): void {
  const list = 'summary_index' in event ? 'summary' : 'content';
  const index = list === 'summary' ? event.summary_index : event.content_index;
  if (typeof index === 'number') partsOf(item, list).set(index, { ...part });
}

function addDelta(item: Item, event: Record<string, unknown>, delta: string): void {
  const member = MEMBER_DELTAS.get(event.type);
  if (member !== undefined) {
    item[member] = textIn(item, member) + delta;
    return;
  }
  const place = PART_DELTAS.get(event.type);
  if (place === undefined) return;
  const parts = partsOf(item, place.list);
  const index = event[place.index];
  if (typeof index !== 'number') return;
  const part = parts.get(index) ?? parts.set(index, { type: place.type, [place.member]: '' });
  part[place.member] = textIn(part, place.member) + delta;
}

function addAnnotation(item: Item, event: Record<string, unknown>): void {
  if (typeof event.content_index !== 'number') return;
  const part = partsOf(item, 'content').get(event.content_index);
  if (Array.isArray(part?.annotations)) part.annotations.push(event.annotation);
}

/** The list of parts of an item. A part with too high an index is appended. */
function partsOf(item: Item, list: 'content' | 'summary') {
  const known: unknown = item[list];
  const parts: unknown[] = Array.isArray(known) ? known : [];
  if (parts !== known) item[list] = parts;
  return {
    get(index: number): Item | undefined {
      const part = parts[index];
      return isObject(part) ? part : undefined;
    },
    set(index: number, part: Item): Item {
      parts[Math.min(index, parts.length)] = part;
      return part;
    },
  };
}

function textIn(holder: Item, member: string): string {
  const text = holder[member];
  return typeof text === 'string' ? text : '';
}
