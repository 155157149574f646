/** OpenAI's Responses API: a request parsed, and the response object with every member it has. */
import { type Answer, type Ask, logprobOf, type Tool } from './answer.ts';
import { formatOf, type Rendering, reasoningFor, settingsOf, textOfContent, toolChoiceOf } from './chat.ts';
import { isObject, type Json, type JsonObject, listIn, numberIn, objectIn, textIn } from './json.ts';
import type { Turn } from './recall.ts';
import { Refused } from './refused.ts';

/** The input as a list of items, each with a type; a string is a user message. */
export function inputItemsOf(body: JsonObject): JsonObject[] {
  const { input } = body;
  if (typeof input === 'string') return [userMessage(input)];
  if (!Array.isArray(input)) throw new Refused(400, 'input must be a string or a list of items', { param: 'input' });
  return input.map((item) => {
    if (typeof item === 'string') return userMessage(item);
    if (!isObject(item)) throw new Refused(400, 'every input item must be an object', { param: 'input' });
    return item.type === undefined ? { type: 'message', ...item } : item;
  });
}

function userMessage(text: string): JsonObject {
  return { type: 'message', role: 'user', content: [{ type: 'input_text', text }] };
}

/** What the items of a conversation say; items without words (reasoning, unknown types) say nothing. */
export function turnsOf(items: readonly Json[]): Turn[] {
  return items.flatMap((each): Turn[] => {
    const item = objectIn(each);
    switch (item.type) {
      case 'message': {
        const role =
          item.role === 'developer' || item.role === 'system'
            ? 'system'
            : item.role === 'assistant'
              ? 'assistant'
              : 'user';
        return [{ role, text: textOfContent(item.content) }];
      }
      case 'function_call':
        return [{ role: 'assistant', text: JSON.stringify({ name: item.name, arguments: item.arguments }) }];
      case 'function_call_output':
        return [{ role: 'tool', text: textIn(item.output) ?? textOfContent(item.output) }];
      default:
        return [];
    }
  });
}

export function askOfResponses(body: JsonObject, turns: readonly Turn[], rendering: Rendering): Ask {
  const instructions = textIn(body.instructions) ?? '';
  return {
    ...settingsOf(body, rendering),
    turns: instructions === '' ? turns : [{ role: 'system', text: instructions }, ...turns],
    tools: listIn(body.tools).flatMap(toolOf),
    toolChoice: toolChoiceOf(body.tool_choice),
    maxTokens: numberIn(body.max_output_tokens),
    stop: [],
    format: formatOf(objectIn(body.text).format),
    reasoning: reasoningFor(objectIn(body.reasoning).effort),
  };
}

function toolOf(tool: Json): Tool[] {
  const { type, name, parameters } = objectIn(tool);
  return type === 'function' && typeof name === 'string'
    ? [{ name, parameters: parameters ?? { type: 'object' } }]
    : [];
}

/** The finished response: the 31 members that Open Responses requires, and those that OpenAI adds. */
export function responseOf(body: JsonObject, given: Answer, rendering: Rendering): JsonObject {
  const { newId, now, fault } = rendering;
  const complete = given.finish !== 'length';
  const at = now();
  return {
    id: newId('resp_'),
    object: 'response',
    created_at: at,
    completed_at: complete ? at : null,
    status: complete ? 'completed' : 'incomplete',
    background: body.background === true,
    error: null,
    incomplete_details: complete ? null : { reason: 'max_output_tokens' },
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    metadata: objectIn(body.metadata),
    model: textIn(body.model) ?? 'simulated-small',
    output: fault?.emptyChoices ? [] : outputOf(body, given, newId),
    parallel_tool_calls: body.parallel_tool_calls !== false,
    presence_penalty: numberIn(body.presence_penalty) ?? 0,
    frequency_penalty: numberIn(body.frequency_penalty) ?? 0,
    previous_response_id: body.previous_response_id ?? null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    reasoning: { effort: objectIn(body.reasoning).effort ?? null, summary: objectIn(body.reasoning).summary ?? null },
    safety_identifier: body.safety_identifier ?? null,
    service_tier: 'default',
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
    usage: fault?.usage === false ? null : usageOf(given),
    user: body.user ?? null,
  };
}

function toolAsShown(tool: Json): Json {
  const shown = objectIn(tool);
  return shown.type === 'function' ? { description: null, parameters: null, strict: true, ...shown } : shown;
}

function outputOf(body: JsonObject, given: Answer, newId: (prefix: string) => string): JsonObject[] {
  const output: JsonObject[] = [];
  if (given.reasoning.length > 0) {
    const summary = [{ type: 'summary_text', text: given.reasoning.join('') }];
    const encrypted = listIn(body.include).includes('reasoning.encrypted_content')
      ? { encrypted_content: 'c2ltdWxhdGVk' }
      : {};
    output.push({ id: newId('rs_'), type: 'reasoning', summary, ...encrypted });
  }
  for (const call of given.calls) {
    output.push({
      id: newId('fc_'),
      type: 'function_call',
      status: 'completed',
      call_id: newId('call_'),
      name: call.name,
      arguments: call.arguments,
    });
  }
  if (given.calls.length === 0) {
    const status = given.finish === 'length' ? 'incomplete' : 'completed';
    const part = { type: 'output_text', annotations: [], logprobs: logprobsOf(body, given.tokens), text: given.text };
    output.push({ id: newId('msg_'), type: 'message', status, role: 'assistant', content: [part] });
  }
  return output;
}

export function logprobsOf(body: JsonObject, tokens: readonly string[]): JsonObject[] {
  if (!listIn(body.include).includes('message.output_text.logprobs') && !numberIn(body.top_logprobs)) return [];
  return tokens.map((token) => logprobOf(token, numberIn(body.top_logprobs) ?? 0));
}

function usageOf(given: Answer): JsonObject {
  return {
    input_tokens: given.promptTokens,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: given.completionTokens,
    output_tokens_details: { reasoning_tokens: given.reasoningTokens },
    total_tokens: given.promptTokens + given.completionTokens,
  };
}
