import { z } from 'zod';
import { isObject } from '../../json/is-object.ts';
import type { ResponseShell, ResponseStatus } from '../../providers/translate/chat-to-responses/response-object.ts';
import { filled, type JsonObject, type Refused } from '../../providers/translate/json.ts';
import type { ParsedRequest } from '../model-request/model-request.ts';
import { type Accepted, checkRequest } from '../request-check.ts';

const text = z.string().nullish();
const flag = z.boolean().nullish();
const object = z.looseObject({}).nullish();

/** The members of an item that the gateway itself reads; others depend on its type. */
export const inputItemSchema = z.looseObject({
  type: text,
  role: text,
  content: z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]).nullish(),
  id: text,
});

export const createRequestSchema = z.looseObject({
  model: z.string().min(1),
  provider: text,
  input: z.union([z.string(), z.array(inputItemSchema)]).nullish(),
  instructions: z.union([z.string(), z.array(z.looseObject({}))]).nullish(),
  previous_response_id: text,
  conversation: z.union([z.string(), z.looseObject({ id: z.string() })]).nullish(),
  background: flag,
  store: flag,
  stream: flag,
  stream_options: object,
  max_output_tokens: z.int().nullish(),
  max_tool_calls: z.int().min(0).nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_logprobs: z.int().nullish(),
  parallel_tool_calls: flag,
  tools: z.array(z.looseObject({ type: z.string() })).nullish(),
  tool_choice: z.union([z.string(), z.looseObject({})]).nullish(),
  reasoning: object,
  text: object,
  metadata: z.record(z.string(), z.string()).nullish(),
  include: z.array(z.string()).nullish(),
  truncation: text,
  service_tier: text,
  safety_identifier: text,
  prompt_cache_key: text,
  prompt_cache_options: object,
  prompt_cache_retention: text,
  user: text,
});

/** Body of `POST /v1/responses`: the members that the gateway reads. `null` means "not given" everywhere. */
export type CreateResponseRequest = z.infer<typeof createRequestSchema>;

export function parseCreateResponse(json: unknown): Accepted<CreateResponseRequest> | Refused {
  const hasPrompt = isObject(json) && json['prompt'] !== undefined && json['prompt'] !== null;
  return checkRequest(createRequestSchema, json, hasPrompt ? ['model'] : ['model', 'input']);
}

const inputSchema = createRequestSchema.pick({ input: true });

/** The input of a request whose other members are not read here. */
export function parseInput(json: unknown): Accepted<object> | Refused {
  return checkRequest(inputSchema, json, []);
}

/** The response that a request continues. */
export function previousResponseOf({ json }: ParsedRequest): string | null {
  const previous = json.previous_response_id;
  return typeof previous === 'string' && previous !== '' ? previous : null;
}

/** The id of a response that the gateway itself generates. */
export function responseIdOf(exchangeId: string): string {
  return `resp_${exchangeId.replaceAll('-', '')}`;
}

export interface ShellFacts {
  /** `resp_…` */
  readonly id: string;
  /** Unix seconds. */
  readonly createdAt: number;
  /** The provider's own id of the model, until its answer names one. */
  readonly model: string;
  /** The provider instance that answers. */
  readonly provider: string;
  /** Default `in_progress`. */
  readonly status?: ResponseStatus;
}

/**
 * The response without any output: all members that clients and validators require, with the request's values or
 * OpenAI's defaults.
 */
export function responseShell(request: CreateResponseRequest, facts: ShellFacts): ResponseShell {
  return {
    id: facts.id,
    object: 'response',
    created_at: facts.createdAt,
    status: facts.status ?? 'in_progress',
    completed_at: null,
    background: request.background ?? false,
    error: null,
    frequency_penalty: numberOr(request['frequency_penalty'], 0),
    incomplete_details: null,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: request.max_tool_calls ?? null,
    model: facts.model,
    provider: facts.provider,
    output: [],
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    presence_penalty: numberOr(request['presence_penalty'], 0),
    previous_response_id: filled(request.previous_response_id) ?? null,
    prompt_cache_key: request.prompt_cache_key ?? null,
    prompt_cache_retention: request.prompt_cache_retention ?? null,
    reasoning: { effort: null, summary: null, ...request.reasoning },
    safety_identifier: request.safety_identifier ?? null,
    service_tier: filled(request.service_tier) ?? 'default',
    store: request.store ?? true,
    temperature: request.temperature ?? 1,
    text: { ...request.text, format: textFormat(request.text?.['format']), verbosity: verbosity(request.text) },
    tool_choice: request.tool_choice || 'auto',
    tools: (request.tools ?? []).map(echoedTool),
    top_logprobs: request.top_logprobs ?? 0,
    top_p: request.top_p ?? 1,
    truncation: filled(request.truncation) ?? 'disabled',
    usage: null,
    user: request.user ?? null,
    metadata: request.metadata ?? {},
    ...conversation(request.conversation),
    ...(request.include?.length ? { include: request.include } : {}),
    ...whenGiven(request, 'prompt'),
    ...whenGiven(request, 'prompt_cache_options'),
  };
}

function whenGiven(request: CreateResponseRequest, member: string): JsonObject {
  const value = request[member];
  return value === undefined || value === null ? {} : { [member]: value };
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}

function verbosity(text: JsonObject | null | undefined): unknown {
  return text?.['verbosity'] ?? 'medium';
}

function textFormat(format: unknown): JsonObject {
  if (!isObject(format)) return { type: 'text' };
  if (format['type'] !== 'json_schema') return format;
  return { description: null, ...format, strict: format['strict'] ?? false };
}

/** A function tool is echoed with all its members, `null` where the client gave none. */
function echoedTool(tool: JsonObject): JsonObject {
  if (tool['type'] !== 'function') return tool;
  return { name: null, description: null, parameters: null, strict: null, ...tool };
}

function conversation(given: CreateResponseRequest['conversation']): { readonly conversation?: JsonObject } {
  if (given === null || given === undefined || given === '') return {};
  return { conversation: typeof given === 'string' ? { id: given } : given };
}
