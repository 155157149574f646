/**
 * Tools and `tool_choice` in the format of chat completions.
 *
 * | Responses | Chat |
 * |---|---|
 * | `function` | nested function |
 * | `custom` | function with one string argument `input`; its grammar is in the description, not enforced |
 * | `namespace` | its tools, each named `<namespace>__<name>` |
 * | a hosted tool (web_search, file_search, mcp, …) | left out: no chat provider executes it, and the model may do without |
 * | `tool_choice` of a tool that is left out or was never sent | refused: the client demands it |
 * | `tool_choice: "required"` with no callable tool | refused |
 * | `tool_choice: {type: "allowed_tools"}` | only those tools are sent, and its mode is the choice; one that was never sent is refused |
 * | a function or custom tool without a name | refused |
 * | no callable tool | `tool_choice` and `parallel_tool_calls` are not sent |
 */
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject } from '../json.ts';
import { type Refused, refuse } from '../refusal.ts';
import { chatToolName, eachCallableTool, type ToolIdentity } from './tool-names.ts';

export interface ChatTools {
  readonly ok: true;
  /** `tools`, `tool_choice` and `parallel_tool_calls`, if they are sent. */
  readonly members: JsonObject;
}

interface NamedTool {
  readonly name: string;
  readonly identity: ToolIdentity;
  readonly tool: JsonObject;
}

export function chatTools(body: JsonObject): ChatTools | Refused {
  const callable: NamedTool[] = [];
  if (Array.isArray(body['tools'])) {
    const nameless = namelessTool(body['tools'], 'tools');
    if (nameless !== undefined) return nameless;
    eachCallableTool(body['tools'], (tool, identity) => {
      const name = chatToolName(identity.name, identity.namespace);
      callable.push({ name, identity, tool: chatTool(tool, name) });
    });
  }
  const toolChoice = body['tool_choice'];
  if (!isObject(toolChoice) || toolChoice['type'] !== 'allowed_tools') return chosen(body, callable, toolChoice);
  const { tools, mode } = isObject(toolChoice['allowed_tools']) ? toolChoice['allowed_tools'] : toolChoice;
  const allowed = Array.isArray(tools) ? tools.filter(isObject) : [];
  const unknownTool = allowed.find(
    (entry) => isCallableType(entry['type']) && !callable.some(({ identity }) => isSelected(entry, identity)),
  );
  if (unknownTool !== undefined) return notAmongTools(unknownTool);
  const left = callable.filter(({ identity }) => allowed.some((entry) => isSelected(entry, identity)));
  return chosen(body, left, filled(mode) ?? 'auto');
}

function isCallableType(type: unknown): boolean {
  return type === 'function' || type === 'custom' || type === 'namespace';
}

/** Refuses a tool without a name: no model could call it, and it would be lost silently. */
function namelessTool(tools: readonly unknown[], path: string): Refused | undefined {
  for (const [index, tool] of tools.entries()) {
    if (!isObject(tool) || !isCallableType(tool['type'])) continue;
    const nested = tool['function'];
    const name = filled(tool['name']) ?? (isObject(nested) ? filled(nested['name']) : undefined);
    const param = `${path}[${index}].name`;
    if (name === undefined) {
      return refuse('missing_required_parameter', param, `Missing required parameter: '${param}'.`);
    }
    if (tool['type'] !== 'namespace' || !Array.isArray(tool['tools'])) continue;
    const inside = namelessTool(tool['tools'], `${path}[${index}].tools`);
    if (inside !== undefined) return inside;
  }
  return undefined;
}

function chosen(body: JsonObject, callable: readonly NamedTool[], toolChoice: unknown): ChatTools | Refused {
  const members: Record<string, unknown> = {};
  if (callable.length > 0) {
    members['tools'] = callable.map((entry) => entry.tool);
    if (typeof body['parallel_tool_calls'] === 'boolean') members['parallel_tool_calls'] = body['parallel_tool_calls'];
  }
  if (isObject(toolChoice)) {
    const found = callable.find((entry) => isSelected(toolChoice, entry.identity));
    if (found === undefined) return notAmongTools(toolChoice);
    members['tool_choice'] = { type: 'function', function: { name: found.name } };
  } else if (toolChoice === 'required' && callable.length === 0) {
    return refuse(
      'invalid_value',
      'tool_choice',
      "tool_choice is 'required', but no tool is given that this model's provider can call.",
    );
  } else if (typeof toolChoice === 'string' && toolChoice !== '' && callable.length > 0) {
    members['tool_choice'] = toolChoice;
  }
  return { ok: true, members };
}

function notAmongTools(toolChoice: JsonObject): Refused {
  const what = String(filled(toolChoice['name']) ?? toolChoice['type']);
  return refuse(
    'invalid_value',
    'tool_choice',
    `tool_choice demands '${what}', which is not among the tools that this model's provider can call. ` +
      'Give it as a function tool, or choose a provider with a native Responses API.',
  );
}

/** Whether a `tool_choice` object (or an entry of its allowed tools) refers to this tool. */
function isSelected(choice: JsonObject, tool: ToolIdentity): boolean {
  if (choice['type'] === 'namespace') return choice['name'] === tool.namespace;
  if (choice['type'] !== tool.kind) return false;
  const nested = choice['function'];
  const name = choice['name'] ?? (isObject(nested) ? nested['name'] : undefined);
  const namespace = filled(choice['namespace']);
  return name === tool.name && (namespace === undefined || namespace === tool.namespace);
}

function chatTool(tool: JsonObject, name: string): JsonObject {
  if (tool['type'] === 'custom') {
    return {
      type: 'function',
      function: {
        name,
        description: customDescription(tool),
        parameters: {
          type: 'object',
          properties: { input: { type: 'string', description: 'The whole input of the tool, as plain text.' } },
          required: ['input'],
          additionalProperties: false,
        },
      },
    };
  }
  const { type, function: nested, name: _name, description, parameters, strict, ...rest } = tool;
  const given = isObject(nested) ? nested : { description, parameters, strict };
  const members: Record<string, unknown> = { name };
  for (const [member, value] of Object.entries(given)) {
    if (member !== 'name' && value !== null && value !== undefined) members[member] = value;
  }
  const beside: Record<string, unknown> = {};
  for (const [member, value] of Object.entries(rest)) {
    if (value !== null && !responsesOnly.has(member)) beside[member] = value;
  }
  return { type, ...beside, function: members };
}

/** Members of a function tool for OpenAI's own tool search and programmatic calling: no effect elsewhere. */
const responsesOnly = new Set(['allowed_callers', 'async', 'defer_loading', 'output_schema']);

function customDescription(tool: JsonObject): string {
  const description = filled(tool['description']) ?? '';
  const format = tool['format'];
  if (!isObject(format) || typeof format['definition'] !== 'string') return description;
  const grammar = `The input must match this ${String(format['syntax'] ?? '')} grammar:\n${format['definition']}`;
  return description === '' ? grammar : `${description}\n\n${grammar}`;
}
