import { isObject } from '../../json/is-object.ts';
import type { ResponseShell, ResponseStatus } from '../../providers/translate/chat-to-responses/response-object.ts';
import { filled, type JsonObject } from '../../providers/translate/json.ts';
import type { CreateResponseRequest } from './create-request.ts';

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
