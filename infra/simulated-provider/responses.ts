/** `/v1/responses` and what is below it, for a provider that keeps its responses, in memory. */
import { answer, promptTokens } from './answer.ts';
import type { Rendering } from './chat.ts';
import { type Json, type JsonObject, listIn, objectIn, textIn } from './json.ts';
import type { Turn } from './recall.ts';
import { Refused } from './refused.ts';
import type { Reply } from './reply.ts';
import { responseFrames } from './response-events.ts';
import { askOfResponses, inputItemsOf, responseOf, turnsOf } from './response-object.ts';

interface Stored {
  response: JsonObject;
  readonly body: JsonObject;
  readonly inputItems: JsonObject[];
  /** The conversation up to and including this response. */
  readonly turns: readonly Turn[];
  /** When a background response is done, in milliseconds since the epoch. */
  readonly readyAt: number;
}

export interface ResponsesOptions {
  /** The oldest responses are forgotten beyond so many. */
  readonly keep: number;
  /** How long a background response stays queued. */
  readonly backgroundMs: number;
}

export class Responses {
  readonly #options: ResponsesOptions;
  readonly #stored = new Map<string, Stored>();
  readonly #items = new Map<string, JsonObject>();

  constructor(options: ResponsesOptions) {
    this.#options = options;
  }

  create(body: JsonObject, rendering: Rendering): Reply {
    const { inputItems, turns } = this.#conversation(body, rendering);
    const given = answer(askOfResponses(body, turns, rendering));
    const response = responseOf(body, given, rendering);
    const said = [...turns, ...turnsOf(listIn(response.output))];
    const background = body.background === true;
    const readyAt = background && body.stream !== true ? Date.now() + this.#options.backgroundMs : 0;
    const stored: Stored = { response, body, inputItems, turns: said, readyAt };
    if (body.store !== false || background) this.#keep(stored);
    if (body.stream === true)
      return { status: 200, frames: responseFrames(response, { body, fault: rendering.fault }) };
    return { status: 200, json: asOf(stored) };
  }

  /** With `stream=true` in the query, the stream again, from `starting_after` on. */
  retrieve(id: string, query: URLSearchParams): Reply {
    const stored = this.#find(id);
    if (query.get('stream') !== 'true') return { status: 200, json: asOf(stored) };
    const after = query.get('starting_after');
    const options = { body: stored.body, ...(after === null ? {} : { after: Number(after) }) };
    return { status: 200, frames: responseFrames(stored.response, options) };
  }

  delete(id: string): Reply {
    this.#forget(id, this.#find(id));
    return { status: 200, json: { id, object: 'response', deleted: true } };
  }

  inputItems(id: string, query: URLSearchParams): Reply {
    const { inputItems } = this.#find(id);
    const limit = Number(query.get('limit') ?? 20);
    if (!Number.isInteger(limit) || limit < 1 || limit > 100)
      throw new Refused(400, 'limit must be from 1 to 100', { param: 'limit' });
    const ordered = query.get('order') === 'asc' ? inputItems : [...inputItems].reverse();
    const after = query.get('after');
    const start = after === null ? 0 : ordered.findIndex((item) => item.id === after) + 1;
    if (after !== null && start === 0) throw new Refused(404, `No item with id '${after}'.`, { param: 'after' });
    const data = ordered.slice(start, start + limit);
    const has_more = start + limit < ordered.length;
    return {
      status: 200,
      json: { object: 'list', data, has_more, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null },
    };
  }

  cancel(id: string): Reply {
    const stored = this.#find(id);
    if (stored.response.background !== true) {
      throw new Refused(400, 'Only responses created with background=true can be cancelled.', { param: 'response_id' });
    }
    if (asOf(stored).status === 'queued') {
      const cancelled = { ...stored.response, status: 'cancelled', completed_at: null, output: [], usage: null };
      this.#stored.set(id, { ...stored, response: cancelled, readyAt: 0 });
      return { status: 200, json: cancelled };
    }
    return { status: 200, json: stored.response };
  }

  inputTokens(body: JsonObject, rendering: Rendering): Reply {
    const ask = askOfResponses(body, this.#conversation(body, rendering).turns, rendering);
    return { status: 200, json: { object: 'response.input_tokens', input_tokens: promptTokens(ask) } };
  }

  /** The user's messages, and one opaque item in place of everything else. */
  compact(body: JsonObject, rendering: Rendering): Reply {
    if (textIn(body.model) === undefined)
      throw new Refused(400, 'model is required', { param: 'model', code: 'missing_required_parameter' });
    const { inputItems, turns } = this.#conversation(body, rendering);
    const input = promptTokens({ turns, tools: [] });
    const output = [
      ...inputItems
        .filter((item) => item.type === 'message' && item.role === 'user')
        .map((item) => ({ status: 'completed', ...item })),
      { id: rendering.newId('cmp_'), type: 'compaction', encrypted_content: 'c2ltdWxhdGVk' },
    ];
    const usage = {
      input_tokens: input,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 1,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + 1,
    };
    const head = { id: rendering.newId('resp_'), object: 'response.compaction', created_at: rendering.now() };
    return { status: 200, json: { ...head, output, usage } };
  }

  #conversation(body: JsonObject, { newId }: Rendering): { inputItems: JsonObject[]; turns: Turn[] } {
    const inputItems = inputItemsOf(body).map((item) =>
      item.type === 'item_reference' ? this.#item(item.id) : withId(item, newId),
    );
    const previous = textIn(body.previous_response_id);
    const history = previous === undefined ? [] : this.#previous(previous).turns;
    return { inputItems, turns: [...history, ...turnsOf(inputItems)] };
  }

  #previous(id: string): Stored {
    const stored = this.#stored.get(id);
    if (stored !== undefined) return stored;
    const detail = { param: 'previous_response_id', code: 'previous_response_not_found' };
    throw new Refused(400, `Previous response with id '${id}' not found.`, detail);
  }

  #item(id: Json | undefined): JsonObject {
    const item = this.#items.get(textIn(id) ?? '');
    if (item === undefined) throw new Refused(404, `Item with id '${textIn(id) ?? ''}' not found.`, { param: 'input' });
    return item;
  }

  #find(id: string): Stored {
    const stored = this.#stored.get(id);
    if (stored === undefined) throw new Refused(404, `Response with id '${id}' not found.`);
    return stored;
  }

  #keep(stored: Stored): void {
    this.#stored.set(textIn(stored.response.id) ?? '', stored);
    for (const item of itemsOf(stored)) this.#items.set(textIn(item.id) ?? '', item);
    if (this.#stored.size <= this.#options.keep) return;
    for (const [id, oldest] of this.#stored) {
      this.#forget(id, oldest);
      break;
    }
  }

  #forget(id: string, stored: Stored): void {
    this.#stored.delete(id);
    for (const item of itemsOf(stored)) this.#items.delete(textIn(item.id) ?? '');
  }
}

function itemsOf({ inputItems, response }: Stored): JsonObject[] {
  return [...inputItems, ...listIn(response.output).map(objectIn)];
}

function withId(item: JsonObject, newId: (prefix: string) => string): JsonObject {
  const prefix =
    item.type === 'message'
      ? 'msg_'
      : item.type === 'function_call'
        ? 'fc_'
        : item.type === 'function_call_output'
          ? 'fco_'
          : 'item_';
  return { ...item, id: textIn(item.id) ?? newId(prefix) };
}

function asOf({ response, readyAt }: Stored): JsonObject {
  if (readyAt <= Date.now()) return response;
  return { ...response, status: 'queued', completed_at: null, incomplete_details: null, output: [], usage: null };
}
