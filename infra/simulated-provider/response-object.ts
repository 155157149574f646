/** OpenAI's Responses API: parses requests, and makes the response object with all of its members. */
import type { Answer } from './answer.ts';
import type { Ask, Tool } from './ask.ts';
import { formatOf, type Rendering, reasoningFor, settingsOf } from './chat.ts';
import { type Json, type JsonObject, listIn, numberIn, objectIn, textIn } from './json.ts';
import type { Turn } from './recall.ts';
import { outputOf } from './response-items.ts';
import { chosen } from './tool-calls.ts';

export function askOfResponses(body: JsonObject, turns: readonly Turn[], rendering: Rendering): Ask {
  const instructions = textIn(body.instructions) ?? '';
  return {
    ...settingsOf(body, rendering),
    turns: instructions === '' ? turns : [{ role: 'system', text: instructions }, ...turns],
    ...chosen(body.tool_choice, listIn(body.tools).flatMap(toolOf)),
    maxTokens: numberIn(body.max_output_tokens),
    stop: [],
    format: formatOf(objectIn(body.text).format),
    reasoning: reasoningFor(objectIn(body.reasoning).effort),
  };
}

function toolOf(tool: Json): Tool[] {
  const { type, name, parameters } = objectIn(tool);
  if (typeof name !== 'string') return [];
  if (type === 'custom') return [{ name, parameters: {}, freeform: true }];
  return type === 'function' ? [{ name, parameters: parameters ?? { type: 'object' } }] : [];
}

/** Request members that the response repeats when the request contains them. */
const ECHOED = ['prompt', 'prompt_cache_retention', 'prompt_cache_options', 'conversation', 'context_management'];

/** The finished response: the 31 members that Open Responses requires, and those that OpenAI adds. */
export function responseOf(body: JsonObject, given: Answer, rendering: Rendering): JsonObject {
  const { newId, now, fault } = rendering;
  const at = now();
  const reason = given.finish === 'length' ? 'max_output_tokens' : given.finish;
  const complete = reason !== 'max_output_tokens' && reason !== 'content_filter';
  const failed = fault?.failResponse === true;
  const { effort = null, summary = null } = objectIn(body.reasoning);
  return {
    id: newId('resp_'),
    object: 'response',
    created_at: at,
    completed_at: complete && !failed ? at : null,
    status: failed ? 'failed' : complete ? 'completed' : 'incomplete',
    background: body.background === true,
    error: failed ? { code: fault.code ?? 'server_error', message: fault.message ?? 'The model failed.' } : null,
    incomplete_details: complete || failed ? null : { reason },
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    metadata: objectIn(body.metadata),
    model: textIn(body.model) ?? 'simulated-small',
    output: fault?.emptyChoices || failed ? [] : outputOf(body, given, newId),
    parallel_tool_calls: body.parallel_tool_calls !== false,
    presence_penalty: numberIn(body.presence_penalty) ?? 0,
    frequency_penalty: numberIn(body.frequency_penalty) ?? 0,
    previous_response_id: body.previous_response_id ?? null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    reasoning: { effort, summary },
    safety_identifier: body.safety_identifier ?? null,
    service_tier: tierOf(body),
    store: body.store !== false,
    temperature: numberIn(body.temperature) ?? 1,
    text: {
      format: objectIn(body.text).format ?? { type: 'text' },
      verbosity: objectIn(body.text).verbosity ?? 'medium',
    },
    tool_choice: body.tool_choice ?? 'auto',
    tools: listIn(body.tools).map(toolAsShown),
    top_logprobs: numberIn(body.top_logprobs) ?? 0,
    top_p: numberIn(body.top_p) ?? 1,
    truncation: textIn(body.truncation) ?? 'disabled',
    usage: fault?.usage === false || failed ? null : usageOf(given),
    user: body.user ?? null,
    ...Object.fromEntries(ECHOED.flatMap((name) => (body[name] === undefined ? [] : [[name, body[name]]]))),
  };
}

function tierOf(body: JsonObject): string {
  const requested = textIn(body.service_tier);
  return requested === undefined || requested === 'auto' ? 'default' : requested;
}

function toolAsShown(tool: Json): Json {
  const shown = objectIn(tool);
  return shown.type === 'function' ? { description: null, parameters: null, strict: true, ...shown } : shown;
}

function usageOf(given: Answer): JsonObject {
  return {
    input_tokens: given.promptTokens,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: given.completionTokens,
    output_tokens_details: { reasoning_tokens: given.reasoningTokens },
    total_tokens: given.promptTokens + given.completionTokens,
  };
}
