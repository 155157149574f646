/**
 * A Messages request as a chat completions request.
 *
 * Every member is translated, refused, or known to have no effect on the answer; `null` and `''` mean "not given".
 *
 * | Messages | Chat |
 * |---|---|
 * | `system`, `messages` | `messages` (see messages.ts) |
 * | `tools`, `tool_choice` | `tools`, `tool_choice`, `parallel_tool_calls` (see tools.ts) |
 * | `max_tokens`, `temperature`, `top_p`, `top_k` | the same; a provider without `top_k` refuses it |
 * | `stop_sequences` | `stop` |
 * | `thinking`, `output_config.effort` | according to the provider's reasoning style (see message-object.ts, reasoning.ts) |
 * | `output_config.format`, `output_format` | `response_format`, strict |
 * | `output_config.task_budget` | not sent: advice to the model |
 * | any other option of `output_config` | refused |
 * | `metadata.user_id` | `user`; its SHA-256 when it is longer than the 64 characters that providers accept |
 * | `stream` | `stream`, always with `stream_options.include_usage` |
 * | `container`, `mcp_servers`, `inference_geo`, `speed: "fast"`, a list of `fallbacks` | refused: only Anthropic can honour them |
 * | `thread` | refused with the code that makes Anthropic's clients send the whole conversation instead |
 * | `compaction`, `context_management` | not sent: they reduce the model's input, and here the model gets all of it |
 * | `betas`, `billing_policy`, `cache_control`, `diagnostics`, `fallback_credit_token`, `fallbacks: "default"`, `provider`, `service_tier` | not sent: they do not change the answer |
 * | any unknown member | the same |
 */
import { createHash } from 'node:crypto';
import { isObject } from '../../../json/is-object.ts';
import { filled, isUnset, type JsonObject, type Refused, refuse } from '../json.ts';
import { reasoningMembers, refusedEffort } from '../responses-to-chat/reasoning.ts';
import type { ChatRequestOptions, TranslatedRequest } from '../responses-to-chat/request.ts';
import type { ChatTools } from '../responses-to-chat/tools.ts';
import { effortOf } from './message-object.ts';
import { chatMessagesFromMessages } from './messages.ts';

const translatedMembers = new Set([
  'messages',
  'metadata',
  'model',
  'output_config',
  'output_format',
  'stop_sequences',
  'stream',
  'system',
  'thinking',
  'tool_choice',
  'tools',
]);

const withoutEffect = new Set([
  'betas',
  'billing_policy',
  'cache_control',
  'compaction',
  'context_management',
  'diagnostics',
  'fallback_credit_token',
  'fallbacks',
  'provider',
  'service_tier',
]);

const anthropicOnly = ['container', 'mcp_servers', 'inference_geo'];

const MAX_USER_LENGTH = 64;

export function chatRequestFromMessages(body: JsonObject, options: ChatRequestOptions): TranslatedRequest | Refused {
  const refused = refusedMember(body);
  if (refused !== undefined) return refused;
  const conversation = chatMessagesFromMessages(body, options.reasoningStyle);
  if (!conversation.ok) return conversation;
  const tools = chatToolsFromMessages(body);
  if (!tools.ok) return tools;
  const output = outputMembers(body);
  if (!output.ok) return output;

  const members: Record<string, unknown> = {};
  for (const member in body) {
    if (!isUnset(body[member]) && !translatedMembers.has(member) && !withoutEffect.has(member)) {
      members[member] = body[member];
    }
  }
  if (!isUnset(body['stop_sequences'])) members['stop'] = body['stop_sequences'];
  Object.assign(
    members,
    tools.members,
    output.members,
    reasoningMembers({ effort: effortOf(body) }, options.reasoningStyle),
    userMember(body['metadata']),
  );
  if (body['stream'] === true) Object.assign(members, { stream: true, stream_options: { include_usage: true } });
  return { ok: true, body: { ...members, model: options.model, messages: conversation.messages } };
}

function refusedMember(body: JsonObject): Refused | undefined {
  const member = anthropicOnly.find((name) => !isUnset(body[name]));
  if (member !== undefined) return unsupported(member);
  if (Array.isArray(body['fallbacks']) && body['fallbacks'].length > 0) return unsupported('fallbacks');
  if (!isUnset(body['thread'])) return unsupported('thread', 'thread_unsupported_request');
  return body['speed'] === 'fast' ? unsupported('speed') : undefined;
}

function unsupported(member: string, code = 'unsupported_parameter'): Refused {
  return refuse(code, member, `'${member}' needs a provider with Anthropic's own API; this model's provider has none.`);
}

function outputMembers(body: JsonObject): { readonly ok: true; readonly members: JsonObject } | Refused {
  const config = isObject(body['output_config']) ? body['output_config'] : {};
  const effort = refusedEffort(config['effort'], 'output_config.effort');
  if (effort !== undefined) return effort;
  for (const option in config) {
    const isKnown = option === 'effort' || option === 'format' || option === 'task_budget';
    if (!isKnown && !isUnset(config[option])) return unsupported(`output_config.${option}`);
  }
  const format = config['format'] ?? body['output_format'];
  if (!isObject(format)) return { ok: true, members: {} };
  const { type, schema } = format;
  if (type !== 'json_schema') return unsupported('output_config.format.type');
  const json_schema = { name: 'answer', schema, strict: true };
  return { ok: true, members: { response_format: { type, json_schema } } };
}

function userMember(metadata: unknown): JsonObject {
  const user = isObject(metadata) ? filled(metadata['user_id']) : undefined;
  if (user === undefined) return {};
  return { user: user.length <= MAX_USER_LENGTH ? user : createHash('sha256').update(user).digest('hex') };
}

/**
 * Tools and `tool_choice`.
 *
 * | Messages | Chat |
 * |---|---|
 * | tool of the client: no `type`, or `custom` | function |
 * | tool of any other type (`web_search_…`, `bash_…`, …) | refused: only Anthropic's models know its schema, or Anthropic executes it |
 * | `tool_choice` `auto`, `none` | the same, when there are tools |
 * | `any` | `required`; refused when there are no tools |
 * | `tool` | that function; refused when it is not among the tools |
 * | `disable_parallel_tool_use: true` | `parallel_tool_calls: false` |
 * | `cache_control`, `defer_loading`, `eager_input_streaming`, `input_examples`, `allowed_callers` | not sent: hints to Anthropic |
 */
function chatToolsFromMessages(body: JsonObject): ChatTools | Refused {
  const given = Array.isArray(body['tools']) ? body['tools'] : [];
  const tools: JsonObject[] = [];
  for (const [index, tool] of given.entries()) {
    const translated = chatTool(tool, `tools[${index}]`);
    if ('ok' in translated) return translated;
    tools.push(translated.tool);
  }
  return withChoice(tools, body['tool_choice']);
}

function chatTool(tool: unknown, path: string): { readonly tool: JsonObject } | Refused {
  if (!isObject(tool)) return refuse('invalid_type', path, `${path} must be an object.`);
  const type = filled(tool['type']) ?? 'custom';
  if (type !== 'custom') {
    return refuse(
      'unsupported_value',
      `${path}.type`,
      `'${path}.type': tools of type '${type}' need a provider with Anthropic's own API; this model's provider has none.`,
    );
  }
  const name = filled(tool['name']);
  if (name === undefined) {
    return refuse('missing_required_parameter', `${path}.name`, `Missing required parameter: '${path}.name'.`);
  }
  const description = filled(tool['description']);
  const { strict } = tool;
  const called = {
    name,
    ...(description === undefined ? {} : { description }),
    parameters: tool['input_schema'] ?? { type: 'object', properties: {} },
    ...(typeof strict === 'boolean' ? { strict } : {}),
  };
  return { tool: { type: 'function', function: called } };
}

function withChoice(tools: readonly JsonObject[], choice: unknown): ChatTools | Refused {
  const toolChoice = isObject(choice) ? choice : {};
  const type = filled(toolChoice['type']) ?? 'auto';
  if (tools.length === 0) {
    if (type !== 'any' && type !== 'tool') return { ok: true, members: {} };
    return refuse('invalid_value', 'tool_choice', `tool_choice is '${type}', but there are no tools.`);
  }
  const chosen = chatChoice(tools, type, toolChoice['name']);
  if (!chosen.ok) return chosen;
  return {
    ok: true,
    members: {
      tools,
      ...(isObject(choice) ? { tool_choice: chosen.choice } : {}),
      ...(toolChoice['disable_parallel_tool_use'] === true ? { parallel_tool_calls: false } : {}),
    },
  };
}

interface Chosen {
  readonly ok: true;
  readonly choice: string | JsonObject;
}

function chatChoice(tools: readonly JsonObject[], type: string, name: unknown): Chosen | Refused {
  switch (type) {
    case 'auto':
    case 'none':
      return { ok: true, choice: type };
    case 'any':
      return { ok: true, choice: 'required' };
    case 'tool':
      if (tools.some((tool) => isObject(tool['function']) && tool['function']['name'] === name)) {
        return { ok: true, choice: { type: 'function', function: { name } } };
      }
      return refuse(
        'invalid_value',
        'tool_choice.name',
        `tool_choice demands '${String(name)}', which is not among the tools.`,
      );
    default:
      return refuse(
        'invalid_value',
        'tool_choice.type',
        `tool_choice.type must be 'auto', 'any', 'tool' or 'none', not '${type}'.`,
      );
  }
}
