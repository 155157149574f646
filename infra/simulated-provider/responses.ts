/** `/v1/responses` and the routes below it, for a provider that keeps its responses in memory. */
import { answer, promptTokens } from './answer.ts';
import { BackgroundJob } from './background-job.ts';
import type { Rendering } from './chat.ts';
import type { FaultPlan } from './fault.ts';
import { type Json, type JsonObject, listIn, objectIn, textIn } from './json.ts';
import { pageOf } from './page.ts';
import type { Turn } from './recall.ts';
import { Refused } from './refused.ts';
import type { Reply } from './reply.ts';
import type { EventOptions } from './response-event.ts';
import { backgroundFrames, inState, responseFrames } from './response-events.ts';
import { inputItemsOf, sealed, turnsOf } from './response-items.ts';
import { askOfResponses, responseOf } from './response-object.ts';

interface Stored {
  /** The response in its final state. */
  readonly response: JsonObject;
  readonly body: JsonObject;
  readonly inputItems: JsonObject[];
  /** The conversation up to and including this response. */
  readonly turns: readonly Turn[];
  /** Of a response in the background. */
  readonly job: BackgroundJob | undefined;
}

export interface ResponsesOptions {
  /** Number of responses above which the oldest are removed. */
  readonly keep: number;
  /** Duration of a background response. */
  readonly backgroundMs: number;
  readonly plan: FaultPlan;
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
    const { backgroundMs, plan } = this.#options;
    const { fault } = rendering;
    const job = body.background === true ? new BackgroundJob(backgroundMs, plan, fault?.holdBackground) : undefined;
    const stored: Stored = { response, body, inputItems, turns: said, job };
    if (body.store !== false || job !== undefined) this.#keep(stored);
    if (body.stream !== true) return { status: 200, json: asOf(stored) };
    return framesOf(stored, { fault, obfuscation: objectIn(body.stream_options).include_obfuscation === true });
  }

  /** With `stream=true` in the query, repeats the stream from `starting_after` on. */
  retrieve(id: string, query: URLSearchParams): Reply {
    const stored = this.#find(id);
    if (query.get('stream') !== 'true') return { status: 200, json: asOf(stored) };
    const after = query.get('starting_after');
    if (after !== null && !/^\d+$/.test(after))
      throw new Refused(400, 'starting_after must be a whole number', { param: 'starting_after' });
    const obfuscation = query.get('include_obfuscation') === 'true';
    return framesOf(stored, { obfuscation, ...(after === null ? {} : { after: Number(after) }) });
  }

  delete(id: string): Reply {
    this.#forget(id, this.#find(id));
    return { status: 200, json: { id, object: 'response', deleted: true } };
  }

  inputItems(id: string, query: URLSearchParams): Reply {
    const { inputItems } = this.#find(id);
    return { status: 200, json: pageOf(inputItems, query, { usual: 20, most: 100 }) };
  }

  /** A response that has ended is returned unchanged. */
  cancel(id: string): Reply {
    const stored = this.#find(id);
    if (stored.response.background !== true) {
      throw new Refused(400, 'Only responses created with background=true can be cancelled.', { param: 'response_id' });
    }
    stored.job?.cancel();
    return { status: 200, json: asOf(stored) };
  }

  inputTokens(body: JsonObject, rendering: Rendering): Reply {
    const requestBody = { ...body, input: body.input ?? [] };
    const ask = askOfResponses(body, this.#conversation(requestBody, rendering).turns, rendering);
    return { status: 200, json: { object: 'response.input_tokens', input_tokens: promptTokens(ask) } };
  }

  /** The user's messages, and one opaque item that replaces all others. */
  compact(body: JsonObject, rendering: Rendering): Reply {
    if (textIn(body.model) === undefined)
      throw new Refused(400, 'model is required', { param: 'model', code: 'missing_required_parameter' });
    const requestBody = body.previous_response_id == null ? body : { ...body, input: body.input ?? [] };
    const { inputItems, turns } = this.#conversation(requestBody, rendering);
    const input = promptTokens({ turns, tools: [] });
    const output = [
      ...inputItems
        .filter((item) => item.type === 'message' && item.role === 'user')
        .map((item) => ({ status: 'completed', ...item })),
      { id: rendering.newId('cmp_'), type: 'compaction', encrypted_content: sealed(turns) },
    ];
    const usage = {
      input_tokens: input,
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
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

const PREFIXES: Readonly<Record<string, string>> = {
  message: 'msg_',
  reasoning: 'rs_',
  function_call: 'fc_',
  function_call_output: 'fco_',
  custom_tool_call: 'ctc_',
  custom_tool_call_output: 'ctco_',
};

function withId(item: JsonObject, newId: (prefix: string) => string): JsonObject {
  return { ...item, id: textIn(item.id) ?? newId(PREFIXES[textIn(item.type) ?? ''] ?? 'item_') };
}

/** The response in its present state. */
function asOf({ response, job }: Stored): JsonObject {
  return job === undefined || job.state === 'over' ? response : inState(response, job.state);
}

function framesOf({ response, body, job }: Stored, options: Omit<EventOptions, 'body'>): Reply {
  const all = { body, ...options };
  return { status: 200, frames: job ? backgroundFrames(response, job, all) : responseFrames(response, all) };
}
