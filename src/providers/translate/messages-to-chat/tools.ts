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
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject } from '../json.ts';
import { type Refused, refuse } from '../refusal.ts';
import type { ChatTools } from '../responses-to-chat/tools.ts';

export function chatToolsFromMessages(body: JsonObject): ChatTools | Refused {
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
